"""Conversations of the mesh on a real store, step by step, with a clock that is a number.

A unit that fails is undone and one that collides runs again, as in a hall; there are no threads.
"""

import sqlite3
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from typing import Any, Final, TypeVar

from moothall.errors import MoothallError
from moothall.market import conversing, credit_books
from moothall.market.conversations import Conversation, Event, Step
from moothall.market.conversing import Dealt, MeshRules
from moothall.market.credits import Authority, Escrow
from moothall.market.ledger import agent_account
from moothall.market.records import Standing
from moothall.market.reputation_vector import ReputationVector
from moothall.store.books import SqlBooks
from moothall.store.dialect import Row
from moothall.store.opening import connect, prepare
from moothall.store.row_cache import RowCache
from moothall.store.rows import Stale
from moothall.store.transaction import Transaction
from tests.store.support import NOW_MS, Place

A, B, N, STRANGER = (letter * 32 for letter in (b"A", b"B", b"N", b"S"))
TALK: Final = b"conversation-id!"
CREDIT: Final = 1_000_000
REVIEW: Final = 60_000
TIMEOUT: Final = 604_800_000

Result = TypeVar("Result")
_numbers = count(1)


class Talks:
    def __init__(self, place: Place, rules: MeshRules = MeshRules(), *, prepared: bool = False) -> None:  # noqa: B008
        """`prepared`: the store has its tables."""
        self.place = place
        self.rules = rules
        self.now = NOW_MS
        self.abroad: bytes | None = None  # the agent that other peers reach
        self._connection = connect(place.directory.path, place.url, create=True)
        self._cache = RowCache()
        if not prepared:
            prepare(self._connection, place.directory, place.log)

    def restart(self) -> None:
        """What is not on the disk is forgotten."""
        self._connection.close()
        self._connection = connect(self.place.directory.path, self.place.url, create=False)
        self._cache = RowCache()

    def close(self) -> None:
        self._connection.close()

    def unit(self, work: Callable[[SqlBooks], Result]) -> Result:
        if self.place.url:
            self._cache.forget()
        try:
            return self._unit(work, careful=False)
        except MoothallError:
            raise
        except (Stale, sqlite3.Error):
            self._cache.forget()
            return self._unit(work, careful=True)

    def _unit(self, work: Callable[[SqlBooks], Result], *, careful: bool) -> Result:
        transaction = Transaction(self._connection, self._cache, careful=careful)
        transaction.begin()
        try:
            books = transaction.unit()
            result = work(books)
            books.keep()
            transaction.write()
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        transaction.commit()
        return result

    def select(self, sql: str) -> list[Row]:
        return self._connection.execute(sql).fetchall()

    # -- what agents do --------------------------------------------------------------------------------

    def deposit(self, key: bytes, amount: int) -> None:
        reference = f"deposit {next(_numbers)}"
        self.unit(lambda books: credit_books.deposit(books, key, amount, reference, now=self.now))

    def say(
        self, event: Event, sender: bytes, recipient: bytes | None = None, talk: bytes = TALK, **fields: Any
    ) -> Dealt:
        step = Step(event=event, conversation_id=talk, sender=sender, recipient=recipient, **fields)
        return self.take(step)

    def take(self, step: Step, authority: Authority | None = None) -> Dealt:
        shown, rules = authority or envelope(step.sender), self.rules
        return self.unit(
            lambda books: conversing.take(books, step, shown, now=self.now, rules=rules, abroad=self.abroad)
        )

    def bid(self, bidder: bytes, talk: bytes = TALK, *, offers: bool = True) -> Dealt | None:
        return self.unit(lambda books: conversing.bid(books, talk, bidder, offers=offers, now=self.now))

    def ask(self, party: bytes, talk: bytes = TALK) -> Dealt | None:
        return self.bid(party, talk, offers=False)

    def cancel(self, by: bytes, talk: bytes = TALK) -> Dealt:
        return self.unit(lambda books: conversing.cancel(books, talk, by, envelope(by), now=self.now))

    def consent(self, by: bytes, talk: bytes = TALK) -> Dealt:
        return self.unit(lambda books: conversing.consent(books, talk, by, envelope(by), now=self.now))

    def wait(self, milliseconds: int) -> list[Dealt]:
        """Time passes, and then the hall acts upon deadlines."""
        self.now += milliseconds
        return self.act()

    def act(self) -> list[Dealt]:
        due = self.unit(lambda books: books.due_conversations(self.now))
        done = [self.lapse(talk) for talk in due]
        return [dealt for dealt in done if dealt is not None]

    def lapse(self, talk: bytes = TALK) -> Dealt | None:
        return self.unit(lambda books: conversing.lapse(books, talk, now=self.now))

    # -- the usual ways --------------------------------------------------------------------------------

    def propose(self, amount: int = CREDIT, talk: bytes = TALK, **fields: Any) -> Dealt:
        return self.say("PROPOSE", A, B, talk, amount=amount, **fields)

    def commit(self, amount: int = CREDIT, talk: bytes = TALK, *, notary: bytes | None = None) -> Dealt:
        """To COMMITTED: A asks for work, and B accepts."""
        self.propose(amount, talk)
        if notary is not None:
            self.ask(A, talk)
            self.bid(notary, talk)
        return self.say("ACCEPT", B, A, talk, amount=amount)

    def deliver(self, amount: int = CREDIT, talk: bytes = TALK, *, notary: bytes | None = None) -> Dealt:
        self.commit(amount, talk, notary=notary)
        return self.say("DELIVER", B, A, talk)

    def resolve(self, amount: int = CREDIT, talk: bytes = TALK, *, notary: bytes | None = None) -> Dealt:
        self.deliver(amount, talk, notary=notary)
        return self.verdict("APPROVE", A if notary is None else notary, talk=talk)

    def verdict(
        self, event: Event, sender: bytes, recipient: bytes | None = None, talk: bytes = TALK
    ) -> Dealt:
        recipient = recipient or (B if sender == A else A)
        return self.say(event, sender, recipient, talk, parties=(A, B))

    def feedback(
        self, sender: bytes, about: bytes, score: int = 80, talk: bytes = TALK, **fields: Any
    ) -> Dealt:
        return self.say("FEEDBACK", sender, None, talk, about=about, score=score, **fields)

    # -- what is so ------------------------------------------------------------------------------------

    def conversation(self, talk: bytes = TALK) -> Conversation | None:
        return self.unit(lambda books: books.conversation(talk))

    def state(self, talk: bytes = TALK) -> str:
        conversation = self.conversation(talk)
        return "IDLE" if conversation is None else conversation.state

    def escrow(self, talk: bytes = TALK) -> Escrow | None:
        return self.unit(lambda books: books.escrow(talk))

    def balance(self, key: bytes) -> int:
        return self.account(agent_account(key))

    def account(self, account: str) -> int:
        return self.unit(lambda books: books.balance(account))

    def standing(self, key: bytes) -> Standing:
        return self.unit(lambda books: books.standing(key))

    def vector(self, key: bytes) -> ReputationVector:
        return self.standing(key).mesh

    def facts(self) -> list[list[Row]]:
        """Everything that a step could change."""
        tables = {
            "conversations": "id",
            "escrows": "conversation_id",
            "balances": "account",
            "postings": "book, deal, operation, account",
            "authorisations": "deal, operation",
            "standings": "key",
            "notary_bids": "conversation_id, agent",
            "audit": "number",
        }
        return [self.select(f"SELECT * FROM {table} ORDER BY {order}") for table, order in tables.items()]  # noqa: S608


def envelope(sender: bytes) -> Authority:
    number = next(_numbers)
    return Authority(sha256(b"%d" % number).digest(), sender, number)
