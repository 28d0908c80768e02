"""A store in a process of its own, to be killed: agents of the mesh talk, and each commit is told on a pipe."""

import asyncio
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from moothall.market import conversing, credit_books
from moothall.market.conversations import Event, Step
from moothall.market.conversing import MeshRules
from moothall.store.files import DataDirectory
from moothall.store.opening import open_store
from moothall.store.units import Engine, StoreFailed
from tests.store.support import NOW_MS, Log, Work, run
from tests.support.talks import CREDIT, envelope

PAIRS = 16
RULES = MeshRules(review=1000, escrow_timeout=10_000)
AMOUNT = CREDIT // 1000


def story(talk: bytes, serial: int, one: bytes, other: bytes, notary: bytes) -> Iterator[Work[object]]:
    """Every way that a conversation can go. Each unit changes it once."""

    def say(event: Event, sender: bytes, recipient: bytes | None = None, **fields: Any) -> Work[object]:
        step = Step(event=event, conversation_id=talk, sender=sender, recipient=recipient, **fields)
        shown = envelope(sender)
        return lambda books: conversing.take(books, step, shown, now=NOW_MS, rules=RULES)

    def lapse(after: int) -> Work[object]:
        return lambda books: conversing.lapse(books, talk, now=NOW_MS + after)

    has_notary = serial % 2 == 0
    yield say("PROPOSE", one, other, amount=AMOUNT - 1)
    yield say("COUNTER", other, one, amount=AMOUNT)
    if has_notary:
        yield lambda books: conversing.bid(books, talk, other, offers=False, now=NOW_MS)
        yield lambda books: conversing.bid(books, talk, notary, offers=True, now=NOW_MS)
    way = serial // 2 % 7
    if way == 0:
        yield say("REJECT", one, other)
        return
    yield say("ACCEPT", one, other, amount=AMOUNT)
    if way == 1:
        yield lambda books: conversing.cancel(books, talk, one, envelope(one), now=NOW_MS)
        return
    if way == 2:
        yield lapse(10_000)  # nothing was delivered
        return
    yield say("DELIVER", other, one)
    if way == 3:
        yield lapse(10_000)  # approved after the review, or claimed
    if way == 4:
        yield say("DISPUTE", one, other)
        yield say("REJECT", other, one)
        return
    if way in (5, 6):
        judge = notary if has_notary else one
        yield say("APPROVE", judge, other, parties=(one, other))
    if way == 6:
        yield say("FEEDBACK", one, about=other, score=90, positive=True)
        yield say("FEEDBACK", other, about=one, score=90, positive=True)


def talk_for_ever(folder: Path, url: str, name: str, told: Connection) -> None:
    asyncio.run(_talk_for_ever(folder, url, name, told))


async def _talk_for_ever(folder: Path, url: str, name: str, told: Connection) -> None:
    store = open_store(DataDirectory(folder), url, Log(), ())
    agents = [os.urandom(32) for _ in range(PAIRS + 2)]
    for number, agent in enumerate(agents):
        await run(store, _deposit(agent, f"{name} {number}"))
    await asyncio.gather(
        *(_talk(store, agents[number : number + 3], number, told) for number in range(PAIRS))
    )


def _deposit(agent: bytes, reference: str) -> Work[object]:
    return lambda books: credit_books.deposit(books, agent, CREDIT, reference, now=NOW_MS)


async def _talk(store: Engine, agents: list[bytes], serial: int, told: Connection) -> None:
    """Each agent is in several pairs, so that pairs meet in a balance and in a standing."""
    one, other, notary = agents
    while True:
        serial += 1
        talk = os.urandom(16)
        try:
            for work in story(talk, serial, one, other, notary):
                await run(store, work)
                told.send_bytes(talk)
        except StoreFailed:
            # The database is away. This is the agent's back-off, not a wait: the test asks only what was saved.
            await asyncio.sleep(0.01)
