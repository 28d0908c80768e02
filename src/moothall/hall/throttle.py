"""What happens to a session that is over its limits (seed 000, rate limiting).

Each frame over a limit is refused with RATE_LIMITED, up to as many per window as the limit allows frames. Then the
session is held: the hall reads nothing more from its connection until the window allows. Unread frames are not
lost. A frame over the budget of its address is not refused: it waits, and the session with it. With
`over_budget = "wait"` the same goes for its own budget.
"""

from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from moothall.errors import RateLimited
from moothall.hall.budgets import Price
from moothall.hall.costs import ANSWER
from moothall.hall.session import Session, Tier
from moothall.wire.agentchat.names import TOO_FAST
from moothall.wire.websocket import POLICY_VIOLATION

if TYPE_CHECKING:
    from moothall.hall.commands import Row
    from moothall.hall.hall import Hall


# To decode a value of a long frame takes as long as to decode this many bytes of text. Values are counted by their
# commas. They cost at most a quarter of an address's budget: a dear command is charged besides, and must still fit
# (see `put_off`).
LONG_FRAME: Final = 4096
BYTES_PER_VALUE: Final = 64
MOST_FOR_VALUES: Final = 400_000


class Excess(NamedTuple):
    """Why a frame is over a limit: the frame limit of its connection, or a budget."""

    seconds: float  # until the budget can pay; 0: it is the frame limit
    waits: bool  # it is not to be refused, but handled later


def count(hall: "Hall", session: Session, size: int) -> Excess | None:
    """Count one more frame, before it is decoded. None: it is within all limits."""
    meter = session.meter
    if meter is None:
        return None
    prepaid = min(meter.prepaid, size) if meter.prepaid else 0
    excess = charge(hall, session, Price(1, size - prepaid))
    if excess is not None and excess.waits:
        return excess
    meter.prepaid -= prepaid
    if meter.frames is not None and not meter.frames.count(hall.now()):
        return Excess(0.0, waits=False)
    return excess


def reading_size(payload: bytes) -> int:
    """The size of a text without structure that takes as long to decode."""
    size = len(payload)
    if size < LONG_FRAME:
        return size
    return size + min(BYTES_PER_VALUE * payload.count(b","), MOST_FOR_VALUES)


def charge(hall: "Hall", session: Session, price: Price) -> Excess | None:
    """None: the budgets can pay, and were charged."""
    shortage = None if session.meter is None else session.meter.charge(price, hall.now())
    if shortage is None:
        return None
    return Excess(shortage.seconds, shortage.is_address or hall.settings.over_budget == "wait")


def charge_command(
    hall: "Hall", session: Session, command: "Row", message: object, size: int
) -> Excess | None:
    """The same for what a command costs besides its frame."""
    if session.meter is None or command.cost is ANSWER:
        return None
    return charge(hall, session, command.cost.price(hall, session, message, size))


def owe(hall: "Hall", session: Session, size: int) -> None:
    """An answer turned out long: the bytes are charged afterwards, and the next command waits for them."""
    if session.meter is not None:
        session.meter.owe(Price(bytes=size), hall.now())


def refuse(hall: "Hall", session: Session, excess: Excess) -> None:
    """Tell the sender. Over the frame limit, strangers are closed instead."""
    if excess.seconds:
        hall.refuse(session, _over_budget("This frame", excess.seconds))
    elif _closes(hall, session):
        _close(hall, session)
    else:
        hall.refuse(session, RateLimited("Too many messages; slow down"))


def count_excess(hall: "Hall", session: Session, excess: Excess) -> None:
    """The same for a frame that was answered already, or that gets no answer."""
    if not excess.seconds and _closes(hall, session):
        _close(hall, session)
    else:
        count_refusal(hall, session)


def stop(hall: "Hall", session: Session, command: "Row", payload: bytes, excess: Excess) -> None:
    """A command is over a budget: it is refused, or put off."""
    if not excess.waits:
        raise _over_budget(command.name, excess.seconds)
    if session.windows is not None and (window := session.windows.get(command.name)) is not None:
        window.forgive()
    hall.tally.received[command.name] -= 1
    put_off(hall, session, payload, excess, counted=True)


def put_off(hall: "Hall", session: Session, payload: bytes, excess: Excess, *, counted: bool = False) -> None:
    """Handle this frame when the budget can pay for it, and those behind it after it.

    One that was `counted` already will be counted, decoded and charged again: there must be room for that too, or
    it would wait for ever.
    """
    seconds = excess.seconds
    if counted and session.meter is not None:
        if session.meter.frames is not None:
            session.meter.frames.forgive()
        seconds += session.meter.refill_time(Price(frames=1, bytes=reading_size(payload)), hall.now())
    session.keep(payload, first=True)
    hold(hall, session, seconds)


def _over_budget(what: str, seconds: float) -> RateLimited:
    return RateLimited(f"{what} costs more than your budget has left; try again in {ceil(seconds)} s")


def _closes(hall: "Hall", session: Session) -> bool:
    return session.tier is Tier.STRANGER or hall.settings.flood_closes


def _close(hall: "Hall", session: Session) -> None:
    agent_id = session.agent.id if session.agent is not None else None
    frames = session.meter.frames if session.meter is not None else None
    messages = 1 if frames is None else len(frames) + 1
    hall.note("rate_limit_exceeded", ip=session.ip, agent=agent_id, messages=messages)
    hall.close(session, POLICY_VIOLATION, TOO_FAST)


def count_refusal(hall: "Hall", session: Session) -> None:
    """Count a frame that was refused as over a limit. After several the session is held."""
    meter = session.meter
    if meter is None or meter.refusals is None:
        return
    now = hall.now()
    meter.refusals.count(now)
    if wait := meter.refusals.wait(now):
        hold(hall, session, wait)


def hold(hall: "Hall", session: Session, seconds: float) -> None:
    """Read nothing more from the session for this long."""
    if session.held is not None or session.closed:
        return
    hall.tally.throttled += 1
    if not session.throttled:
        session.throttled = True
        if hall.may_log("throttled"):
            hall.log.info("throttled", ip=session.ip, agent=session.agent and session.agent.id)
    hall.durable.pause(session)
    session.held = hall.agenda.at(hall.now() + seconds, lambda: _let_go(hall, session))


def _let_go(hall: "Hall", session: Session) -> None:
    session.held = None
    hall.durable.catch_up(session)
