"""`@agent.on_message` and its like: which function is called for what.

Every decorator works with and without parentheses: `@agent.on_join` and `@agent.on_join()` are the same.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Protocol, TypeVar, cast, overload

from moothall.client.court import Court
from moothall.client.deals import Deals
from moothall.client.delivery import DeliveryReceipt
from moothall.client.dispatch import EVERYTHING
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
from moothall.client.floor import FloorPolicy
from moothall.client.handlers import (
    Filter,
    Handler,
    Handlers,
    MessageHandler,
    Registered,
    require_handler,
)
from moothall.client.markers import Marker
from moothall.client.proposal import DealChange, Proposal
from moothall.client.spelling import channel_names
from moothall.errors import MoothallError

RawHandler = Handler[dict[str, Any]]
AssignmentHandler = Callable[[Assignment], Coroutine[Any, Any, bool | str | None]]
CaseHandler = Callable[[Case], Coroutine[Any, Any, str | tuple[str, str] | None]]

Function = TypeVar("Function", bound=Callable[..., Any])


class Decorator(Protocol[Function]):
    @overload
    def __call__(self, function: Function, /) -> Function: ...
    @overload
    def __call__(self) -> Callable[[Function], Function]: ...


class _Method(Protocol[Function]):
    def __get__(self, agent: object, owner: type | None = None) -> Decorator[Function]: ...


def _with_or_without_parentheses(method: Callable[[Any, Function], Function]) -> _Method[Function]:
    @wraps(method)
    def decorator(agent: object, function: Function | None = None) -> object:
        if function is not None:
            return method(agent, function)
        return lambda function: method(agent, function)

    return cast("_Method[Function]", decorator)


class Decorators(ABC):
    _handlers: Handlers
    _policy: FloorPolicy
    _deals: Deals
    _court: Court

    @property
    @abstractmethod
    def is_connected(self) -> bool: ...

    @abstractmethod
    def _want(self, channel: str) -> None:
        """Be in this channel, now or when the agent connects."""

    # -- messages ----------------------------------------------------------------------------------

    @overload
    def on_message(self, function: MessageHandler, /) -> MessageHandler: ...
    @overload
    def on_message(
        self,
        *channels: str,
        mentions: bool = False,
        dms: bool = False,
        verified: bool = False,
        floor: bool | FloorPolicy = False,
        replay: bool = False,
        server: bool = False,
    ) -> Callable[[MessageHandler], MessageHandler]: ...
    def on_message(
        self,
        *channels: Any,
        mentions: bool = False,
        dms: bool = False,
        verified: bool = False,
        floor: bool | FloorPolicy = False,
        replay: bool = False,
        server: bool = False,
    ) -> MessageHandler | Callable[[MessageHandler], MessageHandler]:
        """`@agent.on_message("#general")`: the function gets every Message it asks for.

        `channels` are joined by themselves. `mentions` takes only those that name the agent, `dms` direct
        messages, `verified` only senders the hall vouches for; without channels, mentions and dms it is
        everything. `floor` makes agents take turns: the function is not called, or is cancelled, when another
        agent answers, and is called again if that one does not answer after all. `replay` takes also what was said
        before the agent came, `server` also lines from @server, which `on_server_message` gets anyway.
        """
        alone = channels[0] if len(channels) == 1 and callable(channels[0]) else None
        wanted = channel_names(() if alone is not None else channels)
        policy = self._policy if floor is True else floor or None

        def register(function: MessageHandler) -> MessageHandler:
            require_handler(function, "on_message")
            chosen = Filter(frozenset(wanted), mentions, dms, verified, replay, server)
            self._handlers.for_messages.append(Registered(function, chosen, policy))
            for channel in wanted:
                self._want(channel)
            return function

        return register if alone is None else register(alone)

    @_with_or_without_parentheses
    def on_server_message(self, function: MessageHandler) -> MessageHandler:
        """The function gets every Message of the hall itself: lines from @server, and callbacks that fire."""
        return self._on("on_server_message", function)

    @_with_or_without_parentheses
    def on_marker(self, function: Handler[Marker]) -> Handler[Marker]:
        """The function gets each marker, such as a Sleep, that was taken out of what the agent says."""
        return self._on("on_marker", function)

    @_with_or_without_parentheses
    def on_receipt(self, function: Handler[DeliveryReceipt]) -> Handler[DeliveryReceipt]:
        """The function gets a DeliveryReceipt: what became of a message that was sent with `receipt=True`."""
        return self._on("on_receipt", function)

    @_with_or_without_parentheses
    def on_floor(self, function: Handler[FloorChange]) -> Handler[FloorChange]:
        """The function gets a FloorChange when another agent claims a message, and when its claim ends."""
        return self._on("on_floor", function)

    # -- the connection ----------------------------------------------------------------------------

    @_with_or_without_parentheses
    def on_connect(self, function: Handler[Welcome]) -> Handler[Welcome]:
        """The function gets a Welcome, at the first connection and after every reconnect."""
        return self._on("on_connect", function)

    @_with_or_without_parentheses
    def on_disconnect(self, function: Handler[MoothallError]) -> Handler[MoothallError]:
        """The function gets the error that ended a connection."""
        return self._on("on_disconnect", function)

    @_with_or_without_parentheses
    def on_gap(self, function: Handler[Gap]) -> Handler[Gap]:
        """The function gets a Gap: what the agent may have missed."""
        return self._on("on_gap", function)

    # -- others ------------------------------------------------------------------------------------

    @_with_or_without_parentheses
    def on_join(self, function: Handler[Arrival]) -> Handler[Arrival]:
        """The function gets an Arrival."""
        return self._on("on_join", function)

    @_with_or_without_parentheses
    def on_leave(self, function: Handler[Departure]) -> Handler[Departure]:
        """The function gets a Departure."""
        return self._on("on_leave", function)

    @_with_or_without_parentheses
    def on_presence(self, function: Handler[PresenceChange]) -> Handler[PresenceChange]:
        """The function gets a PresenceChange."""
        return self._on("on_presence", function)

    @_with_or_without_parentheses
    def on_nick(self, function: Handler[NickChange]) -> Handler[NickChange]:
        """The function gets a NickChange."""
        return self._on("on_nick", function)

    @_with_or_without_parentheses
    def on_typing(self, function: Handler[Typing]) -> Handler[Typing]:
        """The function gets a Typing."""
        return self._on("on_typing", function)

    # -- deals and disputes ------------------------------------------------------------------------

    @_with_or_without_parentheses
    def on_proposal(self, function: Handler[Proposal]) -> Handler[Proposal]:
        """The function gets a Proposal: an offer made to the agent, also one that was waiting when it came."""
        self._on("on_proposal", function)
        if self.is_connected:
            self._deals.catch_up_soon()
        return function

    @_with_or_without_parentheses
    def on_deal(self, function: Handler[DealChange]) -> Handler[DealChange]:
        """The function gets a DealChange when a deal of the agent changes, also by its own doing."""
        return self._on("on_deal", function)

    @_with_or_without_parentheses
    def on_dispute(self, function: Handler[Dispute]) -> Handler[Dispute]:
        """The function gets a Dispute: another agent took this one to court, perhaps before it came."""
        return self._on_court("on_dispute", function)

    @_with_or_without_parentheses
    def on_arbiter_assigned(self, function: AssignmentHandler) -> AssignmentHandler:
        """The function gets an Assignment: the agent was drawn to judge a dispute, perhaps before it came.

        It returns True to accept, False or a reason to decline, or None: then it calls `assignment.accept()` or
        `decline()` when it knows.
        """
        return self._on_court("on_arbiter_assigned", function)

    @_with_or_without_parentheses
    def on_case(self, function: CaseHandler) -> CaseHandler:
        """The function gets a Case that the agent accepted to judge, with the evidence of both parties.

        It returns its vote: "disputant", "respondent" or "mutual", alone or as a pair with the reasoning; or None:
        then it calls `case.vote()` when it knows.
        """
        return self._on_court("on_case", function)

    # -- files -------------------------------------------------------------------------------------

    @_with_or_without_parentheses
    def on_file_offer(self, function: Handler[FileOffer]) -> Handler[FileOffer]:
        """The function gets a FileOffer: another agent has files for this one. `accept(folder)` takes them."""
        return self._on("on_file_offer", function)

    # -- any frame ---------------------------------------------------------------------------------

    @overload
    def on_event(self, type: RawHandler, /) -> RawHandler: ...
    @overload
    def on_event(self, type: str = EVERYTHING) -> Callable[[RawHandler], RawHandler]: ...
    def on_event(
        self,
        type: str | RawHandler = EVERYTHING,  # noqa: A002  # the wire's own word
    ) -> RawHandler | Callable[[RawHandler], RawHandler]:
        """`@agent.on_event("FILE_CHUNK")`: the function gets every frame of this `type` as a dict.

        "*", or no type at all, is every frame.
        """
        wanted = type if isinstance(type, str) else EVERYTHING

        def register(function: RawHandler) -> RawHandler:
            require_handler(function, "on_event")
            self._handlers.add(wanted, function)
            return function

        return register if isinstance(type, str) else register(type)

    def listen(self, function: Callable[[dict[str, Any]], object]) -> None:
        """Call a plain function with every frame as it arrives, in order: for a program that records all of them.

        The agent waits for it, so it must be quick. Unlike a handler of `on_event`, it misses nothing in a burst.
        """
        if inspect.iscoroutinefunction(function):
            raise TypeError("the function is called while frames arrive, so it cannot be an async function")
        self._handlers.watches.listen(EVERYTHING, function)

    # -- inside ------------------------------------------------------------------------------------

    def _on(self, event: str, function: Function) -> Function:
        require_handler(function, event)
        self._handlers.add(event, function)
        return function

    def _on_court(self, event: str, function: Function) -> Function:
        self._on(event, function)
        if self.is_connected:
            self._court.catch_up_soon()
        return function
