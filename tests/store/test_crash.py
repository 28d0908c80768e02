"""Killed without warning, again and again: what was acknowledged is there, and nothing is there by half."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pytest

from tests.store.dealer import deal_for_ever
from tests.store.server import Server
from tests.store.support import Place

ROUNDS = 6
MOST = 250  # commits before a kill

STATUS_AFTER = {
    "propose": {"pending", "accepted", "rejected", "completed", "disputed", "expired"},
    "accept": {"accepted", "completed", "disputed", "expired"},
    "complete": {"completed"},
    "dispute": {"disputed"},
    "expire": {"expired"},
    "reject": {"rejected"},
}

processes = get_context("forkserver")
processes.set_forkserver_preload([deal_for_ever.__module__])


class Dealer:
    """A process that deals until it is killed, and what it acknowledged."""

    def __init__(self, place: Place, name: str) -> None:
        self.acknowledged: list[tuple[str, str]] = []
        self._told, telling = processes.Pipe(duplex=False)
        self._process = processes.Process(
            target=deal_for_ever, args=(place.directory.path, place.url, name, telling), daemon=True
        )
        self._process.start()
        telling.close()

    def wait_for(self, more: int) -> None:
        for _ in range(more):
            self._hear(self._told)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        try:
            while True:  # what it had said before
                self._hear(self._told)
        except (EOFError, OSError):
            self._told.close()

    def _hear(self, told: Connection) -> None:
        deal, operation = told.recv_bytes().decode().split()
        self.acknowledged.append((deal, operation))


@contextmanager
def dealing(place: Place, name: str) -> Iterator[Dealer]:
    dealer = Dealer(place, name)
    try:
        yield dealer
    finally:
        dealer.kill()


def assert_kept(place: Place, acknowledged: list[tuple[str, str]]) -> None:
    decided = set(place.select("SELECT deal, operation FROM audit"))
    status: dict[str, str] = dict(place.select("SELECT id, status FROM proposals"))
    for deal, operation in acknowledged:
        assert (deal, operation) in decided, f"{operation} of {deal} was acknowledged and is lost"
        assert status[deal] in STATUS_AFTER[operation]
    assert place.problems() == []


@pytest.mark.slow
def test_a_hall_that_is_killed_loses_nothing_it_acknowledged(place: Place) -> None:
    dice = random.Random(f"killed {place.url.partition(':')[0]}")  # noqa: S311  # where to strike, not a secret
    acknowledged: list[tuple[str, str]] = []
    for number in range(ROUNDS):
        with dealing(place, str(number)) as dealer:
            dealer.wait_for(dice.randrange(1, MOST))
        acknowledged += dealer.acknowledged
        assert_kept(place, acknowledged)
        ratings = place.directory.read("ratings.json")
        assert ratings is None or json.loads(ratings) is not None  # replaced whole, or not at all
    assert len(acknowledged) >= ROUNDS


@pytest.mark.slow
def test_a_database_server_that_is_killed_loses_nothing_that_was_acknowledged(
    postgres: Place, server: Server
) -> None:
    dice = random.Random("server killed")  # noqa: S311
    with dealing(postgres, "0") as dealer:
        for _ in range(3):
            dealer.wait_for(dice.randrange(50, 300))
            server.kill()
            server.start()
            assert_kept(postgres, dealer.acknowledged)
        dealer.wait_for(100)  # it found its way back by itself
    assert_kept(postgres, dealer.acknowledged)
