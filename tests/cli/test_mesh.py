"""The commands of the mesh, against a small hall."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from msgspec import structs
from typer.testing import CliRunner, Result

from moothall.cli.main import app
from moothall.hall.mesh.frames import (
    AgentFrame,
    ConversationChanged,
    EscrowSummary,
    Frame,
    NotaryAssigned,
    Reputation,
    Subscribe,
)
from moothall.identity import Identity, PrivateKey, save
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.outcomes import MAX_INLINE, Deliver, Feedback, Outcome, Role
from tests.mesh.small_hall import SmallHall
from tests.support.server import running_hall

ALICE, BOB, NOTARY = (PrivateKey(bytes([number]) * 32) for number in (1, 2, 3))
KEYS = {"alice": ALICE, "bob": BOB, "notary": NOTARY}
A, B, N = (key.public.raw.hex() for key in KEYS.values())
ID = "9c41aa02" * 4


class Running:
    """A small hall on a thread of its own, and the key files of its agents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hall = SmallHall()
        self._ready = Event()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> "Running":
        self._ended = asyncio.Event()
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        async with self.hall:
            self._ready.set()
            await self._ended.wait()

    def run(self, who: str, *arguments: str, stdin: bytes | None = None) -> Result:
        command, *rest = arguments
        place = ("--url", self.hall.url, "--identity", str(self.folder / f"{who}.json"))
        result = CliRunner().invoke(app, ["mesh", command, *place, *rest], input=stdin, prog_name="moothall")
        assert "Traceback" not in result.output
        return result

    def printed(self, who: str, *arguments: str, stdin: bytes | None = None) -> str:
        result = self.run(who, *arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def fields(self, who: str, *arguments: str) -> Any:
        return json.loads(self.printed(who, *arguments, "--json"))

    def complaint(self, code: int, who: str, *arguments: str) -> str:
        result = self.run(who, *arguments)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr

    def propose(self, *flags: str) -> str:
        return self.printed("alice", "propose", B, "translate", "it", "--id", ID, "--amount", "5", *flags)

    def commit(self) -> None:
        self.propose()
        self.printed("bob", "accept", ID)

    def change(self, **fields: Any) -> None:
        """What the hall does by itself."""
        known = self.hall.conversations[bytes.fromhex(ID)]
        self.hall.conversations[known.id] = structs.replace(known, **fields)


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Running]:
    for name, key in KEYS.items():
        save(Identity(key, name=name), tmp_path / f"{name}.json")
    with Running(tmp_path) as running:
        yield running


# -- a deal ---------------------------------------------------------------------------------------------


def test_a_deal_step_by_step(mesh: Running) -> None:
    assert mesh.propose() == f"{ID}  NEGOTIATING  {A[:16]} → {B[:16]}  5 credits\n"
    assert mesh.fields("bob", "counter", "9c41", "7.5", "a", "long", "page")["amount"] == 7_500_000
    assert mesh.printed("alice", "accept", "9c41").split()[1] == "COMMITTED"
    assert mesh.printed("bob", "deliver", "9c41", "--text", "Der Saal").split()[1] == "DELIVERED"
    assert mesh.printed("alice", "approve", "9c41").split()[1] == "RESOLVED"
    assert mesh.fields("alice", "feedback", "9c41", "100")["state"] == "CLOSED"
    assert mesh.fields("bob", "feedback", "9c41", "-50")["state"] == "CLOSED"
    types = [envelope.msg_type.name for envelope in mesh.hall.taken]
    assert types == ["PROPOSE", "COUNTER", "ACCEPT", "DELIVER", "VERDICT", "FEEDBACK", "FEEDBACK"]
    good, bad = (Feedback.decode(envelope.payload) for envelope in mesh.hall.taken[-2:])
    assert (good.target_agent.hex(), good.score, good.outcome) == (B, 100, Outcome.POSITIVE)
    assert (bad.target_agent.hex(), bad.score, bad.outcome) == (A, -50, Outcome.NEGATIVE)


def test_a_step_tells_what_became_of_the_envelope(mesh: Running) -> None:
    mesh.propose()
    found = mesh.fields("bob", "reject", ID, "too", "busy")
    nonce = mesh.hall.taken[-1].nonce
    assert found == {
        "conversation_id": ID,
        "elsewhere": False,
        "state": "CLOSED",
        "requester": A,
        "provider": B,
        "notary": None,
        "amount": 5_000_000,
        "nonce": nonce,
        "away": True,
        "stored": True,
    }
    assert json.loads(mesh.hall.taken[-1].payload)["reason"] == "too busy"


def test_a_recipient_that_is_away_is_told_of(mesh: Running) -> None:
    told = "the recipient is not connected; the message waits in its inbox\n"
    assert mesh.run("alice", "propose", B, "work", "--id", ID, "--notary").stderr == told
    assert mesh.run("bob", "accept", ID).stderr == told
    assert mesh.fields("alice", "propose", B, "more work")["away"] is True


def test_the_provider_may_propose(mesh: Running) -> None:
    found = mesh.fields("bob", "propose", A, "I translate", "--offer-work", "--rounds", "3")
    assert (found["requester"], found["provider"], found["amount"]) == (A, B, 0)
    assert found["conversation_id"] != ID


def test_a_proposal_may_ask_for_a_notary(mesh: Running) -> None:
    mesh.propose("--notary")
    assert [envelope.msg_type.name for envelope in mesh.hall.taken] == ["PROPOSE", "NOTARIZE_BID"]
    assert mesh.hall.taken[1].payload[0] == 0


def test_a_counter_offer_may_ask_for_a_notary_before_it_is_made(mesh: Running) -> None:
    mesh.propose()
    mesh.printed("bob", "counter", ID, "6", "--notary")
    assert [envelope.msg_type.name for envelope in mesh.hall.taken] == ["PROPOSE", "NOTARIZE_BID", "COUNTER"]


def test_an_agent_that_was_met_may_be_abbreviated(mesh: Running) -> None:
    mesh.propose()
    assert mesh.fields("alice", "propose", B[:16], "another")["provider"] == B
    assert "none of your agents begins with" in mesh.complaint(2, "alice", "propose", N[:16], "another")


def test_an_offer_that_has_changed_meanwhile_is_not_accepted(mesh: Running) -> None:
    mesh.propose()
    complaint = mesh.complaint(4, "bob", "accept", ID, "--amount", "6")
    assert "The last offer is 5 credits, not 6" in complaint
    assert mesh.fields("bob", "accept", ID, "--amount", "5.0")["state"] == "COMMITTED"


def test_work_from_a_file_from_standard_input_and_elsewhere(mesh: Running) -> None:
    mesh.commit()
    page = mesh.folder / "page.html"
    page.write_bytes(b"<p>")
    mesh.printed("bob", "deliver", ID, str(page), "--content-type", "text/html")
    mesh.change(verdict="reject")
    mesh.printed("bob", "deliver", ID, "-", stdin=b"\xff\x00")
    mesh.change(verdict="reject")
    mesh.printed("bob", "deliver", ID, "--uri", "https://example.org/page")
    first, second, third = (Deliver.decode(envelope.payload) for envelope in mesh.hall.taken[-3:])
    assert (first.inline, first.content_type) == (b"<p>", "text/html")
    assert (second.inline, second.content_type) == (b"\xff\x00", None)
    assert (third.inline, third.payload_uri) == (None, "https://example.org/page")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ((), "deliver one thing"),
        (("page", "--text", "x"), "deliver one thing"),
        (("missing.html",), "missing.html: No such file"),
        (("--text", "x" * (MAX_INLINE + 1)), "goes by reference"),
    ],
)
def test_work_that_cannot_be_delivered(mesh: Running, arguments: tuple[str, ...], hint: str) -> None:
    mesh.commit()
    assert hint in mesh.complaint(2, "bob", "deliver", ID, *arguments)
    assert mesh.hall.taken[-1].msg_type is MsgType.ACCEPT


def test_a_dispute_opens_the_negotiation_again(mesh: Running) -> None:
    mesh.commit()
    mesh.printed("bob", "deliver", ID, "--text", "half")
    assert mesh.fields("alice", "dispute", ID, "half", "of", "it")["state"] == "NEGOTIATING"


def test_credits_are_taken_back(mesh: Running) -> None:
    mesh.commit()
    assert mesh.fields("bob", "consent", ID)["state"] == "COMMITTED"
    assert mesh.fields("alice", "cancel", ID)["state"] == "CLOSED"


# -- notaries -------------------------------------------------------------------------------------------


def test_an_offer_to_notarize(mesh: Running) -> None:
    assert mesh.printed("notary", "notarize") == "offered to notarize any conversation\n"
    assert mesh.printed("notary", "notarize", ID) == f"offered to notarize {ID}\n"
    assert [envelope.payload[:17].hex() for envelope in mesh.hall.taken] == ["01" + "00" * 16, "01" + ID]
    assert "it has 32 hex digits" in mesh.complaint(2, "notary", "notarize", ID[:8])


def test_a_party_asks_for_a_notary(mesh: Running) -> None:
    mesh.propose()
    assert mesh.fields("alice", "notarize", "9c41", "--ask") == {"conversation_id": ID, "bid": "request"}
    assert mesh.hall.taken[-1].payload.hex() == "00" + ID
    assert "give its ID" in mesh.complaint(2, "alice", "notarize", "--ask")


def test_a_verdict_goes_to_both_parties(mesh: Running) -> None:
    mesh.commit()
    mesh.change(notary=NOTARY.public.raw)
    mesh.printed("bob", "deliver", ID, "--text", "half")
    rejected = mesh.printed("notary", "verdict", "9c41", "reject", "half", "of", "it")
    assert rejected == f"{ID}  DELIVERED    {A[:16]} → {B[:16]}  5 credits  notary {N[:16]}\n"
    assert {envelope.recipient.hex() for envelope in mesh.hall.taken[-2:]} == {A, B}
    assert mesh.hall.taken[-1].payload.endswith(b"half of it")
    mesh.printed("bob", "deliver", ID, "--text", "all")
    assert mesh.fields("notary", "verdict", "9c41", "approve")["state"] == "RESOLVED"
    mesh.printed("alice", "feedback", ID, "80", "--about", "notary")
    rating = Feedback.decode(mesh.hall.taken[-1].payload)
    assert (rating.target_agent.hex(), rating.role) == (N, Role.NOTARY)


def test_a_conversation_without_a_notary_has_none_to_rate(mesh: Running) -> None:
    mesh.commit()
    assert "has no notary" in mesh.complaint(2, "alice", "feedback", ID, "80", "--about", "notary")


# -- what there is --------------------------------------------------------------------------------------


def test_conversations_are_listed(mesh: Running) -> None:
    mesh.propose()
    other = mesh.fields("bob", "propose", A, "I translate", "--offer-work")["conversation_id"]
    mesh.printed("alice", "reject", other)
    rows = mesh.printed("bob", "conversations").splitlines()
    assert [row.split()[:3] for row in rows] == [
        [other, "CLOSED", "provider"],
        [ID, "NEGOTIATING", "provider"],
    ]
    assert [each["conversation_id"] for each in mesh.fields("alice", "conversations", "--open")] == [ID]
    assert [each["conversation_id"] for each in mesh.fields("alice", "conversations", "--limit", "1")] == [
        other
    ]
    empty = mesh.run("notary", "conversations")
    assert (empty.stdout, empty.stderr) == ("", "you have no conversations\n")


def test_a_conversation_is_shown_with_its_history(mesh: Running) -> None:
    mesh.commit()
    mesh.hall.escrow = EscrowSummary(amount=5_000_000, notary_fee=500_000, created_at=0, timeout=1000)
    first, escrow, *history = mesh.printed("alice", "show", "9c41").splitlines()
    assert first == f"{ID}  COMMITTED    {A[:16]} → {B[:16]}  5 credits"
    assert escrow.startswith("escrow    5 credits and 0.5 for the notary, until 19")
    assert [line.split()[1:5] for line in history] == [
        ["PROPOSE", A[:16], "→", B[:16]],
        ["ACCEPT", B[:16], "→", A[:16]],
    ]
    assert history[0].endswith("5 credits: translate it")
    found = mesh.fields("alice", "show", "9c41")
    assert found["escrow"]["notary_fee"] == 500_000
    assert [each["type"] for each in found["history"]] == ["PROPOSE", "ACCEPT"]
    assert found["history"][0]["payload"]["message"] == "translate it"


def test_credits_at_another_hall_are_shown_as_such(mesh: Running) -> None:
    mesh.propose()
    mesh.change(elsewhere=True)
    assert mesh.printed("bob", "show", ID).splitlines()[0].endswith("5 credits  credits: elsewhere")
    assert mesh.fields("bob", "show", ID)["elsewhere"]
    assert "5 elsewhere" in mesh.printed("bob", "conversations")


def test_the_work_alone_is_shown_as_it_is(mesh: Running) -> None:
    mesh.commit()
    assert "nothing was delivered" in mesh.complaint(2, "alice", "show", ID, "--work")
    mesh.printed("bob", "deliver", ID, "-", stdin=b"\x1b[31m\xff")
    assert mesh.run("alice", "show", ID, "--work").stdout_bytes == b"\x1b[31m\xff"
    mesh.change(verdict="reject")
    mesh.printed("bob", "deliver", ID, "--uri", "https://example.org/page")
    assert "it is at https://example.org/page" in mesh.complaint(2, "alice", "show", ID, "--work")


def test_credits_and_reputation(mesh: Running) -> None:
    mesh.hall.reputation = Reputation(
        agent_id="",
        rating=1216,
        transactions=1,
        reliability=80_000,
        cooperation=-2_500,
        notary_accuracy=0,
        total_tasks=1,
        total_notarized=0,
        total_disputes=2,
        last_active_epoch=0,
    )
    assert mesh.printed("alice", "balance") == "5 credits\n"
    assert mesh.fields("alice", "balance") == {"agent_id": A, "balance": 5_000_000}
    shown = mesh.printed("alice", "reputation", B)
    assert f"agent            {B}\nrating           1216 after 1 deals\n" in shown
    assert "reliability      +80 in 1 tasks\ncooperation      -2.5\n" in shown
    assert mesh.fields("alice", "reputation")["agent_id"] == A


# -- what is told to all --------------------------------------------------------------------------------


def test_what_an_agent_offers(mesh: Running) -> None:
    printed = mesh.printed(
        "bob", "advertise", "translation", "review", "--price", "2", "20", "--country", "DE", "--city", "Bonn"
    )
    assert printed == f"{B}  translation, review\n"
    beacon, offer = mesh.hall.taken
    assert beacon.payload.endswith(b"bob")
    assert json.loads(offer.payload) == {
        "capabilities": ["translation", "review"],
        "geo": {"country": "DE", "city": "Bonn"},
        "price_range_usd": [2.0, 20.0],
    }
    assert "add --country" in mesh.complaint(2, "bob", "advertise", "translation", "--city", "Bonn")
    assert "32 capabilities" in mesh.complaint(2, "bob", "advertise", "no spaces")


def test_agents_are_found(mesh: Running) -> None:
    mesh.hall.results = [
        {
            "agent_id": B,
            "name": "bob\x1b[2J",
            "capabilities": ["translation"],
            "rating": 1216,
            "transactions": 1,
            "online": True,
            "price_range_usd": [2, 20],
        }
    ]
    words = mesh.printed("alice", "discover", "translation").split()
    assert words == [B, "bob[2J", "1216", "1", "yes", "translation"]
    (found,) = mesh.fields("alice", "discover", "translation")
    assert (found["agent_id"], found["price_range_usd"]) == (B, [2, 20])
    mesh.hall.results = []
    assert mesh.run("alice", "discover", "magic").stderr == "no agent offers magic\n"


def test_a_text_is_published_on_a_topic(mesh: Running) -> None:
    mesh.printed("bob", "broadcast", "#general", "it", "is", "done", "--title", "news", "--tag", "work")
    assert b"\x67general" in mesh.hall.taken[-1].payload
    assert b"it is done" in mesh.hall.taken[-1].payload


# -- listening ------------------------------------------------------------------------------------------


def test_what_waited_is_heard(mesh: Running) -> None:
    mesh.propose()
    heard = mesh.run("bob", "listen", "--max", "1")
    assert heard.stdout.split()[1:] == ["PROPOSE", A[:16], ID, "5", "credits:", "translate", "it"]
    assert f"listening as {B} (bob)" in heard.stderr


def test_other_commands_leave_the_inbox_alone(mesh: Running) -> None:
    mesh.propose()
    mesh.printed("bob", "conversations")
    mesh.printed("bob", "show", ID)
    found = json.loads(mesh.printed("bob", "listen", "general", "--json", "--max", "1"))
    assert (found["type"], found["sender"], found["payload"]["amount"]) == ("PROPOSE", A, 5_000_000)


def test_what_is_not_printed_stays_in_the_inbox(mesh: Running) -> None:
    offers = [mesh.fields("alice", "propose", B, f"{number}")["conversation_id"] for number in range(4)]
    first = mesh.printed("bob", "listen", "--max", "1").split()
    rest = [line.split() for line in mesh.printed("bob", "listen", "--max", "3").splitlines()]
    assert [words[3] for words in (first, *rest)] == offers
    assert mesh.run("bob", "listen", "--max", "1", "--timeout", "0.01").exit_code == 5


def test_what_the_hall_does_is_heard(mesh: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    told = (
        NotaryAssigned(conversation_id=ID, notary=N, fee=500_000),
        ConversationChanged(conversation_id=ID, state="RESOLVED\x1b[2J", cause="review"),
    )
    answer, pushing = mesh.hall._answer, set[asyncio.Task[None]]()

    async def push(agent: bytes) -> None:
        for notice in told:
            await mesh.hall.push(agent, notice)

    def answer_and_push(agent: bytes, question: AgentFrame) -> Frame:
        if isinstance(question, Subscribe):
            pushing.add(asyncio.get_running_loop().create_task(push(agent)))
        return answer(agent, question)

    monkeypatch.setattr(mesh.hall, "_answer", answer_and_push)
    lines = mesh.printed("bob", "listen", "general", "--json", "--max", "2").splitlines()
    assert {(each := json.loads(line))["type"]: each for line in lines} == {
        "notary_assigned": {"type": "notary_assigned", "conversation_id": ID, "notary": N, "fee": 500_000},
        "conversation_changed": {
            "type": "conversation_changed",
            "conversation_id": ID,
            "state": "RESOLVED\x1b[2J",
            "cause": "review",
        },
    }
    shown = mesh.printed("bob", "listen", "general", "--max", "2")
    assert f"NOTARY_ASSIGNED  {ID}  notary {N[:16]}, fee 0.5 credits\n" in shown
    assert f"CONVERSATION_CHANGED  {ID}  RESOLVED[2J (review)\n" in shown


def test_silence_ends_with_a_code_of_its_own(mesh: Running) -> None:
    result = mesh.run("bob", "listen", "--timeout", "0.01")
    assert result.exit_code == 5
    assert "nothing happened for 0.01 s" in result.stderr


# -- what goes wrong ------------------------------------------------------------------------------------


def test_what_the_conversation_does_not_allow(mesh: Running) -> None:
    mesh.propose()
    complaint = mesh.complaint(4, "bob", "deliver", ID, "--text", "too early")
    assert "DELIVER is out of order: the conversation is NEGOTIATING" in complaint
    assert "`moothall mesh conversations` shows how yours stand" in complaint
    assert len(mesh.hall.taken) == 1


@pytest.mark.parametrize(
    ("fault", "shown"),
    [("NoCover", "NoCover: no way"), ("RATE_LIMITED", "RATE_LIMITED: no way"), ("Odd", "Odd: no way")],
)
def test_what_the_hall_refuses(mesh: Running, fault: str, shown: str) -> None:
    mesh.propose()
    mesh.hall.refuse = lambda _: (fault, "no way")
    assert shown in mesh.complaint(4, "bob", "accept", ID)


def test_a_conversation_of_others(mesh: Running) -> None:
    assert "There is no such conversation" in mesh.complaint(4, "bob", "show", "0" * 32)
    assert "none of your conversations begins with 0000" in mesh.complaint(2, "bob", "show", "0000")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("propose", B, "x", "--amount", "1e3"), "'1e3' is not an amount of credits"),
        (("propose", B, "x", "--amount", "9" * 20), "more than a hall can keep"),
        (("propose", "bob", "x"), "`moothall mesh discover` prints whole ids"),
        (("counter", ID, "-5"), "No such option"),
        (("propose", B, "x", "--id", "short"), "it has 32 hex digits"),
        (("feedback", ID, "101"), "101 is more than 100"),
        (("verdict", ID, "perhaps"), "'perhaps'"),
        (("show", "xyz"), "is not the id of a conversation"),
    ],
)
def test_wrong_usage(mesh: Running, arguments: tuple[str, ...], hint: str) -> None:
    assert hint in mesh.complaint(2, "alice", *arguments)
    assert mesh.hall.taken == []


def test_where_no_hall_is(mesh: Running) -> None:
    mesh.hall.url = "ws://127.0.0.1:9"
    assert "cannot reach 127.0.0.1 port 9" in mesh.complaint(3, "bob", "balance")


def test_a_hall_without_a_mesh(mesh: Running, tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "mesh=false") as hall:
        mesh.hall.url = hall.url
        assert "HTTP 404 for the mesh" in mesh.complaint(3, "bob", "balance")
