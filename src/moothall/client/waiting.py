"""`agent.wait_for`: the next event that passes a check, for code that waits in one place."""

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from math import inf
from typing import Any, Final, Generic, Literal, TypeVar, overload

from moothall.client.decorators import Decorators
from moothall.client.delivery import DeliveryReceipt
from moothall.client.dispute import Assignment, Case, Dispute
from moothall.client.events import (
    Arrival,
    Departure,
    FloorChange,
    Gap,
    NickChange,
    PresenceChange,
    Typing,
    Welcome,
)
from moothall.client.file_offer import FileOffer
from moothall.client.markers import Marker
from moothall.client.message import Message
from moothall.client.proposal import DealChange, Proposal
from moothall.client.watching import Watches
from moothall.errors import MoothallError, NotConnected, ReplyTimeout, UsageError

WAIT_TIMEOUT: Final = 60.0  # seconds

_PREFIX: Final = "on_"
EVENTS: Final = tuple(
    name.removeprefix(_PREFIX)
    for name in vars(Decorators)
    if name.startswith(_PREFIX) and name != Decorators.on_event.__name__
)
_is_wire_type: Final = re.compile(r"[A-Z][A-Z_]*|\*").fullmatch

Event = TypeVar("Event")
Check = Callable[[Event], object] | None
Waiting = Coroutine[Any, Any, Event]


class FirstMatch(Generic[Event]):
    """A watch that ends with the first event that passes the check."""

    def __init__(self, check: Check[Event]) -> None:
        self._check = check
        self.found: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

    def heard(self, event: str, what: Any) -> None:
        if self.found.done():
            return
        try:
            passes = self._check is None or self._check(what)
        except Exception as error:  # noqa: BLE001  # of the user's own code, and for the user
            self._fail(error)
        else:
            if passes:
                self.found.set_result(what)

    def end(self, error: BaseException | None) -> None:
        if not self.found.done():
            self._fail(error or NotConnected("the agent left the hall"))

    def _fail(self, error: BaseException) -> None:
        self.found.set_exception(error)
        self.found.exception()  # seen: perhaps no code waits for it any more


async def wait(watches: Watches, watch: FirstMatch[Event], event: str, limit: float) -> Event:
    try:
        async with asyncio.timeout(None if limit == inf else limit) as timer:
            found = await watch.found
    except TimeoutError:
        if not timer.expired():
            raise  # of the check
        raise ReplyTimeout(f"no {event!r} event came within {limit:g} s") from None
    finally:
        watches.remove(watch)
    if isinstance(found, Message):
        found.got()
    return found


def event_name(event: str) -> str:
    """As the handlers know it. Raises UsageError for an event that does not exist."""
    if event in EVENTS:
        return f"{_PREFIX}{event}"
    if _is_wire_type(event):
        return event
    near = get_close_matches(event.lower(), EVENTS, 1)
    hint = f", perhaps you mean {near[0]!r}" if near else ""
    raise UsageError(
        f"there is no event {event!r}{hint}. The events are {', '.join(sorted(EVENTS))}, and the types of the wire"
        " in capitals, such as FILE_CHUNK"
    )


class Waits(Decorators):
    @overload
    def wait_for(
        self, event: Literal["message"], check: Check[Message] = None, timeout: float | None = None
    ) -> Waiting[Message]: ...
    @overload
    def wait_for(
        self, event: Literal["server_message"], check: Check[Message] = None, timeout: float | None = None
    ) -> Waiting[Message]: ...
    @overload
    def wait_for(
        self, event: Literal["receipt"], check: Check[DeliveryReceipt] = None, timeout: float | None = None
    ) -> Waiting[DeliveryReceipt]: ...
    @overload
    def wait_for(
        self, event: Literal["marker"], check: Check[Marker] = None, timeout: float | None = None
    ) -> Waiting[Marker]: ...
    @overload
    def wait_for(
        self, event: Literal["floor"], check: Check[FloorChange] = None, timeout: float | None = None
    ) -> Waiting[FloorChange]: ...
    @overload
    def wait_for(
        self, event: Literal["connect"], check: Check[Welcome] = None, timeout: float | None = None
    ) -> Waiting[Welcome]: ...
    @overload
    def wait_for(
        self, event: Literal["disconnect"], check: Check[MoothallError] = None, timeout: float | None = None
    ) -> Waiting[MoothallError]: ...
    @overload
    def wait_for(
        self, event: Literal["gap"], check: Check[Gap] = None, timeout: float | None = None
    ) -> Waiting[Gap]: ...
    @overload
    def wait_for(
        self, event: Literal["join"], check: Check[Arrival] = None, timeout: float | None = None
    ) -> Waiting[Arrival]: ...
    @overload
    def wait_for(
        self, event: Literal["leave"], check: Check[Departure] = None, timeout: float | None = None
    ) -> Waiting[Departure]: ...
    @overload
    def wait_for(
        self, event: Literal["presence"], check: Check[PresenceChange] = None, timeout: float | None = None
    ) -> Waiting[PresenceChange]: ...
    @overload
    def wait_for(
        self, event: Literal["nick"], check: Check[NickChange] = None, timeout: float | None = None
    ) -> Waiting[NickChange]: ...
    @overload
    def wait_for(
        self, event: Literal["typing"], check: Check[Typing] = None, timeout: float | None = None
    ) -> Waiting[Typing]: ...
    @overload
    def wait_for(
        self, event: Literal["proposal"], check: Check[Proposal] = None, timeout: float | None = None
    ) -> Waiting[Proposal]: ...
    @overload
    def wait_for(
        self, event: Literal["deal"], check: Check[DealChange] = None, timeout: float | None = None
    ) -> Waiting[DealChange]: ...
    @overload
    def wait_for(
        self, event: Literal["dispute"], check: Check[Dispute] = None, timeout: float | None = None
    ) -> Waiting[Dispute]: ...
    @overload
    def wait_for(
        self,
        event: Literal["arbiter_assigned"],
        check: Check[Assignment] = None,
        timeout: float | None = None,
    ) -> Waiting[Assignment]: ...
    @overload
    def wait_for(
        self, event: Literal["case"], check: Check[Case] = None, timeout: float | None = None
    ) -> Waiting[Case]: ...
    @overload
    def wait_for(
        self, event: Literal["file_offer"], check: Check[FileOffer] = None, timeout: float | None = None
    ) -> Waiting[FileOffer]: ...
    @overload
    def wait_for(
        self, event: str, check: Check[Any] = None, timeout: float | None = None
    ) -> Waiting[Any]: ...
    def wait_for(self, event: str, check: Check[Any] = None, timeout: float | None = None) -> Waiting[Any]:
        """`await agent.wait_for("message", lambda message: message.content == "go")`: the next event of a kind.

        `event` is a decorator's name without `on_`: message, server_message, marker, receipt, floor, connect,
        disconnect, gap, join, leave, presence, nick, typing, proposal, deal, dispute, arbiter_assigned, case,
        file_offer. In capitals it is a type of the wire, such as FILE_CHUNK, and "*" is every frame. `check` is a
        plain function; the first event for which it returns a true value is the result. `timeout` is in seconds,
        60 by default, `math.inf` for no limit.

        Events count from the call on, also before the result is awaited, and through reconnects. Handlers get them
        too. Raises UsageError for an event that does not exist, ReplyTimeout when none comes in time, what `check`
        raised, and NotConnected or the reason when the agent leaves the hall.
        """
        if inspect.iscoroutinefunction(check):
            raise TypeError("`check` is called while events arrive, so it cannot be an async function")
        name = event_name(event)
        watch: FirstMatch[Any] = FirstMatch(check)
        self._handlers.watches.add(watch, name)
        return wait(self._handlers.watches, watch, event, WAIT_TIMEOUT if timeout is None else timeout)
