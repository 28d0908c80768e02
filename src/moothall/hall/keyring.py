"""Which key an id belongs to: the first that had it, for ever.

An attacker can search for a second key with the same eight hex digits (agentchat wire 3.2). So the store keeps the
key behind each id and never forgets one. A full store refuses new keys; it still knows the old ones.

A session claims its id before WELCOME and waits until the claim is kept. Claims that arrive while the store works
on others are handed in together, so a crowd costs a few commits. Ids that were seen lately are in a cache and cost
no access to the store. A hall that has its store to itself need not wait for most new ids either (`newids`).
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from moothall.hall.bindings import BindingBooks, Holding, IdClaim, settle
from moothall.hall.newids import NewIds
from moothall.hall.outside import Store

MAX_CACHED: Final = 100_000  # ids whose key is known without asking the store
MAX_CLAIMS: Final = 256  # in one unit of work, so that deals do not wait long behind a crowd

Answered = Callable[[Holding], None]
Failed = Callable[[BaseException], None]


class Keyring:
    def __init__(self, store: Store[BindingBooks], capacity: int, new_ids: NewIds | None = None) -> None:
        """`new_ids` if no other hall uses the store."""
        self._store = store
        self._capacity = capacity
        self._new_ids = new_ids
        self._known: OrderedDict[str, bytes] = OrderedDict()  # those that were seen last come last
        self._waiting: list[tuple[IdClaim, Answered, Failed]] = []
        self._asking = False

    def __len__(self) -> int:
        """The number of bindings in the cache."""
        return len(self._known)

    def knows(self, agent_id: str, key: bytes) -> bool:
        """True if the cache says that this id is this key's. False says nothing."""
        if self._known.get(agent_id) != key:
            return False
        self._known.move_to_end(agent_id)
        return True

    def claim(self, claim: IdClaim, answered: Answered, failed: Failed) -> None:
        """Ask whose id it is, and bind it if it has no key yet. Ends with one of two calls, perhaps at once."""
        holding = self.claim_now(claim)
        if holding is not None:
            answered(holding)
            return
        self._waiting.append((claim, answered, failed))
        if not self._asking:
            self._ask()

    def claim_now(self, claim: IdClaim) -> Holding | None:
        """The answer to a claim, if the store need not be asked."""
        owner = self._known.get(claim.agent_id)
        if owner is not None:
            return Holding(owner)
        if self._new_ids is None:
            return None
        holding = self._new_ids.claim(claim)
        if holding is not None and holding.owner is not None:
            self._remember(claim.agent_id, holding.owner)
        return holding

    def _ask(self) -> None:
        asked, self._waiting = self._waiting[:MAX_CLAIMS], self._waiting[MAX_CLAIMS:]
        claims = [claim for claim, _, _ in asked]
        self._asking = True

        def answered(holdings: list[Holding]) -> None:
            self._learn(claims, holdings)
            self._go_on()
            for (_, tell, _), holding in zip(asked, holdings, strict=True):
                tell(holding)

        def failed(error: BaseException) -> None:
            self._go_on()
            for _, _, tell in asked:
                tell(error)

        self._store.submit(lambda books: settle(books, claims, self._capacity), answered, failed)

    def _go_on(self) -> None:
        self._asking = False
        if self._waiting:
            self._ask()

    def _learn(self, claims: Sequence[IdClaim], holdings: Sequence[Holding]) -> None:
        for claim, holding in zip(claims, holdings, strict=True):
            if holding.owner is not None:
                self._remember(claim.agent_id, holding.owner)
            if holding.is_new and self._new_ids is not None:
                self._new_ids.note()

    def _remember(self, agent_id: str, owner: bytes) -> None:
        self._known[agent_id] = owner
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
