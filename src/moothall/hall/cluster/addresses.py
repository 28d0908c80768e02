"""What nodes tell each other of addresses, so that their limits hold for the hall and not for each node."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from moothall.hall.cluster.nodes import RENEWAL_SECONDS, Node
from moothall.hall.shared_budgets import MOST_TOLD, SharedAccounts
from moothall.wire.bus import EVERY_NODE, BadPacket, BusMessage, Origin
from moothall.wire.origins import is_loopback

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster

REPORT_SECONDS: Final = 3.0  # that a report counts, if no other one follows


class Loads(BusMessage, frozen=True):
    """What addresses have spent at this node since its last report. An address that is missing has spent little."""

    KIND: ClassVar = "address-loads"

    loads: dict[str, float]


class WrongKey(BusMessage, frozen=True):
    """A client of this address has sent a wrong admin key."""

    KIND: ClassVar = "address-wrong-key"

    ip: str


class _Report(NamedTuple):
    loads: dict[str, float]
    ends: float


class Addresses:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._hall = cluster.hall
        self._accounts = SharedAccounts(self._hall.budgets.address_rates)
        self._hall.budgets.shared = self._accounts
        self._began = self._hall.now()
        self._reports: dict[str, _Report] = {}  # the last one of each other node
        cluster.handle(Loads, self._hear)
        cluster.handle(WrongKey, self._hear_wrong_key)
        cluster.nodes.on_pulse(self._pulse)
        cluster.nodes.on_gone(self._lose)

    @property
    def portions(self) -> Mapping[str, float]:
        """Of addresses that have less than all of their budget here, because they spend it at other nodes."""
        return self._accounts.portions

    def tell_wrong_key(self, ip: str) -> None:
        """All nodes count it, so that an address has no more attempts by going to several of them."""
        if not is_loopback(ip):
            self._cluster.publish(EVERY_NODE, WrongKey(ip))

    def _hear_wrong_key(self, origin: Origin, message: WrongKey) -> None:
        self._hall.door.admin_failed(message.ip, self._hall.now())

    # -- budgets -----------------------------------------------------------------------------------

    @property
    def _nodes(self) -> int:
        return 1 + len(self._cluster.nodes.live)

    def _pulse(self) -> None:
        now, accounts = self._hall.now(), self._accounts
        has_told, began, self._began = bool(accounts.loads), self._began, now
        # A pulse can be late or early. What was spent in a very short time says little.
        accounts.end_period(max(now - began, RENEWAL_SECONDS / 2), self._nodes)
        if has_told or accounts.loads:
            self._cluster.publish(EVERY_NODE, Loads(accounts.loads))
        for node in [node for node, report in self._reports.items() if report.ends <= now]:
            self._drop(node)
        self._divide({address for report in self._reports.values() for address in report.loads})

    def _hear(self, origin: Origin, message: Loads) -> None:
        if len(message.loads) > MOST_TOLD or not all(load >= 0 for load in message.loads.values()):
            raise BadPacket("A node told of a negative load, or of too many addresses")
        before = self._reports.get(origin.node)
        self._reports[origin.node] = _Report(message.loads, self._hall.now() + REPORT_SECONDS)
        self._divide(message.loads.keys() | (before.loads.keys() if before is not None else set()))

    def _lose(self, node: Node) -> None:
        self._drop(node.name)

    def _drop(self, node: str) -> None:
        report = self._reports.pop(node, None)
        if report is not None:
            self._divide(set(report.loads))

    def _divide(self, addresses: set[str]) -> None:
        others = [report.loads for report in self._reports.values()]
        self._accounts.divide(addresses, others, self._nodes)
