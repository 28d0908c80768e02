"""A whole hall, killed without warning while dozens of agents deal: what it acknowledged is a fact, what it did not
acknowledge happened wholly or not at all, and the books balance.

`tests/store/test_crash.py` kills the store alone. Here the answers travel over sockets, so that an answer sent too
early is found out. Killing a process does not empty the kernel's buffers: that a commit reaches the disk is the
business of `synchronous = FULL`, and no test of a process can show it.
"""

import asyncio
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moothall.identity import PrivateKey
from moothall.store.files import DataDirectory
from tests.store.server import Server
from tests.store.support import Place
from tests.support.deal_checks import Books, check
from tests.support.dealers import Ring
from tests.support.server import HallProcess, run_moothall

IMPORTABLE = {"PYTHONPATH": str(Path(__file__).parent.parent)}  # this package, by the hall

AGENTS = 32
KILLS = 4
FEWEST, MOST = 100, 1300  # acknowledged steps between two kills: a thousand deals in all
A_FEW_BATCHES = 0.05  # seconds


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url = request.getfixturevalue("server").new_database() if request.param == "postgres" else ""
    return Place(DataDirectory(tmp_path / "data"), url)


@pytest.fixture
def slow_hall(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HallProcess:
    """A disk as slow as most are makes the moment between the decision and its commit long enough to be hit."""
    program = tmp_path / "moothall"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.support.slow_commits "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr("tests.support.server.PROGRAM", str(program))
    return HallProcess(tmp_path, "--no-limits", environment={"MOOTHALL_STORE": place.url, **IMPORTABLE})


async def assert_the_hall_says_so(ring: Ring, books: Books) -> None:
    """Whoever comes back is shown the same: the latest deals, the rating, the stakes."""
    for dealer in ring.dealers:
        listed = (await dealer.do("LIST_PROPOSALS", limit=50))["list"]
        assert listed
        for entry in listed:
            deal = books.deals[entry["proposal_id"]]
            assert (entry["status"], entry["updated_at"]) == (deal["status"], deal["updated_at"])
        assert dealer.key is not None
        standing = books.standings[dealer.key.public.raw]
        rating = await dealer.do("GET_RATING")
        assert (rating["rating"], rating["escrowed"], rating["transactions"]) == (
            standing.rating,
            standing.escrowed,
            standing.transactions,
        )


# -- the test ------------------------------------------------------------------------------------------


def striking(hall: HallProcess, dice: random.Random) -> Callable[[], None]:
    """At the very moment of an answer, or at any moment of the next few batches."""
    if dice.randrange(2):
        return hall.process.kill
    delay = dice.uniform(0, A_FEW_BATCHES)

    def later() -> None:
        asyncio.get_running_loop().call_later(delay, hall.process.kill)

    return later


@pytest.mark.slow
async def test_a_killed_hall_keeps_what_it_acknowledged_and_nothing_by_half(
    place: Place, slow_hall: HallProcess
) -> None:
    hall = slow_hall
    dice = random.Random(f"hall killed, {place.url.partition(':')[0]}")  # noqa: S311  # where to strike
    ring = Ring([PrivateKey(os.urandom(32)) for _ in range(AGENTS)])
    for kill in range(KILLS):
        hall.start()
        try:
            await ring.come_in(hall.url)
            if kill:
                await assert_the_hall_says_so(ring, check(place, ring.diary))
            ring.diary.strike_after(dice.randrange(FEWEST, MOST), striking(hall, dice))
            await ring.deal()
            assert ring.diary.strike is None, f"the hall went by itself:\n{hall.stderr.text}"
        finally:
            await asyncio.to_thread(hall.kill)
        await ring.go()
    books = check(place, ring.diary)
    assert len(books.deals) > KILLS * FEWEST / 3
    where = ("--store", place.url) if place.url else ("--data-dir", "data")
    checked = run_moothall(hall.folder, "store", "check", *where, environ=IMPORTABLE)
    assert checked.stdout == "no problems found\n", checked.stderr
