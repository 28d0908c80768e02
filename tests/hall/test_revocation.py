"""A key that its owner revoked is over in this hall, whoever holds it now (agentchat wire 3.7)."""

import json
from typing import Any

import pytest

from moothall.errors import UsageError
from moothall.hall import revocation
from moothall.hall.handshake import CaptchaTest
from moothall.hall.revoked import REVOKED_FILE, RevokedKeys, decode_revoked, encode_revoked
from moothall.identity import PrivateKey
from moothall.identity.certificates import revoke, rotate, verify_revocation
from moothall.wire.websocket import NORMAL
from tests.identity.vectors import ALICE, BOB, CAROL, NOW_MS
from tests.support.deals import signed
from tests.support.world import (
    Guest,
    World,
    assert_closed,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)


def notice_of(key: PrivateKey, **changed: Any) -> dict[str, Any]:
    return {**revoke(key, now_ms=NOW_MS, reason="stolen"), **changed}


def bring(world: World, guest: Guest, key: PrivateKey, **changed: Any) -> None:
    world.send(guest, "REVOKE_KEY", notice=notice_of(key, **changed), ref="r")


def offer_skill(world: World, guest: Guest) -> None:
    assert guest.key is not None
    world.send(
        guest, "REGISTER_SKILLS", **signed(guest.key, "REGISTER_SKILLS", skills=[{"capability": "paint"}])
    )
    guest.read()


def found(world: World, guest: Guest) -> list[str]:
    guest.read()
    world.send(guest, "SEARCH_SKILLS", query={"capability": "paint"})
    return [result["agent_id"] for result in assert_sent(guest, "SEARCH_RESULTS")["results"]]


def test_a_stranger_with_the_notice_is_believed() -> None:
    world = World()
    stranger = world.connect()
    bring(world, stranger, ALICE)
    assert_sent(
        stranger,
        "KEY_REVOKED",
        agent_id=f"@{ALICE.public.agent_id()}",
        fingerprint=ALICE.public.fingerprint,
        ref="r",
    )
    assert_open(stranger)
    (kept,) = json.loads(world.shelf.files[REVOKED_FILE])
    assert verify_revocation(kept) == ALICE.public
    assert kept["reason"] == "stolen"
    assert [facts["agent"] for facts in world.log.find("key_revoked")] == [ALICE.public.fingerprint]


def test_the_key_opens_no_door_any_more() -> None:
    world = World()
    bring(world, world.connect(), ALICE)
    thief = world.connect()
    world.identify(thief, "alice", key=ALICE)
    assert_refused(thief, "VERIFICATION_FAILED", "This key was revoked")
    assert_open(thief)
    world.identify(thief, "bob", key=BOB)
    assert_sent(thief, "WELCOME")
    assert_consistent(world)


def test_nor_does_it_for_who_was_on_the_way_in() -> None:
    world = World(captcha=True, captcha_difficulty="easy")
    thief = world.connect()
    world.identify(thief, "alice", key=ALICE)
    question = assert_sent(thief, "CAPTCHA_CHALLENGE")
    bring(world, world.connect(), ALICE)
    pending = thief.session.pending
    assert isinstance(pending, CaptchaTest)
    world.send(thief, "CAPTCHA_RESPONSE", captcha_id=question["captcha_id"], answer=pending.question.answer)
    assert_refused(thief, "VERIFICATION_FAILED", "This key was revoked")
    assert_consistent(world)


def test_a_live_session_is_told_and_closed() -> None:
    world = World()
    alice = world.agent("alice", key=ALICE, join="#general")
    bob = world.agent("bob", key=BOB, join="#general")
    alice.read()
    bring(world, bob, ALICE)
    assert_sent(alice, "KEY_REVOKED", fingerprint=ALICE.public.fingerprint)
    assert_closed(alice, NORMAL, "Key revoked")
    assert_sent(bob, "AGENT_LEFT", agent=alice.id)
    assert_sent(bob, "KEY_REVOKED", ref="r")
    assert_open(bob)
    assert_consistent(world)


def test_whoever_revokes_its_own_key_hears_that_it_is_done_before_it_has_to_go() -> None:
    world = World(held=True)
    alice = world.agent("alice", key=ALICE)
    bring(world, alice, ALICE)
    assert_silent(alice)
    assert_open(alice)
    world.held.do_next()
    assert_sent(alice, "KEY_REVOKED", agent_id=alice.id, ref="r")
    assert_closed(alice, NORMAL, "Key revoked")
    assert_consistent(world)


def test_its_skills_are_gone_when_the_answer_comes() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    offer_skill(world, alice)
    offer_skill(world, bob)
    assert set(found(world, bob)) == {alice.id, bob.id}
    bring(world, bob, ALICE)
    assert found(world, bob) == [bob.id]


def test_skills_that_a_crash_left_behind_are_withdrawn_at_the_start() -> None:
    """Killed after the list was written and before the skills were withdrawn."""
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    offer_skill(world, alice)
    offer_skill(world, bob)
    world.hall.revoked.add(ALICE.public, notice_of(ALICE))
    world.desk.open(world.hall)
    assert found(world, bob) == [bob.id]


def test_its_deals_stay_and_the_other_party_can_end_them() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    world.send(alice, "PROPOSAL", **signed(ALICE, "PROPOSAL", to=bob.id, task="review", elo_stake=10))
    deal = assert_sent(bob, "PROPOSAL")["proposal_id"]
    world.send(bob, "ACCEPT", **signed(BOB, "ACCEPT", proposal_id=deal))
    bring(world, bob, ALICE)
    bob.read()
    world.send(bob, "DISPUTE", **signed(BOB, "DISPUTE", proposal_id=deal, reason="gone"))
    assert_sent(bob, "DISPUTE", proposal_id=deal)


def test_nobody_can_make_it_an_offer_that_it_could_never_answer() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    offer_skill(world, bob)
    world.disconnect(bob)
    bring(world, alice, BOB)
    alice.read()
    world.send(alice, "PROPOSAL", **signed(ALICE, "PROPOSAL", to=bob.id, task="review"))
    assert_refused(alice, "AGENT_NOT_FOUND", "revoked")
    assert world.books.deals == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"reason": "another"},
        {"timestamp": "2030-01-01T00:00:00.000Z"},
        {"pubkey": BOB.public.pem, "agent_id": BOB.public.fingerprint, "fingerprint": BOB.public.fingerprint},
        {"fingerprint": BOB.public.fingerprint},
        {"signature": ""},
        {"signature": BOB.sign("anything")},
        {"type": "ROTATION"},
        {"pubkey": "-----BEGIN PUBLIC KEY-----\nxx\n-----END PUBLIC KEY-----\n"},
        {"reason": ["stolen"]},
    ],
    ids=lambda changed: ",".join(changed),
)
def test_a_forged_notice_does_nothing(changed: dict[str, Any]) -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    mallory = world.connect()
    bring(world, mallory, ALICE, **changed)
    assert_refused(mallory, "INVALID_SIGNATURE", "does not hold", ref="r")
    assert_open(alice, bob, mallory)
    assert len(world.hall.revoked) == 0
    assert world.shelf.files == {}
    assert world.log.find("revocation_refused") == [{"ip": mallory.ip}]


def test_the_profile_names_a_forgery_as_the_reference_does() -> None:
    world = World("agentchat-0.36")
    mallory = world.connect()
    bring(world, mallory, ALICE, reason="another")
    assert_refused(mallory, "VERIFICATION_FAILED")


def test_what_stands_behind_a_key_is_not_looked_at() -> None:
    """It is not signed with the notice, and a chain of a thousand rotations would take long to verify."""
    world = World()
    stranger = world.connect()
    rotations = [rotate(CAROL, ALICE.public, now_ms=NOW_MS)]
    bring(world, stranger, ALICE, rotations=[*rotations, "nonsense"], original_agent_id="nobody")
    assert_sent(stranger, "KEY_REVOKED")
    (kept,) = json.loads(world.shelf.files[REVOKED_FILE])
    assert "rotations" not in kept


def test_a_disk_that_fails_is_told_and_the_key_is_out_all_the_same() -> None:
    world = World()
    world.shelf.full = True
    stranger = world.connect()
    bring(world, stranger, ALICE)
    assert_refused(stranger, "INTERNAL_ERROR", ref="r")
    world.shelf.full = False
    bring(world, stranger, ALICE)
    assert_sent(stranger, "KEY_REVOKED")
    assert len(json.loads(world.shelf.files[REVOKED_FILE])) == 1


def test_a_notice_that_is_on_disk_is_not_written_again() -> None:
    """Anybody can bring it as often as it likes, and the list may be long."""
    world = World(held=True)
    stranger, other = world.connect(), world.connect()
    bring(world, stranger, ALICE)
    bring(world, other, BOB)
    assert_silent(stranger, other)
    world.held.do_next()
    assert len(json.loads(world.shelf.files.pop(REVOKED_FILE))) == 2  # one write for both
    world.held.do_next()
    assert_sent(stranger, "KEY_REVOKED")
    assert_sent(other, "KEY_REVOKED")
    bring(world, stranger, ALICE)
    world.held.do_next()
    assert_sent(stranger, "KEY_REVOKED")
    assert world.shelf.files == {}
    bring(world, stranger, CAROL)
    world.held.do_next()
    assert len(json.loads(world.shelf.files[REVOKED_FILE])) == 3


def test_the_first_notice_of_a_key_stays() -> None:
    world = World()
    stranger = world.connect()
    bring(world, stranger, ALICE)
    second = revoke(ALICE, now_ms=NOW_MS + 1, reason="again")
    world.send(stranger, "REVOKE_KEY", notice=second)
    assert [message["type"] for message in stranger.read()] == ["KEY_REVOKED"] * 2
    (kept,) = json.loads(world.shelf.files[REVOKED_FILE])
    assert kept["reason"] == "stolen"
    assert not any(row.operation == "withdraw_skills" for row in world.books.audit)


def test_a_long_notice_is_refused() -> None:
    world = World()
    stranger = world.connect()
    notice = revoke(ALICE, now_ms=NOW_MS, reason="x" * revocation.MAX_NOTICE)
    world.send(stranger, "REVOKE_KEY", notice=notice)
    assert_refused(stranger, "INVALID_MSG", "4096")
    assert len(world.hall.revoked) == 0


def test_keys_that_were_never_here_cannot_fill_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revocation, "MAX_STRANGERS", 1)
    world = World()
    world.agent("bob", key=BOB)
    stranger = world.connect()
    bring(world, stranger, ALICE)
    assert_sent(stranger, "KEY_REVOKED")
    bring(world, stranger, CAROL)
    assert_refused(stranger, "NOT_ALLOWED")
    bring(world, stranger, BOB)
    assert_sent(stranger, "KEY_REVOKED", fingerprint=BOB.public.fingerprint)


def test_the_list_is_read_as_it_was_written() -> None:
    keys = RevokedKeys([notice_of(ALICE), notice_of(BOB, reason="\ud800 ü")])
    again = decode_revoked(encode_revoked(keys.notices()))
    assert again.notices() == keys.notices()
    assert ALICE.public.raw in again
    assert CAROL.public.raw not in again


@pytest.mark.parametrize(
    "content", [b"", b"{", b"7", b'{"a": 1}', b"[7]", b"[{}]", b'[{"pubkey": "x"}]', b"\xff"]
)
def test_a_list_that_is_none_is_one_line_for_the_operator(content: bytes) -> None:
    with pytest.raises(UsageError) as raised:
        decode_revoked(content)
    assert "\n" not in str(raised.value)
