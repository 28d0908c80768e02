"""A hall that sends anything: an agent logs it, says so to its caller, and goes on."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from moothall import PrivateKey, UnexpectedReply
from moothall.errors import MoothallError
from moothall.hall.mesh import frames
from moothall.mesh import MeshAgent, Message
from moothall.mesh.intake import verified
from moothall.wire.mesh.envelope import encode, seal
from moothall.wire.mesh.msg_types import MsgType
from tests.client.meeting import Heard, soon
from tests.mesh.small_hall import SmallHall

ALICE, BOB = (PrivateKey(bytes([number]) * 32) for number in (1, 2))
ID = "63" * 16

NOTICES = (
    frames.NotaryAssigned(conversation_id="no hex", notary="ab" * 32, fee=1),
    frames.NotaryAssigned(conversation_id=ID, notary="no hex", fee=1),
    frames.ConversationChanged(conversation_id="zz", state="DELIVERED", cause="review"),
    frames.ConversationChanged(conversation_id=ID, state="SOMEWHERE", cause="message"),
    frames.Accepted(msg_type="PROPOSE", nonce=1, conversation_id=ID),
    frames.Refused(fault="NoCover", reason="x" * 5000),
    frames.NotInOrder(msg_type="X", nonce=2, conversation_id=ID, state="X", reason="\x1b[2J"),
    frames.DiscoverResults(query="never asked", results=[{}]),
    frames.Error(code="", message=""),
    frames.Balance(agent_id="", balance=-1, ref="77"),
)


def hello(nonce: int) -> bytes:
    sealed = seal(
        MsgType.BEACON,
        BOB.public.raw * 2,
        sender=BOB.public.raw,
        sign=BOB.sign_bytes,
        nonce=nonce,
        now=10**15,
    )
    return encode(sealed)


@pytest.mark.parametrize("notice", NOTICES, ids=lambda notice: type(notice).__name__)
async def test_an_agent_goes_on_after_any_notice(notice: frames.Frame) -> None:
    alice = MeshAgent("alice", key=ALICE)
    beacons: Heard[Message] = Heard()
    alice.on_beacon(beacons)
    async with SmallHall() as hall, alice.connected(hall.url):
        await hall.push(ALICE.public.raw, notice)
        await hall.push(ALICE.public.raw, hello(1))
        await beacons.next()
        assert await alice.balance() == 5_000_000


async def test_text_frames_that_are_no_frames() -> None:
    alice = MeshAgent("alice", key=ALICE)
    async with SmallHall() as hall, alice.connected(hall.url):
        for line in list(hall.lines[ALICE.public.raw]):
            for text in ("", "{", "[]", "null", '{"type":"later"}', '{"type":7}', "[" * 5000):
                await line.send(text)
        assert await soon(alice.balance()) == 5_000_000


Change = Callable[[frames.ConversationShown], frames.ConversationShown]


def summary(**fields: Any) -> Change:
    return lambda shown: structs.replace(shown, conversation=structs.replace(shown.conversation, **fields))


def logged(raw: bytes | str) -> Change:
    text = raw if isinstance(raw, str) else b64encode(raw).decode()
    entry = frames.Logged(msg_type="PROPOSE", sender="", timestamp=0, hash="", envelope=text)
    return lambda shown: structs.replace(shown, history=(entry,))


@pytest.mark.parametrize(
    "change",
    [summary(requester="no hex"), summary(notary="xyz"), logged("abc")],
    ids=["requester", "notary", "base64"],
)
async def test_a_conversation_that_cannot_be_read(change: Change) -> None:
    alice = MeshAgent("alice", key=ALICE)
    async with SmallHall() as hall, alice.connected(hall.url):
        deal = await alice.propose(BOB.public.raw, "work")
        hall.change_shown = change
        with pytest.raises(UnexpectedReply, match="form unknown here"):
            await deal.refresh()
        assert deal.state == "NEGOTIATING"


@pytest.mark.parametrize("raw", [b"", b"\x8c", hello(3)], ids=["empty", "half", "another"])
async def test_a_history_has_only_envelopes_of_the_conversation(raw: bytes) -> None:
    alice = MeshAgent("alice", key=ALICE)
    async with SmallHall() as hall, alice.connected(hall.url):
        deal = await alice.propose(BOB.public.raw, "work")
        hall.change_shown = logged(raw)
        await deal.refresh()
        assert [message.type for message in deal.history] == ["PROPOSE"]


@pytest.mark.parametrize("results", [[{}], [{"agent_id": 1}], [{"agent_id": "a", "rating": "high"}]])
async def test_a_search_that_is_answered_with_anything(results: list[dict[str, object]]) -> None:
    alice = MeshAgent("alice", key=ALICE)
    async with SmallHall() as hall, alice.connected(hall.url):
        hall.results = results
        with pytest.raises(UnexpectedReply, match="form unknown here"):
            await alice.discover("x")


@pytest.mark.parametrize("floor", [2**64, 10**30, -(10**30)])
async def test_a_floor_that_no_clock_reaches_counts_as_none(floor: int) -> None:
    alice = MeshAgent("alice", key=ALICE)
    async with SmallHall() as hall:
        hall.floor = floor
        try:
            async with alice.connected(hall.url):
                await alice.broadcast("news", "x")
        except MoothallError:
            assert abs(floor) > 2**64


@given(st.binary(max_size=600))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_bytes_that_are_no_envelope(raw: bytes) -> None:
    assert verified(raw) is None


@given(st.integers(0, len(hello(1)) - 1), st.integers(1, 255))
def test_an_envelope_with_another_byte(place: int, mask: int) -> None:
    changed = bytearray(hello(1))
    changed[place] ^= mask
    assert verified(bytes(changed)) is None
