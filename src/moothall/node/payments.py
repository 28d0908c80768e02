"""Payments on the node's own ledger: credits that the operator of the node issued (mesh wire 10.3)."""

from collections.abc import Callable
from typing import Final

from moothall.errors import CreditsRefused, NodeRefused
from moothall.hall.outside import Store
from moothall.market import escrow_orders
from moothall.market.credits import Escrow
from moothall.node.desk import Books
from moothall.node.posting import Posting
from moothall.node.units import done
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import Judgement, Verdict

SLOT: Final = 400  # ms (mesh wire 10.2)
MAX_TIMEOUT: Final = 10 * 365 * 24 * 60 * 60 * 1000  # ms


class Payments:
    """`own` is the agent that pays. `timestamp` is Unix milliseconds."""

    def __init__(
        self, store: Store[Books], posting: Posting, own: bytes, timestamp: Callable[[], int]
    ) -> None:
        self._store = store
        self._posting = posting
        self._own = own
        self._timestamp = timestamp

    async def lock(
        self,
        provider: bytes,
        conversation_id: bytes,
        amount: int,
        *,
        notary: bytes | None,
        notary_fee: int | None,
        slots: int,
    ) -> None:
        """Raises NodeRefused (400)."""
        now, timeout = self._timestamp(), slots * SLOT
        if not 0 <= timeout <= MAX_TIMEOUT:
            raise NodeRefused(400, f"A timeout has at most {MAX_TIMEOUT // SLOT:,} slots.")

        def work(books: Books) -> Escrow:
            return escrow_orders.put_aside(
                books,
                conversation_id,
                self._own,
                provider,
                amount,
                now=now,
                notary=notary,
                notary_fee=notary_fee,
                timeout=timeout,
            )

        await self._done(work)

    async def approve(
        self, requester: bytes, provider: bytes, conversation_id: bytes, *, notary: bytes | None
    ) -> None:
        """Raises NodeRefused: 400, or what sending a VERDICT raises."""

        def work(books: Books) -> Escrow:
            return escrow_orders.payable(books, conversation_id, requester, provider, self._own, notary)

        escrow = await self._done(work)
        if escrow.settled is None:
            verdict = Verdict(Judgement.APPROVE, requester, provider).encode()
            await self._posting.send(self._own, MsgType.VERDICT, verdict, provider, conversation_id)

    async def _done(self, work: Callable[[Books], Escrow]) -> Escrow:
        try:
            return await done(self._store, work)
        except CreditsRefused as error:
            name = f"{error.reason}: " if error.reason else ""
            raise NodeRefused(400, f"{name}{error}.") from None
