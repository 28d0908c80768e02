"""The events of an agent of the mesh: one per type of message, and those of the hall."""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar, get_args

from moothall.client.handlers import Handler, Handlers, require_handler
from moothall.errors import MoothallError
from moothall.mesh.events import Assigned, Away, Change, Missed
from moothall.mesh.message import Message
from moothall.wire.mesh.msg_types import MsgType

HallEvent = Literal["connect", "disconnect", "notary", "change", "away", "missed"]
ALL: Final = "*"  # every message
_KNOWN: Final = frozenset((ALL, *(each.name for each in MsgType), *get_args(HallEvent)))

F = TypeVar("F", bound=Handler[Any])
OnMessage = TypeVar("OnMessage", bound=Handler[Message])
OnAssigned = TypeVar("OnAssigned", bound=Handler[Assigned])
OnChange = TypeVar("OnChange", bound=Handler[Change])
OnAway = TypeVar("OnAway", bound=Handler[Away])
OnMissed = TypeVar("OnMissed", bound=Handler[Missed])
OnConnect = TypeVar("OnConnect", bound=Handler[str])
OnDisconnect = TypeVar("OnDisconnect", bound=Handler[MoothallError])


class Decorators:
    """Handlers are async functions with one argument. Each call is a task of its own; what it raises is logged."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def on(self, event: str) -> Callable[[F], F]:
        """`@agent.on("PROPOSE")`: a handler for one type of message, for all of them ("*"), or for an event of the
        hall: "connect", "disconnect", "notary", "change", "away", "missed".

        `event` is its name. Returns the decorator. Raises ValueError if there is no such event.
        """
        if event not in _KNOWN:
            raise ValueError(f"there is no event {event!r}: choose one of {', '.join(sorted(_KNOWN))}")

        def register(function: F) -> F:
            require_handler(function, f'on("{event}")')
            self._handlers.add(event, function)
            return function

        return register

    def on_message(self, function: OnMessage) -> OnMessage:
        """`@agent.on_message`: every message. The handler `function` gets a Message."""
        return self.on(ALL)(function)

    def on_advertise(self, function: OnMessage) -> OnMessage:
        """`@agent.on_advertise`: an agent says what it offers. The handler `function` gets a Message."""
        return self.on("ADVERTISE")(function)

    def on_discover(self, function: OnMessage) -> OnMessage:
        """`@agent.on_discover`: an agent looks for a capability. The handler `function` gets a Message."""
        return self.on("DISCOVER")(function)

    def on_propose(self, function: OnMessage) -> OnMessage:
        """`@agent.on_propose`: an offer to this agent, which opens a conversation. The handler `function` gets a
        Message."""
        return self.on("PROPOSE")(function)

    def on_counter(self, function: OnMessage) -> OnMessage:
        """`@agent.on_counter`: another offer in a conversation. The handler `function` gets a Message."""
        return self.on("COUNTER")(function)

    def on_accept(self, function: OnMessage) -> OnMessage:
        """`@agent.on_accept`: the other party accepts. The handler `function` gets a Message."""
        return self.on("ACCEPT")(function)

    def on_reject(self, function: OnMessage) -> OnMessage:
        """`@agent.on_reject`: the other party ends the conversation. The handler `function` gets a Message."""
        return self.on("REJECT")(function)

    def on_deliver(self, function: OnMessage) -> OnMessage:
        """`@agent.on_deliver`: work for this agent. The handler `function` gets a Message."""
        return self.on("DELIVER")(function)

    def on_bid(self, function: OnMessage) -> OnMessage:
        """`@agent.on_bid`: a NOTARIZE_BID, which asks for a notary or offers one. The handler `function` gets a
        Message."""
        return self.on("NOTARIZE_BID")(function)

    def on_assign(self, function: OnMessage) -> OnMessage:
        """`@agent.on_assign`: a NOTARIZE_ASSIGN: this agent is the notary of a conversation.

        The handler `function` gets a Message.
        """
        return self.on("NOTARIZE_ASSIGN")(function)

    def on_verdict(self, function: OnMessage) -> OnMessage:
        """`@agent.on_verdict`: a judgement on a delivery. The handler `function` gets a Message."""
        return self.on("VERDICT")(function)

    def on_feedback(self, function: OnMessage) -> OnMessage:
        """`@agent.on_feedback`: an agent rates another one. The handler `function` gets a Message."""
        return self.on("FEEDBACK")(function)

    def on_dispute(self, function: OnMessage) -> OnMessage:
        """`@agent.on_dispute`: a party challenges a delivery or a verdict.

        The handler `function` gets a Message.
        """
        return self.on("DISPUTE")(function)

    def on_beacon(self, function: OnMessage) -> OnMessage:
        """`@agent.on_beacon`: an agent is there. The handler `function` gets a Message."""
        return self.on("BEACON")(function)

    def on_broadcast(self, function: OnMessage) -> OnMessage:
        """`@agent.on_broadcast`: content on a topic that this agent has subscribed to.

        The handler `function` gets a Message.
        """
        return self.on("BROADCAST")(function)

    def on_bounty(self, function: OnMessage) -> OnMessage:
        """`@agent.on_bounty`: an open call for work. The handler `function` gets a Message."""
        return self.on("BOUNTY")(function)

    def on_notary(self, function: OnAssigned) -> OnAssigned:
        """`@agent.on_notary`: the hall assigned a notary to a conversation. The handler `function` gets an
        Assigned."""
        return self.on("notary")(function)

    def on_change(self, function: OnChange) -> OnChange:
        """`@agent.on_change`: a conversation changed without an envelope to this agent.

        The handler `function` gets a Change.
        """
        return self.on("change")(function)

    def on_away(self, function: OnAway) -> OnAway:
        """`@agent.on_away`: the recipient of an envelope was not connected. The handler `function` gets an Away.

        `Sent.away` says the same, where the hall said so before it took the envelope."""
        return self.on("away")(function)

    def on_missed(self, function: OnMissed) -> OnMissed:
        """`@agent.on_missed`: the inbox had no room for all envelopes. The handler `function` gets a Missed."""
        return self.on("missed")(function)

    def on_connect(self, function: OnConnect) -> OnConnect:
        """`@agent.on_connect`: the agent is connected, for the first time or again. The handler `function` gets the
        key of the hall."""
        return self.on("connect")(function)

    def on_disconnect(self, function: OnDisconnect) -> OnDisconnect:
        """`@agent.on_disconnect`: the connection is lost. The handler `function` gets the error."""
        return self.on("disconnect")(function)
