"""Messages to an agent that goes from one node to another: they follow it, and keep their order.

The sender's node hears of the move later than the agent has its WELCOME. What it sends to the former node until
then is sent on from there. When it has heard, what it sends to the new node waits until all of that has passed.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeVar

from msgspec.structs import replace

from moothall.wire.bus import BusMessage, Origin

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster

MAX_MOVES: Final = 3  # of an agent, while a message is on its way to it
MAX_LEFT: Final = 4096  # agents that have left a node, and may arrive at another one
MAX_HELD: Final = 1000  # messages to one agent that wait
# That messages wait, if no answer comes: it is lost, or the node is of the version before.
HOLD_SECONDS: Final = 1.0


class AskPassed(BusMessage, frozen=True):
    """To the node that an agent has left, and on to where it is: say when this message has come there.

    What was sent to the agent before takes the same way, so it is there by then.
    """

    KIND: ClassVar = "agent-ask-passed"

    id: str
    number: int
    asker: str
    moves: int = 0


class IsPassed(BusMessage, frozen=True):
    """To the node that asked."""

    KIND: ClassVar = "agent-is-passed"

    number: int


class Holding(Protocol):
    """The link of an agent of another node."""

    has_sent: bool  # anything

    def hold(self) -> None:
        """Keep what is put, until `release` is called."""

    def release(self) -> None: ...


Follower = TypeVar("Follower", bound=BusMessage)


class Moves:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._hall = cluster.hall
        self._left: OrderedDict[str, str] = OrderedDict()  # by agent: nodes where this one sent it something
        self._waiting: dict[int, Callable[[], None]] = {}
        self._number = 0
        cluster.handle(AskPassed, self._asked)
        cluster.handle(IsPassed, self._passed)

    # -- at the node that the agent has left ---------------------------------------------------------

    def place_of(self, agent_id: str) -> str:
        """The other node that the agent has gone to; "" if it is here, or this node does not know."""
        agent = self._hall.roster.agents.get(agent_id)
        return agent.node if agent is not None else self._cluster.ownership.heir_of(agent_id)

    def send_on(self, message: Follower, agent_id: str, moves: int) -> bool:
        """Send a message to where the agent has gone. False: that is not known, or the agent goes round and round.

        `moves` is that of the message.
        """
        node = self.place_of(agent_id)
        if not node or moves >= MAX_MOVES:
            return False
        self._cluster.send(node, replace(message, moves=moves + 1))
        return True

    def _asked(self, origin: Origin, message: AskPassed) -> None:
        if self.send_on(message, message.id, message.moves):
            return
        if message.asker == self._cluster.name:
            self._end(message.number)
        else:
            self._cluster.send(message.asker, IsPassed(message.number))

    # -- at the node of a sender ---------------------------------------------------------------------

    def left(self, agent_id: str, node: str, link: Holding) -> None:
        """The agent has left this node, which lives on."""
        link.release()
        if link.has_sent:
            self._left[agent_id] = node
            self._left.move_to_end(agent_id)
            if len(self._left) > MAX_LEFT:
                self._left.popitem(last=False)

    def arrived(self, agent_id: str, node: str, link: Holding) -> None:
        former = self._left.pop(agent_id, node)
        if former == node or former not in self._cluster.nodes.live:
            return
        self._number += 1
        number = self._number
        link.hold()
        self._waiting[number] = link.release
        self._cluster.send(former, AskPassed(agent_id, number, self._cluster.name))
        self._hall.agenda.at(self._hall.now() + HOLD_SECONDS, lambda: self._end(number))

    def _passed(self, origin: Origin, message: IsPassed) -> None:
        self._end(message.number)

    def _end(self, number: int) -> None:
        release = self._waiting.pop(number, None)
        if release is not None:
            release()
