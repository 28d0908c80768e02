"""Files between agents in a real hall: offers, transfers, cut connections, and peers of another make."""

import asyncio
import base64
import hashlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from moothall import (
    Agent,
    AgentNotFound,
    FileOffer,
    HashMismatch,
    OfferNotFound,
    PrivateKey,
    Progress,
    SyncAgent,
    TransferCancelled,
    TransferFailed,
    TransferRejected,
    TransferTimeout,
    UsageError,
)
from moothall.app import App
from moothall.client import chunk_lane, transfer
from moothall.files.control import MAX_SIZE
from tests.client.conftest import OpenHall
from tests.client.door import Door
from tests.client.meeting import QUICKLY, Heard, listen, settled, soon
from tests.hall.test_third_wire import Telegraph
from tests.support.server import running_hall
from tests.support.world import World

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text())

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(1, 33)))
CAROL = PrivateKey(bytes(range(2, 34)))
TID = "0123456789abcdef"


class Party:
    """An agent with a key, and what it hears."""

    def __init__(self, name: str, key: PrivateKey | None, **options: Any) -> None:
        self.agent = Agent(name, identity=key, backoff=QUICKLY, **options)
        self.offers: Heard[FileOffer] = Heard()
        self.agent.on_file_offer(self.offers)
        self.chat = listen(self.agent, dms=True)


@asynccontextmanager
async def two_parties(url: str, bobs_url: str | None = None) -> AsyncIterator[tuple[Party, Party]]:
    alice, bob = Party("alice", ALICE), Party("bob", BOB)
    async with alice.agent.connected(url), bob.agent.connected(bobs_url or url):
        yield alice, bob


@pytest.fixture(autouse=True)
def _no_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    """These halls have no limits; the throttle has a test of its own."""
    monkeypatch.setattr(chunk_lane, "CHUNK_SPACING", 0.0)
    monkeypatch.setattr(transfer, "RETRY_AFTER", 0.02)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with text, with files that the format would damage, and with some chunks of noise."""
    folder = tmp_path / "project"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "readme.md").write_text("# hello\n")
    (folder / "empty").write_bytes(b"")
    (folder / "sub" / "no-newline").write_text("no newline")
    (folder / "sub" / "marker").write_text("=== END project/sub/marker ===\nrest\n")
    (folder / "sub" / "deep" / "noise.bin").write_bytes(os.urandom(700_000))
    (folder / "sub" / "latin1").write_bytes(b"caf\xe9\n")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


async def test_a_folder_arrives_as_it_was(url: str, tree: Path, tmp_path: Path) -> None:
    async with two_parties(url) as (alice, bob):
        steps: list[Progress] = []
        sending = asyncio.create_task(alice.agent.send_files(bob.agent.address, tree, progress=steps.append))
        offer = await bob.offers.next()
        assert (offer.sender, offer.sender_name, offer.verified) == (alice.agent.address, "alice", True)
        assert {file.name: file.size for file in offer.files} == {
            f"project/{name}": len(content) for name, content in contents(tree).items()
        }
        assert offer.size == sum(map(len, contents(tree).values()))
        arrived: list[Progress] = []
        received = await soon(offer.accept(tmp_path / "inbox", progress=arrived.append))
        sent = await soon(sending)
        assert sent.state == "delivered"
        assert contents(tmp_path / "inbox" / "project") == contents(tree)
        assert received.skipped == ()
        assert received.size == offer.size
        assert {file.path for file in received.files} == {
            tmp_path / "inbox" / "project" / name for name in contents(tree)
        }
        assert [path.name for path in (tmp_path / "inbox").iterdir()] == [
            "project"
        ]  # nothing temporary stays
        for progress in (steps[-1], arrived[-1]):
            assert (progress.chunks, progress.total, progress.fraction) == (offer.chunks, offer.chunks, 1.0)
            assert progress.seconds_left == 0
        assert offer.chunks > 3
        await settled(alice.agent, bob.agent)
        assert alice.chat.events == bob.chat.events == []  # transfers are no chat


async def test_three_cuts_of_either_line(hall: App, tree: Path, tmp_path: Path) -> None:
    """Each cut loses what was under way; the receiver tells what it has, and the rest is sent."""
    port = hall.port.address[1]
    async with (
        Door(port) as alices,
        Door(port) as bobs,
        two_parties(alices.url, bobs.url) as (alice, bob),
    ):
        doors = iter((bobs, alices, bobs))

        def cut(progress: Progress) -> None:
            if (door := next(doors, None)) is not None:
                door.drop()

        sending = asyncio.create_task(alice.agent.send_files(bob.agent.address, [tree]))
        offer = await bob.offers.next()
        await soon(offer.accept(tmp_path / "inbox", progress=cut))
        await soon(sending)
        assert next(doors, None) is None
        assert contents(tmp_path / "inbox" / "project") == contents(tree)


# -- the ways in which it ends ---------------------------------------------------------------------------


async def test_a_rejected_offer(url: str, tree: Path, tmp_path: Path) -> None:
    async with two_parties(url) as (alice, bob):
        transfer_ = await alice.agent.offer_files("@bob", tree / "readme.md")
        assert (transfer_.to, transfer_.state, transfer_.size) == (bob.agent.address, "offered", 8)
        offer = await bob.offers.next()
        await offer.reject("not today")
        with pytest.raises(TransferRejected, match="rejected the files: not today"):
            await soon(transfer_.outcome())
        assert transfer_.state == "rejected"
        assert bob.agent.file_offers() == []
        with pytest.raises(OfferNotFound):
            await offer.accept(tmp_path / "inbox")
        with pytest.raises(OfferNotFound):
            await offer.reject()
        assert not (tmp_path / "inbox").exists()


async def test_an_offer_is_answered_once(url: str, tree: Path, tmp_path: Path) -> None:
    async with two_parties(url) as (alice, bob):
        await alice.agent.offer_files(bob.agent.address, tree / "readme.md")
        offer = await bob.offers.next()
        assert bob.agent.file_offer(offer.transfer_id) is offer
        results = await asyncio.gather(
            offer.accept(tmp_path / "one"), offer.accept(tmp_path / "two"), return_exceptions=True
        )
        assert sorted(type(result).__name__ for result in results) == ["OfferNotFound", "ReceivedFiles"]
        with pytest.raises(OfferNotFound):
            bob.agent.file_offer(offer.transfer_id)


async def test_the_receiver_cancels(url: str, tree: Path, tmp_path: Path) -> None:
    async with two_parties(url) as (alice, bob):
        sending = asyncio.create_task(alice.agent.send_files(bob.agent.address, tree))
        offer = await bob.offers.next()
        accepting: asyncio.Task[Any]

        def stop(progress: Progress) -> None:
            accepting.cancel()

        accepting = asyncio.create_task(offer.accept(tmp_path / "inbox", progress=stop))
        with pytest.raises(asyncio.CancelledError):
            await accepting
        with pytest.raises(TransferFailed, match="cancelled by the receiver"):
            await soon(sending)
        assert list((tmp_path / "inbox").iterdir()) == []


async def test_the_sender_cancels(url: str, tree: Path, tmp_path: Path) -> None:
    async with two_parties(url) as (alice, bob):
        sending: asyncio.Task[Any]

        def stop(progress: Progress) -> None:
            sending.cancel()

        sending = asyncio.create_task(alice.agent.send_files(bob.agent.address, tree, progress=stop))
        offer = await bob.offers.next()
        with pytest.raises(TransferCancelled, match="cancelled by the sender"):
            await soon(offer.accept(tmp_path / "inbox"))
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert list((tmp_path / "inbox").iterdir()) == []


async def test_an_offer_that_is_taken_back_is_gone(url: str, tree: Path, tmp_path: Path) -> None:
    async with two_parties(url) as (alice, bob):
        transfer_ = await alice.agent.offer_files(bob.agent.address, tree)
        offer = await bob.offers.next()
        await transfer_.cancel()
        await transfer_.cancel()  # once is enough
        await settled(bob.agent)
        with pytest.raises(OfferNotFound):
            await offer.accept(tmp_path)
        with pytest.raises(TransferCancelled):
            await transfer_.outcome()


async def test_an_offer_without_an_answer(url: str, tree: Path) -> None:
    async with two_parties(url) as (alice, bob):
        with pytest.raises(TransferTimeout, match="may have no file support"):
            await soon(alice.agent.send_files(bob.agent.address, tree, timeout=0.05))
        transfer_ = await alice.agent.offer_files(bob.agent.address, tree)
        with pytest.raises(TransferTimeout, match="still offered"):
            await transfer_.outcome(timeout=0.01)
        assert transfer_.state == "offered"


async def test_a_sender_that_has_left(url: str, tree: Path, tmp_path: Path) -> None:
    bob = Party("bob", BOB)
    async with bob.agent.connected(url):
        async with Agent("alice", identity=ALICE).connected(url) as alice:
            await alice.offer_files(bob.agent.address, tree)
            offer = await bob.offers.next()
        with pytest.raises(TransferFailed, match=r"has left|cancelled"):
            await soon(offer.accept(tmp_path / "inbox"))


async def test_a_sender_that_was_started_anew_knows_nothing_of_its_offer(
    url: str, tree: Path, tmp_path: Path
) -> None:
    async with two_parties(url) as (alice, bob):
        await alice.agent.offer_files(bob.agent.address, tree)
        offer = await bob.offers.next()
        async with Agent("alice", identity=ALICE).connected(url):
            with pytest.raises(TransferCancelled, match="the offer is not there any more"):
                await offer.accept(tmp_path / "inbox")


async def test_a_transfer_that_takes_too_long(url: str, tmp_path: Path) -> None:
    async with two_parties(url) as (alice, bob):
        content = json.loads(VECTORS["slurp"]["messages"]["offer"]["content"])
        await alice.agent.send(bob.agent.address, json.dumps(content))
        offer = await bob.offers.next()
        with pytest.raises(TransferTimeout, match="timeout: 4 of 4 chunks are missing"):
            await soon(offer.accept(tmp_path / "inbox", timeout=0.1))


async def test_an_agent_without_a_key_cannot_resume(hall: App, tree: Path, tmp_path: Path) -> None:
    bob = Party("bob", BOB)
    async with (
        Door(hall.port.address[1]) as door,
        bob.agent.connected(hall.url),
        Agent("anonymous", backoff=QUICKLY).connected(door.url) as alice,
    ):
        sending = asyncio.create_task(
            alice.send_files(bob.agent.address, tree, progress=lambda _: door.drop())
        )
        accepting = asyncio.create_task((await bob.offers.next()).accept(tmp_path / "inbox"))
        with pytest.raises(TransferFailed, match="use a key file"):
            await soon(sending)
        accepting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await accepting


# -- what is refused -------------------------------------------------------------------------------------


async def test_targets_that_cannot_receive(open_hall: OpenHall, tree: Path) -> None:
    async with open_hall() as app, Agent("alice", identity=ALICE).connected(app.url) as alice:
        with pytest.raises(AgentNotFound):
            await alice.offer_files("@not-here", tree)
        with pytest.raises(AgentNotFound):
            await alice.offer_files("@0123456789abcdef", tree)
        with pytest.raises(AgentNotFound, match="files go to an agent"):
            await alice.offer_files("#general", tree)
        with pytest.raises(UsageError, match="itself"):
            await alice.offer_files(alice.address, tree)


async def test_files_that_cannot_be_sent(url: str, tmp_path: Path) -> None:
    async with two_parties(url) as (alice, bob):
        with pytest.raises(TransferFailed, match=r"cannot read .*missing"):
            await alice.agent.offer_files(bob.agent.address, tmp_path / "missing")
        with pytest.raises(UsageError, match="no files"):
            await alice.agent.offer_files(bob.agent.address, [])
        large = tmp_path / "large"
        with large.open("wb") as file:
            file.truncate(MAX_SIZE + 1)
        with pytest.raises(UsageError, match=r"50\.0 MB"):
            await alice.agent.offer_files(bob.agent.address, large)


async def test_an_offer_over_the_limit_is_rejected_as_it_arrives(url: str) -> None:
    async with two_parties(url) as (alice, bob):
        content = json.loads(VECTORS["slurp"]["messages"]["offer"]["content"])
        answers: Heard[dict[str, Any]] = Heard()
        alice.agent.on_event("MSG")(answers)
        await alice.agent.send(bob.agent.address, json.dumps(content | {"totalSize": MAX_SIZE + 1}))
        answer = json.loads((await answers.next())["content"])
        assert (answer["_ft"], answer["tid"]) == ("reject", TID)
        assert bob.agent.file_offers() == []
        assert bob.offers.events == []


async def test_other_agents_cannot_make_an_agent_talk_all_the_time(url: str) -> None:
    """An agent may say one thing a second, and needs it for itself."""
    async with two_parties(url) as (alice, bob):
        content = json.loads(VECTORS["slurp"]["messages"]["offer"]["content"])
        answers: Heard[dict[str, Any]] = Heard()
        alice.agent.on_event("MSG")(answers)
        for number in range(5):
            offer = content | {"totalSize": MAX_SIZE + 1, "tid": f"{number:016x}"}
            await alice.agent.send(bob.agent.address, json.dumps(offer))
        await answers.next()
        await bob.agent.send(alice.agent.address, "chat")
        assert json.loads(answers.events[0]["content"])["tid"] == f"{0:016x}"
        assert (await answers.next())["content"] == "chat"


async def test_a_peer_on_another_wire_is_refused_at_once(hall: App, tree: Path) -> None:
    async with Agent("alice", identity=ALICE).connected(hall.url) as alice:
        office = Telegraph(cast("World", hall), "office")
        with pytest.raises(TransferRejected, match="on the telegraph wire, which carries no files"):
            await alice.send_files(office.agent.address, tree)
        assert office.received == []


async def test_offers_of_one_agent_are_bounded(url: str) -> None:
    async with two_parties(url) as (alice, bob):
        content = json.loads(VECTORS["slurp"]["messages"]["offer"]["content"])
        for number in range(20):
            await alice.agent.send(bob.agent.address, json.dumps(content | {"tid": f"{number:016x}"}))
        await settled(bob.agent)
        assert [offer.transfer_id for offer in bob.agent.file_offers()] == [f"{n:016x}" for n in range(8)]


async def test_messages_of_transfers_are_no_chat_whatever_they_say(url: str) -> None:
    async with two_parties(url) as (alice, bob):
        for content in (
            '{"_ft":"dance"}',
            '{"_ft":"offer"}',
            '{"tid":"x","_ft":"ack"}',
            '{"_ft":"accept","tid":7}',
        ):
            await alice.agent.send(bob.agent.address, content)
        await alice.agent.send(bob.agent.address, '{"ft": "chat"} and "_ft"')
        assert (await bob.chat.next()).content == '{"ft": "chat"} and "_ft"'
        assert len(bob.chat.events) == 1


# -- another agent in between ------------------------------------------------------------------------------


async def test_only_the_agent_that_offered_is_heard(url: str, tmp_path: Path) -> None:
    """Carol knows the transfer id, and can neither send chunks nor complete or cancel the transfer."""
    slurp = VECTORS["slurp"]
    async with two_parties(url) as (alice, bob), Agent("carol", identity=CAROL).connected(url) as carol:
        await alice.agent.send(bob.agent.address, slurp["messages"]["offer"]["content"])
        offer = await bob.offers.next()
        accepts: Heard[dict[str, Any]] = Heard()
        alice.agent.on_event("MSG")(accepts)
        accepting = asyncio.create_task(offer.accept(tmp_path / "inbox"))
        await accepts.next()
        chunk = json.loads(slurp["messages"]["chunks"][0]["content"]) | {"data": "not this"}
        await carol.send_chunk(bob.agent.address, json.dumps(chunk))
        await carol.send(bob.agent.address, json.dumps({"_ft": "cancel", "tid": TID}))
        for message in slurp["messages"]["chunks"]:
            await alice.agent.send_chunk(bob.agent.address, message["content"])
        await alice.agent.send(bob.agent.address, slurp["messages"]["complete"]["content"])
        received = await soon(accepting)
        assert {file.name: file.path.read_bytes() for file in received.files} == extracted()


def extracted() -> dict[str, bytes]:
    return {file["name"]: base64.b64decode(file["base64"]) for file in VECTORS["slurp"]["extracts_to"]}


# -- peers of another make -----------------------------------------------------------------------------------


class ReferencePeer:
    """A client that speaks as the reference does: what the specification says, and nothing of ours."""

    CHUNK = 1_048_576  # UTF-16 code units

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.heard: Heard[dict[str, Any]] = Heard()
        agent.on_event("MSG")(self._hear)
        agent.on_event("FILE_CHUNK")(self._hear)

    async def _hear(self, frame: dict[str, Any]) -> None:
        await self.heard({"from": frame["from"], **json.loads(frame["content"])})

    async def send(
        self, to: str, archive: str, size: int = CHUNK, sha256: str | None = None
    ) -> dict[str, Any]:
        """Offer an archive, send it when it is accepted, and return the ack."""
        units = archive.encode("utf-16-le", "surrogatepass")
        pieces = [
            units[start : start + 2 * size].decode("utf-16-le", "surrogatepass")
            for start in range(0, len(units), 2 * size)
        ]
        digest = sha256 or hashlib.sha256(archive.encode()).hexdigest()
        offer = {"_ft": "offer", "tid": TID, "files": [{"name": "a", "size": 1}], "totalSize": len(units)}
        offer |= {"sha256": digest, "chunks": len(pieces), "senderNick": "reference"}
        await self.agent.send(to, json.dumps(offer))
        accept = await self.heard.until(lambda message: message["_ft"] in ("accept", "reject"))
        assert accept == {
            "from": to,
            "_ft": "accept",
            "tid": TID,
        }  # nothing of ours to a peer that offers nothing
        for idx, data in enumerate(pieces):
            chunk = {"_ft": "chunk", "tid": TID, "idx": idx, "total": len(pieces), "data": data}
            await self.agent.send_chunk(to, json.dumps(chunk))
        await self.agent.send(to, json.dumps({"_ft": "complete", "tid": TID, "sha256": digest}))
        return await self.heard.until(lambda message: message["_ft"] == "ack")

    async def receive(self) -> str:
        """Accept the next offer and return the archive, whatever its hash."""
        offer = await self.heard.until(lambda message: message["_ft"] == "offer")
        chunks: list[str | None] = [None] * offer["chunks"]
        await self.agent.send(offer["from"], json.dumps({"_ft": "accept", "tid": offer["tid"]}))
        complete = None
        while complete is None or None in chunks:
            message = await self.heard.next()
            if message["_ft"] == "chunk":
                chunks[message["idx"]] = chunks[message["idx"]] or message["data"]
            elif message["_ft"] == "complete":
                complete = message
        archive = "".join(chunk or "" for chunk in chunks)
        is_ok = hashlib.sha256(archive.encode()).hexdigest() == complete["sha256"]
        await self.agent.send(offer["from"], json.dumps({"_ft": "ack", "tid": offer["tid"], "ok": is_ok}))
        return archive


async def test_files_from_the_reference(open_hall: OpenHall, tmp_path: Path) -> None:
    """Its chunks are large, and cut characters in two."""
    text = "# --- SLURP v4 ---\n#\n\n=== a.txt ===\n" + "😀" * 700_001 + "\n=== END a.txt ===\n"
    async with open_hall(max_frame=16 * 1024 * 1024, outbox_limit=64 * 1024 * 1024) as app:
        bob = Party("bob", BOB)
        async with (
            Agent("reference", identity=ALICE).connected(app.url) as alice,
            bob.agent.connected(app.url),
        ):
            for size in (ReferencePeer.CHUNK, 262_143):
                sending = asyncio.create_task(ReferencePeer(alice).send(bob.agent.address, text, size))
                received = await soon((await bob.offers.next()).accept(tmp_path / str(size)))
                assert (await soon(sending))["ok"] is True
                assert received.files[0].path.read_text() == "😀" * 700_001 + "\n"


async def test_files_for_the_reference(url: str, tree: Path) -> None:
    async with (
        Agent("alice", identity=ALICE).connected(url) as alice,
        Agent("reference").connected(url) as bob,
    ):
        receiving_ = asyncio.create_task(ReferencePeer(bob).receive())
        await soon(alice.send_files(bob.address, tree))
        archive = await soon(receiving_)
        assert archive.startswith("# --- SLURP v4 ---\n#\n# name: transfer\n# files: 6\n")
        assert "\n=== project/readme.md ===\n# hello\n=== END project/readme.md ===\n" in archive


async def test_a_wrong_hash_unpacks_nothing(url: str, tmp_path: Path) -> None:
    async with two_parties(url) as (alice, bob):
        text = VECTORS["slurp"]["archive"]
        sending = asyncio.create_task(
            ReferencePeer(alice.agent).send(bob.agent.address, text, sha256="0" * 64)
        )
        with pytest.raises(HashMismatch):
            await soon((await bob.offers.next()).accept(tmp_path / "inbox"))
        ack = await soon(sending)
        assert (ack["ok"], ack["error"]) == (False, "hash mismatch")
        assert list((tmp_path / "inbox").iterdir()) == []


async def test_bad_entries_are_skipped_and_the_rest_arrives(url: str, tmp_path: Path) -> None:
    names = ("../up", "/absolute", "good", "C:drive", "GOOD", "con.txt")
    text = "# --- SLURP v4 ---\n" + "".join(
        f"\n=== {name} ===\n{name}\n=== END {name} ===\n" for name in names
    )
    async with two_parties(url) as (alice, bob):
        sending = asyncio.create_task(ReferencePeer(alice.agent).send(bob.agent.address, text))
        received = await soon((await bob.offers.next()).accept(tmp_path / "inbox"))
        assert (await soon(sending))["ok"] is True
        assert [file.name for file in received.files] == ["good"]
        assert [each.name for each in received.skipped] == [
            "../up",
            "/absolute",
            "C:drive",
            "GOOD",
            "con.txt",
        ]
        assert contents(tmp_path / "inbox") == {"good": b"good\n"}
        assert not (tmp_path / "up").exists()


async def test_more_data_than_was_offered(url: str, tmp_path: Path) -> None:
    async with two_parties(url) as (alice, bob):
        offer = {"_ft": "offer", "tid": TID, "files": [], "totalSize": 1, "sha256": "0" * 64, "chunks": 2}
        await alice.agent.send(bob.agent.address, json.dumps(offer))
        answers: Heard[dict[str, Any]] = Heard()
        alice.agent.on_event("MSG")(answers)
        accepting = asyncio.create_task((await bob.offers.next()).accept(tmp_path / "inbox"))
        await answers.next()
        chunk = {"_ft": "chunk", "tid": TID, "idx": 0, "total": 2, "data": "x" * 100_000}
        await alice.agent.send_chunk(bob.agent.address, json.dumps(chunk))
        with pytest.raises(TransferFailed, match="more data came than was offered"):
            await soon(accepting)


# -- several at once ---------------------------------------------------------------------------------------------


async def test_several_transfers_at_once(url: str, tree: Path, tmp_path: Path) -> None:
    """They share the lane, which has tests of its own, and none of them gets what belongs to another."""
    async with two_parties(url) as (alice, bob):

        @bob.agent.on_file_offer
        async def take(offer: FileOffer) -> None:
            await offer.accept(tmp_path / offer.transfer_id)

        sent = await soon(asyncio.gather(*(alice.agent.send_files("@bob", tree) for _ in range(4))))
        for each in sent:
            assert contents(tmp_path / each.transfer_id / "project") == contents(tree)


# -- without await ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hall_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as hall:
        yield hall.url


def test_files_without_await(hall_url: str, tree: Path, tmp_path: Path) -> None:
    with SyncAgent("alice", url=hall_url) as alice, SyncAgent("bob", url=hall_url) as bob:
        transfer_ = alice.offer_files(bob.address, [tree / "readme.md", tree / "empty"])
        bob.ping()  # the offer came before the answer
        (offer,) = bob.file_offers()
        assert bob.file_offer(offer.transfer_id).size == offer.size == 8
        received = offer.accept(tmp_path / "inbox")
        transfer_.outcome(timeout=10)
        assert transfer_.state == "delivered"
        assert [file.path.read_bytes() for file in received.files] == [b"# hello\n", b""]
        again = alice.offer_files(bob.address, tree / "readme.md")
        again.cancel()
        with pytest.raises(TransferCancelled):
            again.outcome()
