"""Frames that the decoder does not take: read the slow way, refused or ignored."""

from typing import TYPE_CHECKING, Final

from moothall.errors import InvalidMessage
from moothall.hall import throttle
from moothall.hall.budgets import Price
from moothall.hall.session import Session
from moothall.hall.throttle import Excess
from moothall.wire.agentchat.client import ClientMessage
from moothall.wire.agentchat.codec import Malformed, Slow, decode, read_ref

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

# Text with a lone surrogate takes many times as long to decode (see `codec`), and is charged as so many bytes.
SLOW_READING: Final = 32


def read_odd(hall: "Hall", session: Session, payload: bytes, excess: Excess | None) -> ClientMessage | None:
    """What the decoder did not take: read the slow way, or else refused or ignored."""
    try:
        try:
            return decode(payload, slowly=False)
        except Slow:
            if excess is None:
                excess = throttle.charge(hall, session, Price(bytes=SLOW_READING * len(payload)))
            if excess is None:
                return decode(payload)
            session.ref = None
            if excess.waits:
                throttle.put_off(hall, session, payload, excess, counted=True)
            else:
                throttle.refuse(hall, session, excess)
            return None
    except Malformed:
        session.ref = None
        _ignore(hall, session)
    except InvalidMessage as refusal:
        session.ref = read_ref(payload)
        hall.refuse(session, refusal)
    if excess is not None:
        throttle.count_excess(hall, session, excess)
    return None


def _ignore(hall: "Hall", session: Session) -> None:
    """Not JSON: counted and logged, answered only if the settings say so."""
    hall.tally.malformed += 1
    if hall.may_log("malformed_message"):
        hall.log.info("malformed_message", ip=session.ip, agent=session.agent and session.agent.id)
    if hall.settings.answer_malformed:
        hall.refuse(session, InvalidMessage("Not JSON"))
