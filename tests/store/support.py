"""Stores to try things on: where they are, who deals with whom, and what is in the tables."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moothall.identity import PrivateKey
from moothall.identity.seals import Seal
from moothall.market import clerk
from moothall.market.books import Books
from moothall.market.hooks import Subscription
from moothall.market.outcome import MarketOutcome
from moothall.market.rules import MarketRules
from moothall.market.skills import Filters
from moothall.store.books import SqlBooks, StoreBooks
from moothall.store.checks import problems
from moothall.store.dialect import Connection, Row
from moothall.store.files import DataDirectory
from moothall.store.opening import connect, open_store, prepare
from moothall.store.row_cache import RowCache
from moothall.store.transaction import Transaction
from moothall.store.units import Engine
from moothall.wire.agentchat import client
from tests.identity.vectors import ALICE, BOB, CAROL, DAVE, NOW_MS
from tests.market.support import address, signed
from tests.support.orders import order
from tests.support.seals import SEAL

__all__ = ["ALICE", "BOB", "CAROL", "DAVE", "NOW_MS"]

Result = TypeVar("Result")
Work = Callable[[StoreBooks], Result]

RULES = MarketRules()
LISTENER = "https://example.org/hall"
LISTENING = (Subscription(LISTENER),)
PATIENCE = 60.0  # seconds after which a lost answer is a failed test


def offered(books: StoreBooks, **asked: Any) -> list[tuple[bytes, dict[str, Any]]]:
    """What a search finds: who offers it, and the skill."""
    found = books.offered(books.offers(Filters(**asked), 1000))
    return [(offer.key, skill) for offer, skill in found]


class Log:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **facts: object) -> None:
        self.events.append((event, facts))

    warning = info

    def facts(self, event: str) -> dict[str, object]:
        return next(facts for name, facts in self.events if name == event)


@dataclass
class Place:
    """Where a store is, or will be."""

    directory: DataDirectory
    url: str
    log: Log = field(default_factory=Log)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Engine]:
        store = open_store(self.directory, self.url, self.log, LISTENING)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        connection = connect(self.directory.path, self.url, create=True)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def books(
        self,
        *,
        subscriptions: Sequence[Subscription] = LISTENING,
        careful: bool = False,
        hall: str = "",
    ) -> Iterator[SqlBooks]:
        """One unit of work, without threads, that is committed at the end."""
        with self.connected() as connection:
            prepare(connection, self.directory, self.log)
            transaction = Transaction(connection, RowCache(), subscriptions, careful=careful, hall=hall)
            transaction.begin()
            books = transaction.unit()
            yield books
            books.keep()
            transaction.write()
            transaction.commit()

    def select(self, sql: str) -> list[Row]:
        with self.connected() as connection:
            return connection.execute(sql).fetchall()

    def problems(self) -> list[str]:
        with self.connected() as connection:
            return list(problems(connection))


async def run(store: Engine, work: Callable[[StoreBooks], Result]) -> Result:
    answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    store.submit(work, answer.set_result, answer.set_exception)
    async with asyncio.timeout(PATIENCE):
        return await answer


# -- deals -----------------------------------------------------------------------------------------------


def propose(
    deal: str, proposer: PrivateKey = ALICE, recipient: PrivateKey = BOB, *, now: int = NOW_MS, **fields: Any
) -> Callable[[Books], MarketOutcome]:
    message = signed(client.Proposal(to=address(recipient), task="Review it", sig="-", **fields), proposer)
    given = order(message, proposer.public, RULES)
    return lambda books: clerk.propose(
        books,
        given,
        proposal_id=deal,
        address=address(proposer),
        connected=recipient.public.raw,
        now=now,
        rules=RULES,
    )


def accept(
    deal: str, agent: PrivateKey = BOB, *, now: int = NOW_MS, **fields: Any
) -> Callable[[Books], MarketOutcome]:
    message = signed(client.Accept(proposal_id=deal, sig="-", **fields), agent)
    given = order(message, agent.public, RULES)
    return lambda books: clerk.accept(books, given, now=now, rules=RULES)


def reject(deal: str, agent: PrivateKey = BOB, *, now: int = NOW_MS) -> Callable[[Books], MarketOutcome]:
    message = signed(client.Reject(proposal_id=deal, sig="-"), agent)
    given = order(message, agent.public, RULES)
    return lambda books: clerk.reject(books, given, now=now, rules=RULES)


def complete(
    deal: str, agent: PrivateKey = BOB, *, now: int = NOW_MS, seal: Seal = SEAL
) -> Callable[[Books], MarketOutcome]:
    message = signed(client.Complete(proposal_id=deal, sig="-"), agent)
    given = order(message, agent.public, RULES)
    return lambda books: clerk.complete(books, given, now=now, rules=RULES, seal=seal)


def dispute(deal: str, agent: PrivateKey = ALICE, *, now: int = NOW_MS) -> Callable[[Books], MarketOutcome]:
    message = signed(client.Dispute(proposal_id=deal, reason="not delivered", sig="-"), agent)
    given = order(message, agent.public, RULES)
    return lambda books: clerk.dispute(books, given, now=now, rules=RULES)


def expire(deal: str, *, now: int) -> Callable[[Books], MarketOutcome | None]:
    return lambda books: clerk.expire(books, deal, now=now)


def register(
    agent: PrivateKey, *skills: dict[str, Any], now: int = NOW_MS
) -> Callable[[Books], MarketOutcome]:
    message = signed(client.RegisterSkills(skills=list(skills), sig="-"), agent)
    given = order(message, agent.public, RULES)
    return lambda books: clerk.register_skills(books, given, agent_id=agent.public.agent_id(), now=now)


async def full_deal(
    store: Engine, deal: str, proposer: PrivateKey = ALICE, recipient: PrivateKey = BOB
) -> None:
    """With stakes on both sides."""
    await run(store, propose(deal, proposer, recipient, elo_stake=20))
    await run(store, accept(deal, recipient, elo_stake=10))
    await run(store, complete(deal, recipient))
