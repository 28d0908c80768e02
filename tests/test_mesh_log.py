"""The log of a whole hall that is killed without warning: what it accepted is in the log, and can be proven."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.mesh import MeshAgent
from moothall.store.files import DataDirectory
from moothall.wire.mesh.envelope import decode
from moothall.wire.mesh.frames import frames
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from tests.store.server import Server
from tests.store.support import Place
from tests.support.server import HallProcess, run_moothall

pytestmark = pytest.mark.slow

DEALS = 8


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url = request.getfixturevalue("server").new_database() if request.param == "postgres" else ""
    return Place(DataDirectory(tmp_path / "data"), url)


class Operator:
    """Runs commands on the store of a hall."""

    def __init__(self, folder: Path, place: Place) -> None:
        self._folder = folder
        self._where = ("--store", place.url) if place.url else ("--data-dir", "data")

    def run(self, *arguments: str) -> str:
        result = run_moothall(self._folder, *arguments, *self._where)
        assert result.returncode == 0, result.stderr + result.stdout
        return result.stdout


async def test_what_was_accepted_is_logged_and_can_be_proven(place: Place, tmp_path: Path) -> None:
    hall = HallProcess(tmp_path, environment={"MOOTHALL_STORE": place.url})
    hall.start()
    accepted: list[str] = []
    try:
        async with (
            MeshAgent("alice", url=hall.url, reconnect=False) as alice,
            MeshAgent("bob", url=hall.url, reconnect=False) as bob,
        ):
            for number in range(DEALS):
                conversation = await alice.propose(bob.id, f"work {number}")
                accepted.append(conversation.id)
            hall.kill()
    finally:
        hall.kill()
    operator = Operator(tmp_path, place)
    rows = json.loads(operator.run("mesh", "log", "--json"))
    assert sum(row["envelopes"] for row in rows) >= DEALS
    raws: list[bytes] = []
    for row in rows:
        operator.run("mesh", "log", str(row["epoch"]), "-o", "epoch.cbor")
        raws += frames((tmp_path / "epoch.cbor").read_bytes())
    proposed = [raw for raw in raws if decode(raw).msg_type is MsgType.PROPOSE]
    assert [decode(raw).conversation_id.hex() for raw in proposed] == accepted
    proof = operator.run("mesh", "prove", keccak256(proposed[3]).hex())
    (tmp_path / "proof.json").write_text(proof)
    checked = run_moothall(tmp_path, "mesh", "verify", "proof.json", "--hall", hall.key.raw.hex())
    assert checked.returncode == 0, checked.stdout
    assert operator.run("store", "check") == "no problems found\n"
