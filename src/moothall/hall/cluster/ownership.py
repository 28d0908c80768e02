"""Which node has an id: one at a time, and the old one is silent before the new one says WELCOME.

The registry has an entry for each id of a key: the node that has it, and which life of it. A node that wants an id
which another one has puts itself into the entry, and names the former owner there. Then it asks that node to
displace the session. The node has the id when the former owner has answered, or its life is over, and the entry
names this node alone. All of these changes fail if another node has changed the entry meanwhile.

After a node was given up, it takes its ids back before it sends anything: sessions whose id another node has by now
are displaced. An id that is not in use for `KEPT_SECONDS` is given back. While a node does not reach the others,
its own agents may come back, and other keys are refused.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import msgspec

from moothall.errors import Unavailable
from moothall.hall import takeovers
from moothall.hall.agenda import Appointment
from moothall.hall.cluster.bus import Entry
from moothall.hall.cluster.nodes import Node
from moothall.hall.session import Agent, Session
from moothall.identity import PublicKey
from moothall.wire.bus import BusMessage, Origin

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster

CLAIM_SECONDS: Final = 5.0  # after which a session that wants an id is refused
ASK_SECONDS: Final = 1.0  # before a node that did not answer is asked again
KEPT_SECONDS: Final = 30.0  # that an id stays with its node after its agent has left
MAX_TRIES: Final = 8  # changes of an entry that other nodes may come before
AT_ONCE: Final = 256  # ids that are taken back at the same time
MAX_HEIRS: Final = 4096  # nodes that are remembered, by ids that they took over from this one

CUT_OFF: Final = (
    "This node cannot reach the other nodes of the hall, so it cannot tell where this identity is connected."
    " Try again later, or connect to another node"
)
NOT_RELEASED: Final = (
    "Another node of the hall has this identity and does not answer. Try again in a few seconds"
)
OVERTAKEN: Final = "Another connection has proven this identity at the same time. Connect again to take over"


class Displace(BusMessage, frozen=True):
    """End the session of this id: the node that asks has put itself into the entry, with this revision."""

    KIND: ClassVar = "id-displace"

    id: str
    claim: int
    new_ip: str


class Released(BusMessage, frozen=True):
    """The session is ended, or there was none. With what its key has used of its rates and budgets."""

    KIND: ClassVar = "id-released"

    id: str
    claim: int
    rates: dict[str, list[float]]
    debts: list[float] = []  # noqa: RUF012


class _Owner(msgspec.Struct, omit_defaults=True):
    """The value of an entry."""

    node: str
    life: int
    former: list[tuple[str, int]] = []  # nodes and lives that may still have a session


class _Held(NamedTuple):
    life: int  # of this node
    revision: int
    key: PublicKey


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Owner).decode

Done = Callable[[None], None]
Failed = Callable[[BaseException], None]


class _Claim:
    """An id on its way to this node."""

    __slots__ = ("former", "id", "key", "next_ask", "revision", "session", "timeout", "tries", "waiters")

    def __init__(self, agent_id: str, key: PublicKey, session: Session) -> None:
        self.id = agent_id
        self.key = key
        self.session = session  # the first of those that wait for it: it pays
        self.waiters: list[tuple[Done, Failed]] = []
        self.tries = 0
        self.revision = 0
        self.former: set[tuple[str, int]] = set()  # nodes and lives that have not answered
        self.next_ask: Appointment | None = None
        self.timeout: Appointment | None = None


class Ownership:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._hall = cluster.hall
        self._nodes = cluster.nodes
        self._registry = cluster.registry
        self._held: dict[str, _Held] = {}  # the ids of this node
        self._returns: dict[str, Appointment] = {}  # of ids whose agents have left
        self._claims: dict[str, _Claim] = {}
        self._to_retake: list[Agent] = []
        self._retaking: set[str] = set()
        self._heirs: OrderedDict[str, str] = OrderedDict()  # the nodes that ids of this one went to last
        cluster.handle(Displace, self._displace)
        cluster.handle(Released, self._released)
        cluster.nodes.on_gone(self._node_gone)
        cluster.nodes.on_begun(self._begin)
        cluster.nodes.on_ended(self._end)
        cluster.nodes.on_renewed(self._retake)
        self._hall.roster.on_departure(self._departed)

    @property
    def is_settled(self) -> bool:
        """False while this node takes its ids back, after it was given up."""
        return not (self._to_retake or self._retaking)

    def claim_of(self, agent: Agent) -> int:
        """The revision of the agent's entry, 0 if it has none."""
        held = self._held.get(agent.id) if agent.key is not None else None
        return 0 if held is None else held.revision

    def heir_of(self, agent_id: str) -> str:
        """The node that this one gave the id to; "" if none had it from here lately."""
        return self._heirs.get(agent_id, "")

    def has(self, agent_id: str) -> bool:
        """True if this node has the id, or had it when it lost touch with the others."""
        held = self._held.get(agent_id)
        if held is None:
            return False
        return not self._cluster.is_connected or held.life == self._nodes.life

    # -- to this node ------------------------------------------------------------------------------

    def claim(self, session: Session, key: PublicKey, done: Done, failed: Failed) -> None:
        """Call `done` when this node has the id of the key, and no other one has a session of it."""
        agent_id = key.agent_id(self._hall.settings.id_length)
        if self.has(agent_id):
            done(None)
            return
        if not self._cluster.is_connected:
            failed(Unavailable(CUT_OFF))
            return
        claim = self._claims.get(agent_id)
        if claim is None:
            claim = self._claims[agent_id] = _Claim(agent_id, key, session)
            claim.timeout = self._hall.agenda.at(
                self._hall.now() + CLAIM_SECONDS, lambda: self._fail(claim, NOT_RELEASED)
            )
            if agent_id in self._hall.roster.agents:
                self._look(claim)
            else:
                self._enter(claim, None)  # most ids are free: then it is one question to the registry
        claim.waiters.append((done, failed))

    def _is_open(self, claim: _Claim) -> bool:
        return self._claims.get(claim.id) is claim

    def _look(self, claim: _Claim) -> None:
        claim.tries += 1
        if claim.tries > MAX_TRIES:
            self._fail(claim, OVERTAKEN)
            return
        self._registry.get("ids", claim.id, lambda entry: self._found(claim, entry), self._lost(claim))

    def _lost(self, claim: _Claim) -> Failed:
        return lambda error: self._fail(claim, CUT_OFF)

    def _found(self, claim: _Claim, entry: Entry | None) -> None:
        """Find out which of the former owners live on, then enter this node."""
        if not self._is_open(claim):
            return
        owner = _read(entry)
        owners = [] if owner is None else [(owner.node, owner.life), *map(_pair, owner.former)]
        unsure = {each for each in owners if each[0] != self._cluster.name}
        # A visitor of another wire may have the id without an entry.
        there = self._hall.roster.agents.get(claim.id)
        if there is not None and there.session.is_remote and (node := self._nodes.live.get(there.node)):
            unsure.add((node.name, node.life))
        claim.former = {each for each in unsure if self._nodes.is_alive(*each)}
        unsure -= claim.former
        if not unsure:
            self._enter(claim, entry)
            return

        def answered(asked: tuple[str, int], is_alive: bool) -> None:
            unsure.discard(asked)
            if is_alive:
                claim.former.add(asked)
            if not unsure and self._is_open(claim):
                self._enter(claim, entry)

        for asked in sorted(unsure):
            self._nodes.ask(*asked, lambda alive, asked=asked: answered(asked, alive), self._lost(claim))  # type: ignore[misc]

    def _enter(self, claim: _Claim, entry: Entry | None) -> None:
        life = self._nodes.life
        owner = _Owner(self._cluster.name, life, sorted(claim.former))

        def done(revision: int | None) -> None:
            if not self._is_open(claim):
                return
            if revision is None:
                self._look(claim)
            elif claim.former:
                claim.revision = revision
                self._ask(claim)
            else:
                self._held[claim.id] = _Held(life, revision, claim.key)
                self._finish(claim)

        self._cluster.charge_change(claim.session)
        self._put(claim.id, owner, 0 if entry is None else entry.revision, done, self._lost(claim))

    def _put(
        self,
        agent_id: str,
        owner: _Owner,
        revision: int,
        done: Callable[[int | None], None],
        failed: Failed,
    ) -> None:
        self._registry.put("ids", agent_id, _encode(owner), revision, done, failed)

    def _ask(self, claim: _Claim) -> None:
        if not self._is_open(claim):
            return
        for node, life in sorted(claim.former):
            self._cluster.send(node, Displace(claim.id, claim.revision, claim.session.ip))
            if not self._nodes.is_alive(node, life):
                self._ask_registry(claim, node, life)
        claim.next_ask = self._hall.agenda.at(self._hall.now() + ASK_SECONDS, lambda: self._ask(claim))

    def _ask_registry(self, claim: _Claim, node: str, life: int) -> None:
        """Of a life that the registry has not told this node of, and may not tell the end of either."""

        def answered(is_alive: bool) -> None:
            if not is_alive and self._is_open(claim):
                self._cross_out(claim, node, life)

        self._nodes.ask(node, life, answered, _ignore)

    def _released(self, origin: Origin, message: Released) -> None:
        claim = self._claims.get(message.id)
        if claim is None or claim.revision != message.claim:
            return
        self.take_account(claim.key.raw, message.rates, message.debts)
        self._cross_out(claim, origin.node, origin.life)

    def _node_gone(self, node: Node) -> None:
        for claim in list(self._claims.values()):
            self._cross_out(claim, node.name, node.life)

    def _cross_out(self, claim: _Claim, node: str, life: int) -> None:
        """This former owner has no session of the id any more. After the last one, the id is this node's."""
        if (node, life) not in claim.former:
            return
        claim.former.discard((node, life))
        self._cluster.roster.forget(claim.id)
        if claim.former or not claim.revision:
            return
        own_life = self._nodes.life

        def done(revision: int | None) -> None:
            if not self._is_open(claim):
                return
            if revision is None:
                self._fail(claim, OVERTAKEN)
            else:
                self._held[claim.id] = _Held(own_life, revision, claim.key)
                self._finish(claim)

        self._cluster.charge_change(claim.session)
        self._put(claim.id, _Owner(self._cluster.name, own_life), claim.revision, done, self._lost(claim))

    def _finish(self, claim: _Claim) -> None:
        self._close(claim)
        for done, _ in claim.waiters:
            done(None)
        if not self._is_used(claim.id):
            self._plan_return(claim.id)  # the session has ended meanwhile

    def _fail(self, claim: _Claim, reason: str) -> None:
        if self._is_open(claim):
            self._close(claim)
            for _, failed in claim.waiters:
                failed(Unavailable(reason))

    def _close(self, claim: _Claim) -> None:
        del self._claims[claim.id]
        for appointment in (claim.next_ask, claim.timeout):
            if appointment is not None:
                self._hall.agenda.cancel(appointment)

    # -- from this node ----------------------------------------------------------------------------

    def _displace(self, origin: Origin, message: Displace) -> None:
        held = self._held.get(message.id)
        if held is not None and held.revision > message.claim:
            return  # this node has the id again since
        claim = self._claims.get(message.id)
        if claim is not None and 0 < claim.revision < message.claim:
            self._fail(claim, OVERTAKEN)
        self._held.pop(message.id, None)
        self._heirs[message.id] = origin.node
        self._heirs.move_to_end(message.id)
        if len(self._heirs) > MAX_HEIRS:
            self._heirs.popitem(last=False)
        agent = self._hall.roster.agents.get(message.id)
        rates: dict[str, list[float]] = {}
        debts: list[float] = []
        if agent is not None and not agent.session.is_remote:
            takeovers.vacate(self._hall, message.id, message.new_ip)
            rates, debts = self.account_of(agent.key)
        elif (
            held is not None
        ):  # it has just left: the news of that may come to the other node after this answer
            rates, debts = self.account_of(held.key)
        self._cluster.send(origin.node, Released(message.id, message.claim, rates, debts))

    def account_of(self, key: PublicKey | None) -> tuple[dict[str, list[float]], list[float]]:
        """What a key has used of its rates and budgets: the next node goes on from there."""
        if key is None:
            return {}, []
        now = self._hall.now()
        return self._hall.rates.ages(key.raw, now), self._hall.budgets.keys.debts(key.raw, now)

    def take_account(self, key: bytes, rates: Mapping[str, list[float]], debts: list[float]) -> None:
        now = self._hall.now()
        if rates:
            self._hall.rates.take_over(key, rates, now)
        if debts:
            self._hall.budgets.keys.of(key, now).take_over(debts, now)

    def _departed(self, agent: Agent) -> None:
        if agent.key is not None and agent.id in self._held:
            self._plan_return(agent.id)

    def _plan_return(self, agent_id: str) -> None:
        agenda, earlier = self._hall.agenda, self._returns.get(agent_id)
        if earlier is not None:
            agenda.cancel(earlier)
        self._returns[agent_id] = agenda.at(
            self._hall.now() + KEPT_SECONDS, lambda: self._give_back(agent_id)
        )

    def _is_used(self, agent_id: str) -> bool:
        agent = self._hall.roster.agents.get(agent_id)
        return agent is not None and agent.key is not None and not agent.session.is_remote

    def _give_back(self, agent_id: str) -> None:
        del self._returns[agent_id]
        held = self._held.get(agent_id)
        if held is None or self._is_used(agent_id):
            return
        if not self._cluster.is_connected:
            self._plan_return(agent_id)
            return
        del self._held[agent_id]
        if held.life == self._nodes.life:
            # If this fails, the entry stays, and the next claim takes it from there.
            self._registry.delete("ids", agent_id, held.revision, _ignore, _ignore)

    # -- a new life --------------------------------------------------------------------------------

    def _end(self, life: int) -> None:
        for claim in list(self._claims.values()):
            self._fail(claim, CUT_OFF)
        self._to_retake.clear()
        self._retaking.clear()

    def _begin(self, life: int) -> None:
        agents = self._hall.roster.agents.values()
        self._to_retake = [each for each in agents if each.key is not None and not each.session.is_remote]
        for agent_id in [each for each in self._held if not self._is_used(each)]:
            del self._held[agent_id]
        self._retake()

    def _retake(self) -> None:
        while self._to_retake and len(self._retaking) < AT_ONCE:
            agent = self._to_retake.pop()
            self._retaking.add(agent.id)
            self._look_again(agent, self._nodes.life)
        self._cluster.check_connected()

    def _look_again(self, agent: Agent, life: int) -> None:
        def failed(error: BaseException) -> None:
            if self._goes_on(agent, life):
                self._retaking.discard(agent.id)
                self._to_retake.append(agent)  # the next renewal tries again

        self._registry.get(
            "ids", agent.id, lambda entry: self._found_again(agent, life, entry, failed), failed
        )

    def _goes_on(self, agent: Agent, life: int) -> bool:
        """False: this node was given up again since."""
        return life == self._nodes.life and agent.id in self._retaking

    def _found_again(self, agent: Agent, life: int, entry: Entry | None, failed: Failed) -> None:
        if not self._goes_on(agent, life):
            return
        owner = _read(entry)

        def enter() -> None:
            self._put(agent.id, _Owner(self._cluster.name, life), revision, done, failed)

        def done(new_revision: int | None) -> None:
            if not self._goes_on(agent, life):
                return
            if new_revision is None:
                self._look_again(agent, life)
                return
            assert agent.key is not None  # noqa: S101  # others have no entry to take back
            self._held[agent.id] = _Held(life, new_revision, agent.key)
            self._settled(agent)

        def answered(is_alive: bool) -> None:
            if not self._goes_on(agent, life):
                return
            if is_alive:
                self._yield(agent)
            else:
                enter()

        revision = 0 if entry is None else entry.revision
        if owner is None or owner.node == self._cluster.name:
            enter()
        elif self._was_taken(agent, owner):
            self._yield(agent)
        else:
            self._nodes.ask(owner.node, owner.life, answered, failed)

    def _was_taken(self, agent: Agent, owner: _Owner) -> bool:
        """True if the owner's session has had its WELCOME. It may be gone by now, but this one is not the agent
        any more."""
        return agent.id in self._held and all(node != self._cluster.name for node, _ in owner.former)

    def _yield(self, agent: Agent) -> None:
        self._held.pop(agent.id, None)
        if self._is_used(agent.id):
            takeovers.vacate(self._hall, agent.id, "")
        self._settled(agent)

    def _settled(self, agent: Agent) -> None:
        self._retaking.discard(agent.id)
        if agent.id in self._held and not self._is_used(agent.id):
            self._plan_return(agent.id)
        self._retake()


def _pair(former: tuple[str, int]) -> tuple[str, int]:
    return former[0], former[1]


def _read(entry: Entry | None) -> _Owner | None:
    if entry is None or not entry.value:
        return None
    try:
        return _decode(entry.value)
    except msgspec.DecodeError:
        return None


def _ignore(result: object) -> None:
    """What came of it does not matter."""
