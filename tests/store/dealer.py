"""A hall's store at work in a process of its own, to be killed: agents deal, and every commit is told on a pipe."""

import asyncio
import os
from multiprocessing.connection import Connection
from pathlib import Path

from moothall.identity import PrivateKey
from moothall.store.files import DataDirectory
from moothall.store.opening import open_store
from moothall.store.supervised import Ends, Supervised
from moothall.store.units import Engine, StoreFailed
from tests.store.support import (
    LISTENING,
    NOW_MS,
    Log,
    Work,
    accept,
    complete,
    dispute,
    expire,
    propose,
    reject,
    run,
)

PAIRS = 16
LATE = NOW_MS + 60_001
ORPHANED = 75  # the exit code of a node whose supervising process is gone


def story(deal: str, serial: int, one: PrivateKey, other: PrivateKey) -> list[tuple[str, Work[object]]]:
    """Every way that a deal can go."""
    begin: list[tuple[str, Work[object]]] = [
        ("propose", propose(deal, one, other, elo_stake=5, expires=60)),
        ("accept", accept(deal, other, elo_stake=7)),
    ]
    match serial % 5:
        case 0:
            return [*begin, ("complete", complete(deal, other))]
        case 1:
            return [*begin, ("dispute", dispute(deal, one))]
        case 2:
            return [*begin, ("expire", expire(deal, now=LATE))]
        case 3:
            return [begin[0], ("reject", reject(deal, other))]
        case _:
            return begin


def deal_for_ever(folder: Path, url: str, name: str, told: Connection, ends: Ends | None = None) -> None:
    """With `ends` it is a node: see `Supervised`."""
    supervised = None if ends is None else Supervised(ends, end_at_once)
    asyncio.run(_deal_for_ever(folder, url, name, told, supervised))


def end_at_once() -> None:
    os._exit(ORPHANED)


async def _deal_for_ever(
    folder: Path, url: str, name: str, told: Connection, supervised: Supervised | None
) -> None:
    store = open_store(DataDirectory(folder), url, Log(), LISTENING, hall=name, supervised=supervised)
    agents = [PrivateKey(os.urandom(32)) for _ in range(PAIRS + 1)]
    await asyncio.gather(
        *(
            _deal(store, f"{name}_{number}", agents[number], agents[number + 1], told)
            for number in range(PAIRS)
        )
    )


async def _deal(store: Engine, name: str, one: PrivateKey, other: PrivateKey, told: Connection) -> None:
    """Each agent is in two pairs, so that pairs meet in a standing."""
    serial = 0
    while True:
        serial += 1
        deal = f"prop_{name}_{serial}"
        try:
            for operation, work in story(deal, serial, one, other):
                await run(store, work)
                told.send_bytes(f"{deal} {operation}".encode())
        except StoreFailed:
            # The database is away. This is the agent's back-off, not a wait: the test asks only what was saved.
            await asyncio.sleep(0.01)
