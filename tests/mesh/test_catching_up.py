"""An agent that comes back learns what it missed, from the hall's log, once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from moothall import Backoff, PrivateKey
from moothall.hall.mesh import frames
from moothall.market.conversation_rules import decide
from moothall.market.mesh import step_of
from moothall.mesh import Change, MeshAgent, Message
from moothall.mesh import catching_up as module
from moothall.mesh.post import now_us
from moothall.wire.mesh.envelope import encode, seal
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import Counter
from tests.client.door import Door
from tests.client.meeting import Heard
from tests.identity.vectors import ALICE, BOB
from tests.mesh.small_hall import SmallHall
from tests.support.server import HallProcess

pytestmark = pytest.mark.slow

QUICKLY = Backoff(first=0.01, longest=0.05)


@pytest.fixture
async def hall() -> AsyncIterator[SmallHall]:
    async with SmallHall() as hall:
        yield hall


class Party:
    """An agent, and what it hears."""

    def __init__(self, key: "PrivateKey | Path", url: str) -> None:
        self.agent = MeshAgent("agent", key=key, backoff=QUICKLY, url=url)
        self.heard: Heard[Message] = Heard()
        self.changes: Heard[Change] = Heard()
        self.connects: Heard[str] = Heard()
        self.agent.on("COUNTER")(self.heard)
        self.agent.on("PROPOSE")(self.heard)
        self.agent.on_change(self.changes)
        self.agent.on_connect(self.connects)

    async def settled(self) -> None:
        """All that came before is told: the intake takes one after the other."""
        await self.agent._intake._waiting.put((_nothing, 0))
        while not self.agent._intake._waiting.empty():
            await self.agent.balance()


async def _nothing() -> None:
    pass


def counter(hall: SmallHall, talk: str) -> None:
    """Bob counters, and the envelope gets lost after the commit."""
    now = now_us()
    envelope = seal(
        MsgType.COUNTER,
        Counter(amount=9).encode(),
        sender=BOB.public.raw,
        sign=BOB.sign_bytes,
        nonce=now,
        now=now,
        recipient=ALICE.public.raw,
        conversation_id=bytes.fromhex(talk),
    )
    after = decide(hall.conversations[envelope.conversation_id], step_of(envelope))
    hall.conversations[envelope.conversation_id] = structs.replace(after, updated_at=now // 1000)
    hall.log[envelope.conversation_id].append(encode(envelope))


async def test_what_was_lost_on_the_way_is_told_after_a_reconnect_once(hall: SmallHall) -> None:
    alice = Party(ALICE, hall.url)
    async with alice.agent:
        await alice.connects.next()
        deal = await alice.agent.propose(BOB.public.raw, "work")
        counter(hall, deal.id)
        for _ in ("it is told", "it is not told again"):
            hall.drop(ALICE.public.raw)
            await alice.connects.next()
            await alice.settled()
        (message,) = alice.heard.events
        assert (message.amount, message.conversation) == (9, deal)
        assert deal.last("COUNTER") is not None
        assert alice.changes.events == []


async def test_what_the_hall_did_meanwhile_is_told_as_a_change(hall: SmallHall) -> None:
    alice = Party(ALICE, hall.url)
    async with alice.agent:
        await alice.connects.next()
        deal = await alice.agent.propose(BOB.public.raw, "work")
        known = hall.conversations[deal.record.id]
        hall.conversations[deal.record.id] = structs.replace(
            known, state="CLOSED", updated_at=now_us() // 1000
        )
        hall.drop(ALICE.public.raw)
        change = await alice.changes.next()
        assert (change.conversation, change.state, change.cause) == (deal, "CLOSED", "away")


async def test_conversations_that_did_not_change_are_not_read(hall: SmallHall) -> None:
    alice = Party(ALICE, hall.url)
    async with alice.agent:
        await alice.connects.next()
        await alice.agent.propose(BOB.public.raw, "work")
        hall.drop(ALICE.public.raw)
        await alice.connects.next()
        await alice.settled()
        assert not [each for each in hall.asked if isinstance(each, frames.ShowConversation)]


async def test_a_bounded_number_of_conversations_is_looked_at(
    hall: SmallHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LISTED", 2)
    monkeypatch.setattr(frames, "MAX_PAGE", 1)
    alice = Party(ALICE, hall.url)
    async with alice.agent:
        await alice.connects.next()
        for _ in range(5):
            await alice.agent.propose(BOB.public.raw, "work")
        hall.drop(ALICE.public.raw)
        await alice.connects.next()
        await alice.settled()
    assert len([each for each in hall.asked if isinstance(each, frames.ListConversations)]) == 2


async def test_an_inbox_that_died_with_its_hall_costs_no_message(tmp_path: Path) -> None:
    """Bob is not even running. He was here once, so what he has seen is beside his key."""
    folder, key = tmp_path / "hall", tmp_path / "bob.key"
    folder.mkdir()
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    hall = HallProcess(folder, "--no-limits")
    hall.start()
    try:
        async with Door(hall.port) as door:
            first = Party(key, door.url)
            async with first.agent:
                await first.connects.next()
                await first.settled()
            alice = Party(ALICE, door.url)
            async with alice.agent:
                deal = await alice.agent.propose(first.agent.id, "work", amount=3)
            hall.kill()
            hall.restart()
            door.lead_to(hall.port)
            for expected in ([3], []):
                again = Party(key, door.url)
                async with again.agent:
                    await again.connects.next()
                    await again.settled()
                assert [each.amount for each in again.heard.events] == expected
                assert all(each.conversation_id == deal.id for each in again.heard.events)
    finally:
        hall.kill()
