"""`moothall court`: a whole case from the command line; and the walk-throughs in README.md and docs/go-to-court.md,
as they are written there."""

import asyncio
import hashlib
import json
import re
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, ConnectionLost, Identity, PrivateKey, SyncAgent
from moothall.cli._nonces import NonceFile
from moothall.errors import UsageError
from moothall.identity import save
from tests.cli.test_deals import complaint, moothall, succeed, succeed_json
from tests.support.server import PATIENCE, HallProcess, environment, running_hall

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(1, 33)))
JUDGES = {name: PrivateKey(bytes([number] * 32)) for number, name in enumerate(("carol", "dave", "erin"), 7)}
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    """Where one deal is experience enough to judge."""
    folder = tmp_path / "hall"
    folder.mkdir()
    with running_hall(folder, "--no-limits", "--set", "court_arbiter_transactions=1") as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a key, and a folder with everybody's."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("AGENTCHAT_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    for name, key in {"alice": ALICE, "bob": BOB, **JUDGES}.items():
        save(Identity(key, name=name), tmp_path / f"{name}.json")
    return home


@pytest.fixture
async def judges(hall: HallProcess) -> AsyncIterator[list[Agent]]:
    """Here, with a deal behind each of them, until the command line takes their place."""
    agents = [Agent(name, identity=key, reconnect=False) for name, key in JUDGES.items()]
    for agent in agents:
        await agent.connect(hall.url)
    for one, other in zip(agents, (*agents[1:], agents[0]), strict=True):
        deal = await one.propose(other.address, "gain experience")
        await other.accept(deal.id)
        await one.complete(deal.id)
    yield agents
    for agent in agents:
        await agent.close()


async def agreed(hall: HallProcess) -> str:
    async with (
        Agent("alice", identity=ALICE).connected(hall.url) as alice,
        Agent("bob", identity=BOB).connected(hall.url) as bob,
    ):
        deal = await alice.propose(bob.address, "paint the hall", amount=5, currency="EUR", stake=20)
        await bob.accept(deal.id, stake=10)
        return deal.id


def nonce_files(folder: Path) -> list[Path]:
    return list(folder.glob("*.nonce"))


# a whole case


async def test_a_case_on_the_command_line(hall: HallProcess, judges: list[Agent], tmp_path: Path) -> None:
    alice, bob = ("-u", hall.url, "-i", "alice.json"), ("-u", hall.url, "-i", "bob.json")
    deal = await agreed(hall)
    filed = await succeed_json("court", "file", deal, "--reason", "still grey", *alice)
    dispute = filed["dispute_id"]
    assert (filed["phase"], filed["role"], filed["proposal_id"]) == ("arbiter_response", "disputant", deal)
    assert set(filed["arbiters"]) == {judge.address for judge in judges}
    assert nonce_files(tmp_path) == []
    assert "DISPUTE_ALREADY_EXISTS" in await complaint(
        4, "court", "file", deal, "--reason", "and rough", *alice
    )
    assert nonce_files(tmp_path) == []

    assert f"in court: {dispute}" in await succeed("proposals", "--open", *bob)
    (line,) = (await succeed("court", "list", "--open", *bob)).splitlines()
    assert line.startswith(f"{dispute}  arbiter_response  respondent  {deal}  @{ALICE.public.agent_id()}  ")
    assert f"@{BOB.public.agent_id()}  bob  still grey  " in line
    assert "DISPUTE_INVALID_PHASE" in await complaint(4, "court", "evidence", dispute, "-s", "now", *bob)

    for name in JUDGES:
        judge = ("-u", hall.url, "-i", f"{name}.json")
        (asked,) = await succeed_json("court", "list", "--open", *judge)
        assert (asked["role"], asked["slot"]) == ("arbiter", "pending")
        assert await succeed("court", "accept", dispute, *judge) == f"{dispute}  accepted\n"
    assert "DISPUTE_NOT_ARBITER" in await complaint(4, "court", "accept", dispute, *alice)

    (tmp_path / "wall.txt").write_text("grey")
    (tmp_path / "items.json").write_text('[{"kind": "other", "value": "a bucket", "litres": 5}]')
    shown = await succeed(
        *("court", "evidence", dispute, "items.json", "--statement", "Look at it", "--commit", "4f2a9c1"),
        *("--message", "I will not", "--file", "wall.txt", *alice),
    )
    first, *items = shown.splitlines()
    assert first == f"{dispute}  evidence received, 4 item(s)"
    assert "  other  a bucket  " in items[0]
    assert items[1].endswith("  commit  4f2a9c1")
    assert items[3].endswith(f"file  sha256:{hashlib.sha256(b'grey').hexdigest()}  wall.txt (4 bytes)")
    told = await succeed_json("court", "evidence", dispute, "--message", "Grey was agreed", *bob)
    assert told["dispute_id"] == dispute

    case = await succeed("court", "show", dispute, "-u", hall.url, "-i", "dave.json")
    assert case.startswith(f"{dispute}  deliberation until ")
    assert "paint the hall  5 EUR  stakes 20 and 10" in case
    assert "of the disputant: Look at it" in case
    assert told["hashes"][0][:12] in case

    verdicts = ("disputant", "disputant", "mutual")
    for name, verdict in zip(JUDGES, verdicts, strict=True):
        judge = ("-u", hall.url, "-i", f"{name}.json")
        voted = await succeed("court", "vote", dispute, verdict, "--reasoning", "grey is grey", *judge)
        assert voted == f"{dispute}  voted  {verdict}\n"
    decided = await succeed("court", "show", deal, *bob)
    assert decided.startswith(f"{dispute}  resolved\n")
    assert "voted for mutual: grey is grey" in decided
    assert re.search(r"^  verdict +disputant$", decided, re.MULTILINE)
    assert re.search(r"^  rating +@\w+  1200 → 1214 \(\+14\)$", decided, re.MULTILINE)
    assert f"10 transferred to @{ALICE.public.agent_id()}" in decided
    assert await succeed("court", "list", "--open", *bob) == ""
    (over,) = await succeed_json("court", "list", *bob)
    assert (over["phase"], over["verdict"]) == ("resolved", "disputant")
    assert (await succeed("court", "list", *bob)).rstrip().endswith("verdict: disputant")

    await succeed("court", "export", dispute, "-o", "case.json", *bob)
    assert json.loads(await succeed("court", "export", deal, *alice)) == json.loads(
        (tmp_path / "case.json").read_text()
    )
    verify = ("court", "verify", "case.json")  # the hall is known since the first contact
    result, *reasons = (await succeed(*verify)).splitlines()
    assert result == f"{dispute}  holds"
    assert reasons[0].startswith("  signed    by parties and arbiters: PROPOSAL, ACCEPT, DISPUTE_INTENT, ")
    assert reasons[0].endswith("3 ARBITER_ACCEPT, 3 ARBITER_VOTE, 2 EVIDENCE.")
    signed = f"  hall      {hall.key.raw.hex()} signed all of it (met at localhost:{hall.port}); "
    assert re.fullmatch(
        re.escape(signed) + r"\d fact\(s\) rest on its word alone: -v lists them\.", reasons[1]
    )
    assert len(reasons) == 2
    everything = (await succeed(*verify, "-v")).splitlines()
    assert sum(line.startswith("  signed    ") for line in everything) == 12
    assert sum(line.startswith("  fits      ") for line in everything) > 30


# the file of a case


async def finished_case(hall: HallProcess, judges: list[Agent], tmp_path: Path) -> dict[str, Any]:
    for judge in judges:

        @judge.on_arbiter_assigned
        async def accept(assignment: object) -> bool:
            return True

        @judge.on_case
        async def vote(case: object) -> str:
            return "respondent"

    deal = await agreed(hall)
    async with (
        Agent("alice", identity=ALICE).connected(hall.url) as alice,
        Agent("bob", identity=BOB).connected(hall.url) as bob,
        asyncio.timeout(PATIENCE),
    ):
        dispute = await alice.file_dispute(deal, "still grey")
        await dispute.submit([{"kind": "commit", "value": "4f2a9c1"}], "look")
        await bob.submit_evidence(dispute.dispute_id, [])
        await dispute.outcome()
        return await dispute.case()


async def test_a_forged_case_does_not_hold(hall: HallProcess, judges: list[Agent], tmp_path: Path) -> None:
    case = await finished_case(hall, judges, tmp_path)
    halls = ("--hall", hall.key.raw.hex())
    held = await succeed("court", "verify", "-", *halls, given=json.dumps(case))
    assert held.startswith(f"{case['dispute_id']}  holds\n")
    case["evidence"]["disputant"]["items"][0]["value"] = "4f2a9c2"
    (tmp_path / "forged.json").write_text(json.dumps(case))
    summary = await moothall("court", "verify", "forged.json", *halls)
    assert summary.exit_code == 1
    first, wrong_line, advice = summary.stdout.splitlines()
    assert first == f"{case['dispute_id']}  does not hold"
    assert wrong_line.startswith("  WRONG     `evidence")
    assert "do not rely on it" in advice
    result = await moothall("court", "verify", "forged.json", "-v", *halls)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{case['dispute_id']}  does not hold\n")
    wrong = [
        sentence for sentence in result.stdout.splitlines() if sentence.startswith(("  WRONG ", "  MISSING "))
    ]
    assert any("evidence" in sentence for sentence in wrong)
    told = await moothall("court", "verify", "forged.json", "--json", *halls)
    report = json.loads(told.stdout)
    assert (told.exit_code, report["holds"], len(report["problems"])) == (1, False, len(wrong))


@pytest.mark.parametrize("content", [b"nonsense", b"\xff", b"", b"[" * 100_000, b"[NaN]"])
async def test_a_file_that_is_no_json(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "case.json").write_bytes(content)
    assert "case.json is not JSON" in await complaint(2, "court", "verify", "case.json")


@pytest.mark.parametrize("content", ["[1]", "null", "{}", '{"dispute_id": 5}'])
async def test_whatever_else_is_in_the_file_is_judged(content: str) -> None:
    result = await moothall("court", "verify", "-", given=content)
    assert result.exit_code == 1
    assert result.stdout.startswith("?  does not hold\n")


async def test_files_that_are_not_there(hall: HallProcess, tmp_path: Path) -> None:
    alice = ("-u", hall.url, "-i", "alice.json")
    assert "No such file" in await complaint(2, "court", "verify", "nowhere.json")
    assert "No such file" in await complaint(2, "court", "evidence", "disp_0", "nowhere.json", *alice)
    assert "No such file" in await complaint(2, "court", "evidence", "disp_0", "--file", "nowhere", *alice)
    (tmp_path / "items.json").write_text('{"kind": "commit"}')
    assert "list of items" in await complaint(2, "court", "evidence", "disp_0", "items.json", *alice)
    assert "nothing to show" in await complaint(2, "court", "evidence", "disp_0", *alice)
    deal = await agreed(hall)
    await moothall("court", "file", deal, "--reason", "grey", *alice)
    assert "directory" in await complaint(2, "court", "export", deal, "-o", ".", *alice)


# what can go wrong


async def test_without_arbiters_the_deal_is_as_it_was(hall: HallProcess, tmp_path: Path) -> None:
    alice = ("-u", hall.url, "-i", "alice.json")
    deal = await agreed(hall)
    result = await moothall("court", "file", deal, "--reason", "grey", *alice)
    assert result.exit_code == 1
    assert "fallback" in result.stdout
    assert result.stdout.rstrip().endswith("Not enough eligible arbiters")
    assert nonce_files(tmp_path) == []
    assert re.search(
        r"no verdict +Not enough eligible arbiters", await succeed("court", "show", deal, *alice)
    )
    assert (await succeed("dispute", deal, "grey", *alice)).startswith(f"{deal}  disputed")


async def test_commit_first_and_reveal_later(hall: HallProcess, judges: list[Agent], tmp_path: Path) -> None:
    alice = ("-u", hall.url, "-i", "alice.json")
    deal = await agreed(hall)
    filed = await succeed_json("court", "file", deal, "-r", "grey", "--no-reveal", *alice)
    assert (filed["phase"], filed["seed"]) == ("reveal_pending", None)
    (kept,) = nonce_files(tmp_path)
    assert kept.name == f"alice.json.{deal}.nonce"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    bob = ("-u", hall.url, "-i", "bob.json")
    assert "does not exist" in await complaint(2, "court", "reveal", deal, *bob)
    revealed = await succeed("court", "reveal", deal, *alice)
    assert f"{filed['dispute_id']}  arbiter_response" in revealed
    assert "panel: @" in revealed
    assert nonce_files(tmp_path) == []
    assert "court file" in await complaint(2, "court", "reveal", deal, *alice)


async def test_filing_goes_on_after_a_crash(
    hall: HallProcess, judges: list[Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hall heard the commitment, and the command broke off before it could reveal."""
    alice = ("-u", hall.url, "-i", "alice.json")
    deal = await agreed(hall)

    async def break_off(self: object, **_: object) -> None:
        raise ConnectionLost("the cable")

    with monkeypatch.context() as broken:
        broken.setattr("moothall.client.dispute.Dispute.reveal", break_off)
        assert "the cable" in await complaint(3, "court", "file", deal, "-r", "grey", *alice)
    (kept,) = nonce_files(tmp_path)
    assert "panel: @" in await succeed("court", "file", deal, "-r", "grey", *alice)
    assert not kept.exists()


async def test_declining_draws_another(hall: HallProcess, judges: list[Agent]) -> None:
    deal = await agreed(hall)
    filed = await succeed_json("court", "file", deal, "-r", "grey", "-u", hall.url, "-i", "alice.json")
    carol = ("-u", hall.url, "-i", "carol.json")
    declined = await succeed_json("court", "decline", filed["dispute_id"], "-r", "I know them", *carol)
    assert declined == {"dispute_id": filed["dispute_id"], "slot": "declined", "verdict": None}
    shown = await succeed("court", "show", filed["dispute_id"], "-u", hall.url, "-i", "bob.json")
    assert "declined: I know them" in shown
    assert "no verdict" in shown  # nobody was left


async def test_refusals_say_what_to_do(hall: HallProcess) -> None:
    alice = ("-u", hall.url, "-i", "alice.json")
    assert "moothall proposals" in await complaint(4, "court", "file", "prop_0", "-r", "why", *alice)
    assert "moothall court list" in await complaint(4, "court", "show", "disp_0", *alice)
    assert "moothall court list" in await complaint(4, "court", "vote", "disp_0", "mutual", *alice)
    assert "mutual" in await complaint(2, "court", "vote", "disp_0", "guilty", *alice)
    assert "not the id of a deal" in await complaint(2, "court", "file", "../../x", "-r", "why", *alice)
    assert "--reason" in await complaint(2, "court", "file", "prop_0", *alice)
    assert "reason" in await complaint(2, "court", "file", "prop_0", "-r", "", *alice)
    assert "--identity" in await complaint(2, "court", "list", "-u", hall.url)


def test_a_nonce_is_kept_until_it_is_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    kept = NonceFile(folder / "alice.json", "prop_1")
    assert kept.read() is None
    nonce = kept.make()
    assert re.fullmatch("[0-9a-f]{32}", nonce)
    assert NonceFile(folder / "alice.json", "prop_1").read() == nonce
    assert [path.name for path in folder.iterdir()] == ["alice.json.prop_1.nonce"]
    kept.path.write_text(nonce[:7])
    assert kept.read() is None  # it broke off while it was written, before anybody heard of it
    kept.forget()
    kept.forget()
    kept.path.mkdir()
    with pytest.raises(UsageError, match="directory"):
        kept.read()
    with pytest.raises(UsageError):
        kept.make()
    assert list(folder.iterdir()) == [kept.path]


# the pages about it


def walk_through(page: Path, title: str) -> str:
    """The shell lines of one section."""
    text = page.read_text()
    section = text[text.index(f"{title}\n") :]
    following = re.search(r"^## ", section[len(title) :], re.MULTILINE)
    section = section if following is None else section[: len(title) + following.start()]
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("README.md", "## Go to court"),
        pytest.param("docs/go-to-court.md", "## On the command line", marks=pytest.mark.slow),
    ],
)
def test_the_walk_through_works_as_it_is_written(page: str, title: str, tmp_path: Path) -> None:
    script = walk_through(ROOT / page, title)
    assert script.count("moothall court ") >= 7
    folder = tmp_path / "walk"
    folder.mkdir()
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "examples").symlink_to(ROOT / "examples")
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    # With every limit, the arbiters of the specification, and agents that are there already.
    with (
        running_hall(fresh) as hall,
        SyncAgent("ann", channels="general", url=hall.url),
        SyncAgent("ben", channels="general", url=hall.url),
        SyncAgent("cid", channels="general", url=hall.url),
    ):
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env=environment(AGENTCHAT_URL=hall.url),
            capture_output=True,
            text=True,
            timeout=10 * PATIENCE,
            check=False,
        )
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"^  verdict +disputant$", result.stdout, re.MULTILINE)
    assert re.search(r"^disp_\w+  holds$", result.stdout, re.MULTILINE)
