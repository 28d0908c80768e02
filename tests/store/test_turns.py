"""Several processes on one file: they take turns, and signal each other."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress

import pytest
import uvloop

from moothall.hall.common import BANS
from moothall.hall.elsewhere import Connected
from moothall.hall.other_halls import NEWS, named
from moothall.store import turn_keeper
from moothall.store.books import StoreBooks
from moothall.store.opening import keep_store, open_signals, open_store
from moothall.store.supervised import GIVEN, Supervised, line
from moothall.store.turn_keeper import TurnKeeper
from moothall.store.units import Engine, StoreFailed
from tests.store.dealer import deal_for_ever
from tests.store.nodes import Node, keep_for_ever, processes, stop_in_transaction
from tests.store.support import (
    ALICE,
    BOB,
    CAROL,
    PATIENCE,
    Place,
    accept,
    complete,
    full_deal,
    propose,
    run,
)
from tests.store.test_crash import assert_kept

ROUNDS = 5
MOST = 60  # commits before a kill
LONG, LONG_SIGNALS = 8000, 400  # more than a socket and the keeper hold

KEYS = [key.public.raw for key in (ALICE, BOB, CAROL)]


class Supervisor:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.kept = keep_store(place.directory, place.url, place.log)
        self.overdue: asyncio.Queue[str] = asyncio.Queue()
        self.keeper = TurnKeeper(self.kept.changed, self.overdue.put_nowait, place.log)
        self._open = ExitStack()

    async def line(self, name: str) -> Supervised:
        ours, theirs = line()
        for end in theirs:
            self._open.callback(end.close)
            self._open.callback(_shut, end)
        await self.keeper.admit(name, ours)
        return Supervised(theirs, lambda: None)

    async def store(self, name: str) -> Engine:
        place = self.place
        supervised = await self.line(name)
        store = open_store(place.directory, place.url, place.log, hall=name, supervised=supervised)
        self._open.callback(store.close)
        return store

    def close(self) -> None:
        self._open.close()
        self.kept.close()


def _shut(end: socket.socket) -> None:
    """A thread that reads from it ends."""
    end.shutdown(socket.SHUT_RDWR)


@asynccontextmanager
async def supervising(place: Place) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(place)
    try:
        yield supervisor
    finally:
        supervisor.close()


class Ear:
    def __init__(self, line: Supervised) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.hearing = open_signals("", "", self.heard.put_nowait, line)

    async def next(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return await self.heard.get()


# -- several nodes -------------------------------------------------------------------------------------


async def test_nodes_deal_on_one_file_and_see_what_the_others_did(sqlite: Place) -> None:
    async with supervising(sqlite) as supervisor:
        one, other = await supervisor.store("one"), await supervisor.store("other")
        await run(one, propose("prop_1", elo_stake=20))
        await run(other, accept("prop_1", elo_stake=10))
        await run(one, complete("prop_1"))
        await asyncio.gather(
            *(full_deal(store, f"prop_{name}", ALICE, BOB) for store, name in ((one, "a"), (other, "b")))
        )
    assert dict(sqlite.select("SELECT id, status FROM proposals")) == dict.fromkeys(
        ("prop_1", "prop_a", "prop_b"), "completed"
    )
    assert sqlite.problems() == []
    assert (sqlite.directory.read("receipts.jsonl") or b"").count(b"\n") == 3  # the supervisor writes it


def test_the_same_on_the_event_loop_of_halls(sqlite: Place) -> None:
    uvloop.run(test_nodes_deal_on_one_file_and_see_what_the_others_did(sqlite))


async def test_a_node_knows_the_agents_of_the_others(sqlite: Place) -> None:
    async with supervising(sqlite) as supervisor:
        one, other = await supervisor.store("one"), await supervisor.store("other")
        await run(one, lambda books: books.pulse({KEYS[0]: Connected("online")}))
        await run(other, lambda books: books.pulse({KEYS[1]: Connected("away", on_mesh=True)}))
        assert await run(one, lambda books: books.also_elsewhere(KEYS)) == {KEYS[1]}
        assert await run(other, lambda books: books.also_elsewhere(KEYS)) == {KEYS[0]}
        assert await run(one, lambda books: books.on_mesh_elsewhere(KEYS)) == {KEYS[1]}


async def test_signals_reach_the_other_nodes_once_the_unit_is_committed(sqlite: Place) -> None:
    async with supervising(sqlite) as supervisor:
        store = await supervisor.store("one")
        ears = [Ear(await supervisor.line(name)) for name in ("other", "third")]
        await run(store, lambda books: books.enlist(BANS, b"x", b'{"agentId": "x"}'))
        assert [await ear.next() for ear in ears] == [NEWS, NEWS]

        def fail(books: object) -> None:
            books.post(KEYS[:1], b"never")  # type: ignore[attr-defined]
            raise OSError("not kept")

        with pytest.raises(OSError, match="not kept"):
            await run(store, fail)
        await run(store, lambda books: books.post(KEYS[:2], b"hello"))
        assert [await ear.next() for ear in ears] == [f"letter 1 {named(KEYS[:2])}"] * 2


async def test_what_nodes_that_were_killed_left_is_removed_at_the_next_start(sqlite: Place) -> None:
    with sqlite.books(hall="killed") as books:
        books.pulse({KEYS[0]: Connected("online")})
        books.post(KEYS, b"hello")
    async with supervising(sqlite):
        assert sqlite.select("SELECT id FROM halls") == []
        assert sqlite.select("SELECT key FROM present") == []
        assert sqlite.select("SELECT number FROM letters") == []


# -- turns ---------------------------------------------------------------------------------------------


async def test_turns_are_given_in_the_order_of_asking(sqlite: Place) -> None:
    async with supervising(sqlite) as supervisor:
        first, *others = [await supervisor.line(name) for name in "abc"]
        order: list[str] = []

        def write(line: Supervised, name: str) -> None:
            with line:
                order.append(name)

        await asyncio.to_thread(first.__enter__)
        waiting = []
        for line, name in zip(others, "bc", strict=True):
            waiting.append(asyncio.create_task(asyncio.to_thread(write, line, name)))
            await until(lambda: supervisor.keeper.waiting == len(waiting))
        assert order == []
        first.__exit__(None, None, None)
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*waiting)
        assert order == ["b", "c"]


async def test_a_node_that_keeps_the_turn_is_reported(sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_keeper, "LONGEST_TURN", 0.0)
    async with supervising(sqlite) as supervisor:
        line = await supervisor.line("slow")
        await asyncio.to_thread(line.__enter__)
        async with asyncio.timeout(PATIENCE):
            assert await supervisor.overdue.get() == "slow"


async def test_a_node_that_does_not_read_its_signals_is_told_that_it_lost_some(sqlite: Place) -> None:
    async with supervising(sqlite) as supervisor:
        ours, theirs = line()
        await supervisor.keeper.admit("deaf", ours)
        store = await supervisor.store("one")

        def signal(books: StoreBooks) -> None:
            for number in range(LONG_SIGNALS):
                books.signal(f"{number} {'x' * LONG}")  # type: ignore[attr-defined]

        await run(store, signal)
        await run(store, signal)
        heard = await asyncio.to_thread(_read_until_lost, theirs.signals)
        assert heard[0] == f"0 {'x' * LONG}".encode()
        assert 0 < len(heard) < 2 * LONG_SIGNALS
        theirs.close()


def _read_until_lost(end: socket.socket) -> list[bytes]:
    end.settimeout(PATIENCE)
    with end.makefile("rb") as file:
        return [line.rstrip() for line in iter(file.readline, b"\n")]


async def test_a_line_that_is_not_understood_is_logged(sqlite: Place) -> None:
    async with supervising(sqlite) as supervisor:
        ours, theirs = line()
        await supervisor.keeper.admit("odd", ours)
        theirs.turns.sendall(b"what?\n?\n")
        assert await asyncio.to_thread(theirs.turns.recv, 1) == GIVEN
        assert sqlite.log.facts("node_not_understood") == {"node": "odd", "line": "what?"}
        theirs.close()


# -- killed --------------------------------------------------------------------------------------------


async def test_a_node_that_is_killed_in_a_transaction_leaves_nothing_and_the_turn(sqlite: Place) -> None:
    async with supervising(sqlite) as supervisor:
        node = Node(sqlite, "killed", stop_in_transaction)
        await node.join(supervisor.keeper)
        store = await supervisor.store("other")
        assert await node.hear() == "inside"
        waiting = asyncio.create_task(run(store, propose("prop_1")))
        await until(lambda: supervisor.keeper.waiting == 1)
        node.kill()
        await waiting
    assert sqlite.select("SELECT id FROM proposals") == [("prop_1",)]
    assert sqlite.problems() == []


async def test_a_unit_of_a_node_without_its_supervisor_is_refused(sqlite: Place) -> None:
    async with supervising(sqlite):
        gone: asyncio.Queue[None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        ours, theirs = line()

        def orphaned() -> None:
            loop.call_soon_threadsafe(gone.put_nowait, None)

        orphan = Supervised(theirs, orphaned)
        store = open_store(sqlite.directory, "", sqlite.log, hall="left", supervised=orphan)
        ours.close()
        async with asyncio.timeout(PATIENCE):
            await gone.get()
        with pytest.raises(StoreFailed, match="supervising process"):
            await run(store, propose("prop_1"))
        store.close()
        theirs.close()
    assert sqlite.select("SELECT id FROM proposals") == []


@pytest.mark.slow
async def test_nodes_that_are_killed_lose_nothing_that_they_acknowledged(sqlite: Place) -> None:
    dice = random.Random("nodes killed")  # noqa: S311  # where to strike, not a secret
    said: list[str] = []
    async with supervising(sqlite) as supervisor:
        steady = Node(sqlite, "steady", deal_for_ever)
        await steady.join(supervisor.keeper)
        for round_number in range(ROUNDS):
            node = Node(sqlite, f"node{round_number}", deal_for_ever)
            await node.join(supervisor.keeper)
            said += [await node.hear() for _ in range(dice.randrange(1, MOST))]
            node.kill()
            said += node.rest()
            said.append(await steady.hear())
        steady.kill()
        said += steady.rest()
    assert_kept(sqlite, [tuple(line.split()) for line in said])  # type: ignore[misc]


@pytest.mark.slow
async def test_the_keeper_is_killed_its_nodes_end_and_nothing_acknowledged_is_lost(sqlite: Place) -> None:
    names = ["one", "other"]
    heard, telling = zip(*(processes.Pipe(duplex=False) for _ in names), strict=True)
    keeper = processes.Process(target=keep_for_ever, args=(sqlite.directory.path, names, list(telling)))
    keeper.start()
    for end in telling:
        end.close()
    said: list[str] = []
    for _ in range(MOST):
        for pipe in heard:
            assert pipe.poll(PATIENCE)
            said.append(pipe.recv_bytes().decode())
    keeper.kill()
    keeper.join()
    for pipe in heard:
        with suppress(EOFError):  # the node has ended
            while pipe.poll(PATIENCE):
                said.append(pipe.recv_bytes().decode())
            pytest.fail("a node outlived its keeper")
    assert_kept(sqlite, [tuple(line.split()) for line in said])  # type: ignore[misc]


async def until(happened: Callable[[], bool]) -> None:
    """Let the loop run until it is so."""
    async with asyncio.timeout(PATIENCE):
        while not happened():  # noqa: ASYNC110  # the keeper of the turns has no event for it
            await asyncio.sleep(0)
