"""What arrives at an agent: which envelopes hold, whose searches are answered, how many names are remembered."""

import asyncio
from typing import Any

import pytest

from moothall.client.handlers import Handlers
from moothall.hall.mesh.frames import DiscoverResults
from moothall.mesh import intake
from moothall.mesh.intake import Intake, verified
from moothall.mesh.marks import Marks
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.msg_types import MsgType
from tests.client.meeting import Heard, soon
from tests.identity.vectors import ALICE, BOB
from tests.support.envelopes import CONVERSATION, envelope, sent


class NoAffairs:
    """Of an agent without conversations."""

    id = BOB.public.raw.hex()

    def find(self, conversation_id: bytes) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not asked for")


def an_intake(handlers: Handlers | None = None) -> Intake:
    return Intake(NoAffairs(), handlers or Handlers(), Marks(None))


@pytest.mark.parametrize(
    ("msg_type", "payload"),
    [
        (MsgType.REJECT, b"anything"),
        (MsgType.BEACON, Beacon(ALICE.public.raw, "alice").encode()),
        (MsgType.BROADCAST, Broadcast(topic="news", title="").encode()),
    ],
)
def test_an_envelope_that_was_signed_and_is_where_it_belongs_holds(msg_type: MsgType, payload: bytes) -> None:
    to = BOB if msg_type is MsgType.REJECT else None
    made, raw = sent(ALICE, msg_type, payload, to=to)
    assert verified(raw) == made


def test_a_payload_that_cannot_be_read_does_not_make_its_envelope_invalid() -> None:
    made, raw = sent(ALICE, MsgType.BROADCAST, b"not CBOR")
    assert verified(raw) == made


def test_a_beacon_of_another_agent_does_not_hold() -> None:
    assert verified(encode(envelope(ALICE, MsgType.BEACON, Beacon(BOB.public.raw, "bob").encode()))) is None


async def test_searches_for_the_same_are_answered_in_their_order() -> None:
    taken = an_intake()
    first, second, other = taken.search("a"), taken.search("a"), taken.search("b")
    for number in (1, 2):
        await taken.noticed(DiscoverResults(query="a", results=[{"number": number}]))
    assert [found.result().results[0]["number"] for found in (first, second)] == [1, 2]
    assert not other.done()
    await taken.noticed(DiscoverResults(query="a", results=[]))  # no one asked


async def test_a_search_that_was_given_up_takes_no_answer() -> None:
    taken = an_intake()
    first, second = taken.search("a"), taken.search("a")
    taken.give_up("a", first)
    await taken.noticed(DiscoverResults(query="a", results=[]))
    assert (first.done(), second.done()) == (False, True)
    taken.give_up("a", second)  # as `discover` does in any case


async def test_names_are_those_of_the_latest_beacons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_NAMES", 1)
    handlers = Handlers()
    heard: Heard[Any] = Heard()
    handlers.add("BEACON", heard)
    taken = an_intake(handlers)
    taken.begin()
    for nonce, (agent, name) in enumerate(((ALICE, "alice"), (BOB, "bob"), (BOB, "")), start=1):
        payload = Beacon(agent.public.raw, name).encode()
        await taken.received(encode(envelope(agent, MsgType.BEACON, payload, nonce=nonce)))
        await soon(heard.next())
        known = {agent.public.raw.hex(): name} if name else {}
        assert taken.names == known
    await taken.end()


async def test_feedback_on_a_conversation_of_others_makes_no_record() -> None:
    handlers = Handlers()
    heard: Heard[Any] = Heard()
    handlers.add("FEEDBACK", heard)
    taken = an_intake(handlers)
    taken.begin()
    await taken.received(encode(envelope(ALICE, MsgType.FEEDBACK, b"?", conversation_id=CONVERSATION)))
    message = await soon(heard.next())
    assert message.conversation is None
    await taken.end()


async def test_an_agent_reads_no_further_while_too_many_bytes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_WAITING_BYTES", 1)
    taken = an_intake()
    await taken.received(b"not an envelope")
    second = asyncio.ensure_future(taken.received(b"nor this"))
    await asyncio.sleep(0)
    assert not second.done()
    taken.begin()
    await soon(second)
    await taken.end()
