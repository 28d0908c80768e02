"""Reads of the HTTP API that this node asks another node for.

A node knows the channels that its own agents are in. It asks the home of any other channel for the answer, and the
node of an agent for the channels of this agent. It does not follow the channel and keeps nothing, so a stranger who
asks costs the nodes one question and one answer.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from moothall.errors import Refusal, Unavailable
from moothall.hall.api_routes import AtNode, Query, Viewer
from moothall.hall.cluster import events
from moothall.hall.cluster.replicas import RESEND_SECONDS
from moothall.wire.bus import BusMessage, Origin

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster

MAX_WAITING: Final = 256  # questions of this node without an answer
# A node with members takes the place of a home that has died in less time.
PATIENCE_SECONDS: Final = 4.0
LOOK_SECONDS: Final = 0.5

DOWN: Final = "This node does not reach the other nodes of the hall, which know the answer; try again later"
SILENT: Final = "The node of this hall that knows the answer does not reply; try again"
BUSY: Final = "Too many requests wait for other nodes of this hall; try again"

# The answer of this node as JSON to a route, for the key of a viewer, with the parameters as JSON. None: this node
# does not know it. Raises Refusal.
Answering = Callable[[str, bytes | None, bytes], bytes | None]


# -- messages between nodes ------------------------------------------------------------------------


class Ask(BusMessage, frozen=True):
    KIND: ClassVar = "read-ask"

    mark: str
    route: str
    key: bytes | None  # of the viewer, as the node that asks has checked it
    query: bytes


class Answered(BusMessage, frozen=True):
    KIND: ClassVar = "read-answered"

    mark: str
    body: bytes
    refusal: bytes = b""


# -- questions -------------------------------------------------------------------------------------


class _Waiting:
    """A question without an answer."""

    __slots__ = ("ask", "done", "failed", "find", "node", "sent_at", "until")

    def __init__(
        self,
        ask: Ask,
        find: Callable[[], str | None],
        done: Callable[[bytes], None],
        failed: Callable[[Refusal], None],
        until: float,
    ) -> None:
        self.ask = ask
        self.find = find  # the node that knows the answer. None: that is not known yet
        self.done = done
        self.failed = failed
        self.until = until
        self.node: str | None = None  # that was asked last
        self.sent_at = 0.0


class Reads:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._hall = cluster.hall
        self.answer: Answering = lambda route, key, query: None  # until the API is there
        self._waiting: dict[str, _Waiting] = {}
        self._is_planned = False
        cluster.handle(Ask, self._asked)
        cluster.handle(Answered, self._answered)
        cluster.on_change(self._reach)

    def __len__(self) -> int:
        return len(self._waiting)

    def of_channel(self, channel: str, route: str, viewer: Viewer, query: Query) -> AtNode | None:
        """The answer of the home of a channel. None: this node knows it. Raises Unavailable."""
        homes = self._cluster.channels.homes
        if homes.knows(channel):
            return None
        return self._at(partial(homes.find, channel), route, viewer, query)

    def of_agent(self, key: bytes, route: str, viewer: Viewer, query: Query) -> AtNode | None:
        """The answer of the node of the agent with this key. None: this node knows it. Raises Unavailable."""
        if self._node_of(key) == self._cluster.name:
            return None
        return self._at(partial(self._node_of, key), route, viewer, query)

    def _node_of(self, key: bytes) -> str:
        agent = self._hall.roster.by_key.get(key)
        return self._cluster.name if agent is None or not agent.session.is_remote else agent.node

    def _at(self, find: Callable[[], str | None], route: str, viewer: Viewer, query: Query) -> AtNode | None:
        if not self._cluster.is_connected:
            raise Unavailable(DOWN)
        if find() == self._cluster.name:
            return None
        return AtNode(partial(self._begin, find, route, viewer.key, msgspec.json.encode(query)))

    def _begin(
        self,
        find: Callable[[], str | None],
        route: str,
        key: bytes | None,
        query: bytes,
        done: Callable[[bytes], None],
        failed: Callable[[Refusal], None],
    ) -> None:
        if len(self._waiting) >= MAX_WAITING:
            raise Unavailable(BUSY)
        # The mark names the life of this node: a later process takes no answer to an earlier one for its own.
        ask = Ask(self._cluster.channels.mark(), route, key, query)
        waiting = _Waiting(ask, find, done, failed, self._hall.now() + PATIENCE_SECONDS)
        self._waiting[ask.mark] = waiting
        self._send(waiting)
        self._plan()

    def _send(self, waiting: _Waiting) -> None:
        node, now = waiting.find(), self._hall.now()
        if node in (None, self._cluster.name):
            return
        if node != waiting.node or now - waiting.sent_at >= RESEND_SECONDS:
            waiting.node, waiting.sent_at = node, now
            self._cluster.send(node, waiting.ask)

    def _answered(self, origin: Origin, message: Answered) -> None:
        waiting = self._waiting.pop(message.mark, None)
        if waiting is not None:
            _settle(waiting, message)

    # -- time, and other nodes out of reach ----------------------------------------------------------

    def _plan(self) -> None:
        if self._waiting and not self._is_planned:
            self._is_planned = True
            self._hall.agenda.at(self._hall.now() + LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._is_planned = False
        now = self._hall.now()
        for mark, waiting in list(self._waiting.items()):
            if now >= waiting.until:
                del self._waiting[mark]
                waiting.failed(Unavailable(SILENT))
            elif waiting.find() != self._cluster.name:
                self._send(waiting)
            elif (answered := self._answer_here(waiting.ask)) is not None:
                del self._waiting[mark]
                _settle(waiting, answered)
        self._plan()

    def _reach(self, is_connected: bool) -> None:
        if not is_connected:
            lost, self._waiting = self._waiting, {}
            for waiting in lost.values():
                waiting.failed(Unavailable(DOWN))

    # -- questions of other nodes --------------------------------------------------------------------

    def _asked(self, origin: Origin, message: Ask) -> None:
        answered = self._answer_here(message)
        if answered is not None:  # else the other node finds out which one knows, and asks again
            self._cluster.send(origin.node, answered)

    def _answer_here(self, ask: Ask) -> Answered | None:
        try:
            body = self.answer(ask.route, ask.key, ask.query)
        except Refusal as refusal:
            return Answered(ask.mark, b"", events.refused(refusal))
        return None if body is None else Answered(ask.mark, body)


def _settle(waiting: _Waiting, answered: Answered) -> None:
    if answered.refusal:
        waiting.failed(events.refusal_of(events.decode_answer(answered.refusal)))
    else:
        waiting.done(answered.body)
