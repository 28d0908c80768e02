"""Killed without warning in any state of a conversation: what was acknowledged is there, nothing is there by half,
and no credit is lost."""

import random
from collections import Counter

import pytest

from moothall.market.credits import EXTERNAL
from tests.store.server import Server
from tests.store.support import Place
from tests.store.talker import talk_for_ever
from tests.store.test_crash import processes

ROUNDS = 5
MOST = 400  # commits before a kill


class Talker:
    """A process that talks until it is killed, and how many steps of each conversation it acknowledged."""

    def __init__(self, place: Place, name: str) -> None:
        self.acknowledged: Counter[bytes] = Counter()
        self._told, telling = processes.Pipe(duplex=False)
        self._process = processes.Process(
            target=talk_for_ever, args=(place.directory.path, place.url, name, telling), daemon=True
        )
        self._process.start()
        telling.close()

    def wait_for(self, more: int) -> None:
        for _ in range(more):
            self.acknowledged[self._told.recv_bytes()] += 1

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        try:
            while True:  # what it had said before
                self.wait_for(1)
        except (EOFError, OSError):
            self._told.close()


def assert_kept(place: Place, acknowledged: Counter[bytes]) -> None:
    """Each step is one version of its row. One step of each conversation may be saved and not acknowledged."""
    versions: dict[bytes, int] = dict(place.select("SELECT id, version FROM conversations"))
    for talk, steps in acknowledged.items():
        assert steps <= versions[talk] <= steps + 1, f"{talk.hex()}: {steps}, {versions[talk]}"
    for talk in versions.keys() - acknowledged.keys():
        assert versions[talk] == 1
    assert place.problems() == []
    ((issued,),) = place.select(
        "SELECT coalesce(sum(amount), 0) FROM postings WHERE operation = 'deposit' AND amount > 0"
    )
    ((held,),) = place.select(f"SELECT coalesce(sum(amount), 0) FROM balances WHERE account <> '{EXTERNAL}'")  # noqa: S608
    assert held == issued


@pytest.mark.slow
def test_a_hall_that_is_killed_loses_no_step_and_no_credit(place: Place) -> None:
    dice = random.Random(f"killed {place.url.partition(':')[0]}")  # noqa: S311  # where to strike, not a secret
    acknowledged: Counter[bytes] = Counter()
    for number in range(ROUNDS):
        talker = Talker(place, str(number))
        try:
            talker.wait_for(dice.randrange(1, MOST))
        finally:
            talker.kill()
        acknowledged += talker.acknowledged
        assert_kept(place, acknowledged)
    states = {state for (state,) in place.select("SELECT DISTINCT state FROM conversations")}
    assert states >= {"NEGOTIATING", "COMMITTED", "DELIVERED", "RESOLVED", "CLOSED"}


@pytest.mark.slow
def test_a_database_server_that_is_killed_loses_no_step_and_no_credit(
    postgres: Place, server: Server
) -> None:
    dice = random.Random("server killed")  # noqa: S311
    talker = Talker(postgres, "0")
    try:
        for _ in range(2):
            talker.wait_for(dice.randrange(200, 500))
            server.kill()
            server.start()
        talker.wait_for(300)  # it found its way back by itself
    finally:
        talker.kill()
    assert_kept(postgres, talker.acknowledged)
