"""`moothall propose`, `accept`, `reject`, `complete`, `dispute`, `proposals`, `skills`, `leaderboard`, `rating` and
`receipts`; and the walk through a deal in docs/deals.md, as it is written there."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from moothall import Agent, Identity, PrivateKey
from moothall.cli.main import app
from moothall.identity import save
from moothall.identity.seals import key_id
from tests.support.server import PATIENCE, HallProcess, environment, running_hall

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(1, 33)))
PAGE = Path(__file__).parents[2] / "docs" / "deals.md"

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    folder = tmp_path / "hall"
    folder.mkdir()
    with running_hall(folder, "--no-limits") as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a key, and a folder with alice's and bob's."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("AGENTCHAT_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    save(Identity(ALICE, name="alice"), tmp_path / "alice.json")
    save(Identity(BOB, name="bob"), tmp_path / "bob.json")
    return home


@pytest.fixture
async def bob(hall: HallProcess) -> AsyncIterator[Agent]:
    async with Agent("bob", identity=BOB).connected(hall.url) as agent:
        yield agent


async def moothall(*arguments: str, given: str | None = None) -> Result:
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments, given)
    assert "Traceback" not in result.output
    return result


async def succeed(*arguments: str, given: str | None = None) -> str:
    result = await moothall(*arguments, given=given)
    assert result.exit_code == 0, result.output
    return result.stdout


async def succeed_json(*arguments: str) -> Any:
    return json.loads(await succeed(*arguments, "--json"))


async def complaint(code: int, *arguments: str, given: str | None = None) -> str:
    result = await moothall(*arguments, given=given)
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


# the life of a deal


async def test_a_deal_on_the_command_line(hall: HallProcess, bob: Agent) -> None:
    alice = ("-u", hall.url, "-i", "alice.json")
    offered = await succeed_json(
        *("propose", bob.id, "Review", "pull request", "42", "--amount", "5", "--currency", "EUR"),
        *("--stake", "25", "--expires", "3600", "--payment-code", "pay-alice", "--capability", "review"),
        *("--terms", '{"by": "Friday"}', *alice),
    )
    assert (offered["status"], offered["task"], offered["is_mine"]) == (
        "pending",
        "Review pull request 42",
        True,
    )
    assert (offered["amount"], offered["currency"], offered["proposer_stake"]) == (5, "EUR", 25)
    assert (offered["terms"], offered["payment_code"]) == ({"by": "Friday"}, "pay-alice")
    assert offered["expires"] - offered["created_at"] == 3_600_000
    deal = offered["proposal_id"]
    await bob.close()

    (waiting,) = await succeed_json("proposals", "--open", "-u", hall.url, "-i", "bob.json")
    assert (waiting["proposal_id"], waiting["is_mine"]) == (deal, False)
    taken = await succeed(
        "accept", deal, "--stake", "10", "--payment-code", "pay-bob", *alice[:2], "-i", "bob.json"
    )
    assert taken.startswith(f"{deal}  accepted ")
    assert "stakes 25 and 10" in taken
    done = await succeed("complete", deal, "tx:1", "paid", *alice)
    assert done.startswith(f"{deal}  completed")
    assert "(tx:1 paid)" in done
    assert f"{bob.address} +8" in done
    none = await moothall("proposals", "--open", *alice)
    assert (none.stdout, none.stderr) == ("", "you have no open deals\n")
    (line,) = (await succeed("proposals", *alice)).splitlines()
    parties = f"@{ALICE.public.agent_id()}  alice  {bob.address}  -"  # bob is not here
    assert line == f"{deal}  completed  {parties}  5 EUR  25+10  Review pull request 42  (tx:1 paid)"


async def test_the_other_ends_of_a_deal(hall: HallProcess, bob: Agent) -> None:
    alice = ("-u", hall.url, "-i", "alice.json")
    first = (await succeed("propose", bob.address, "first", *alice)).split()[0]
    await bob.close()
    rejected = await succeed_json("reject", first, "too", "busy", "-u", hall.url, "-i", "bob.json")
    assert (rejected["status"], rejected["reason"]) == ("rejected", "too busy")
    second = (await succeed("propose", bob.address, "second", *alice)).split()[0]
    await succeed("accept", second, "-u", hall.url, "-i", "bob.json")
    disputed = await succeed_json("dispute", second, "nothing", "came", *alice)
    assert (disputed["status"], disputed["reason"]) == ("disputed", "nothing came")
    assert (disputed["rating_changes"][bob.address], disputed["stakes_went"]) == (-16, "transferred")


async def test_what_a_stranger_wrote_cannot_steer_the_terminal(hall: HallProcess, bob: Agent) -> None:
    await succeed("propose", bob.address, "one\ntwo \x1b[31mred", "-u", hall.url, "-i", "alice.json")
    await bob.close()
    listed = await succeed("proposals", "-u", hall.url, "-i", "bob.json")
    assert listed.count("\n") == 1
    assert "one two [31mred" in listed


# waiting


async def test_waiting_for_the_end(hall: HallProcess, bob: Agent) -> None:
    @bob.on_proposal
    async def work(proposal: Any) -> None:
        if proposal.task == "no":
            await proposal.reject("never")
        else:
            await proposal.accept()
            await proposal.complete("done")

    alice = ("--wait", "-u", hall.url, "-i", "alice.json")
    lines = (await succeed("propose", bob.address, "yes", *alice)).splitlines()
    assert lines[0].split()[1] == "pending"
    assert lines[-1].split()[1] == "completed"
    finished = await succeed_json("propose", bob.address, "yes", *alice)
    assert (finished["status"], finished["proof"]) == ("completed", "done")
    refused = await moothall("propose", bob.address, "no", *alice)
    assert (refused.exit_code, refused.stderr) == (1, "")
    assert "rejected" in refused.stdout
    late = await moothall("propose", bob.address, "no", "--expires", "0.01", "--json", *alice)
    assert late.exit_code == 1
    assert json.loads(late.stdout)["status"] in ("expired", "rejected")


# who signs


async def test_without_a_key_it_is_said_how_to_get_one(hall: HallProcess) -> None:
    for command in (
        ("propose", "@12345678", "x"),
        ("accept", "prop_1"),
        ("proposals",),
        ("rating",),
        ("skills", "register", "x"),
        ("receipts", "list"),
    ):
        assert "moothall identity new" in await complaint(2, *command, "-u", hall.url)


async def test_the_key_at_home_is_used(hall: HallProcess, home: Path) -> None:
    save(Identity(ALICE), home / ".agentchat" / "identity.json")
    assert (await succeed_json("rating", hall.url))["agent"] == f"@{ALICE.public.agent_id()}"


async def test_refusals_and_mistakes(hall: HallProcess, bob: Agent) -> None:
    alice = ("-u", hall.url, "-i", "alice.json")
    assert "PROPOSAL_NOT_FOUND" in await complaint(4, "accept", "prop_0", *alice)
    assert "AGENT_NOT_FOUND" in await complaint(4, "propose", "@00000000", "x", *alice)
    assert "expires_in" in await complaint(2, "propose", bob.id, "x", "--expires", "-5", *alice)
    assert "stake" in await complaint(2, "propose", bob.id, "x", "--stake", "-5", *alice)
    assert "empty" in await complaint(2, "propose", bob.id, "", *alice)
    assert "reason" in await complaint(2, "dispute", "prop_0", "", *alice)
    assert "moothall serve" in await complaint(3, "proposals", "ws://127.0.0.1:1", "-i", "alice.json")


# skills, ratings


async def test_skills_are_registered_and_found(hall: HallProcess, bob: Agent, tmp_path: Path) -> None:
    await bob.close()
    key = ("-u", hall.url, "-i", "bob.json")
    told = await succeed(
        "skills", "register", "review", "painting", "--rate", "5", "-c", "EUR", "-d", "neat", *key
    )
    assert told == "registered 2 skill(s)\n"
    (line,) = (await succeed("skills", "search", hall.url, "rev")).splitlines()
    assert line.split() == [bob.address, "-", "1200", "offline", "review", "5", "EUR", "neat"]
    none = await moothall("skills", "search", "rev", "--max-rate", "4", "-u", hall.url)
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "no agent offers this\n")

    (tmp_path / "skills.json").write_text('[{"capability": "juggling", "balls": 5}]')
    assert await succeed_json("skills", "register", "skills.json", *key) == {"skills_count": 1}
    (found,) = await succeed_json("skills", "search", "-u", hall.url)
    assert (found["agent"], found["skill"]) == (bob.address, {"capability": "juggling", "balls": 5})
    await succeed("skills", "register", "-", *key, given='[{"capability": "chess"}]')
    (found,) = await succeed_json("skills", "search", "-u", hall.url, "--limit", "3")
    assert found["capability"] == "chess"


@pytest.mark.parametrize("content", ["{}", "[1]", "nonsense", '["review"]'])
async def test_a_file_of_skills_is_a_list_of_objects(content: str, tmp_path: Path) -> None:
    (tmp_path / "skills.json").write_text(content)
    assert "skills.json" in await complaint(2, "skills", "register", "skills.json", "-i", "bob.json")


async def test_a_file_of_skills_says_everything_itself(tmp_path: Path) -> None:
    assert "missing.json" in await complaint(2, "skills", "register", "missing.json", "-i", "bob.json")
    (tmp_path / "skills.json").write_text('[{"capability": "x"}]')
    assert "--rate" in await complaint(
        2, "skills", "register", "skills.json", "--rate", "5", "-i", "bob.json"
    )


async def completed_deal(hall: HallProcess, bob: Agent) -> str:
    async with Agent("alice", identity=ALICE).connected(hall.url) as alice:
        deal = await alice.propose(bob.address, "Review", stake=5)
        await bob.accept(deal.id)
        await alice.complete(deal.id, "seen")
        return deal.id


async def test_ratings_and_the_leaderboard(hall: HallProcess, bob: Agent) -> None:
    deal = await completed_deal(hall, bob)
    first, *steps = (await succeed("rating", bob.address, "-u", hall.url)).splitlines()
    assert first == f"{bob.address}  bob  1208 after 1 deal; 1108 can be staked"
    assert steps[0].endswith(f"1208  complete {deal}")
    rating = await succeed_json("rating", hall.url, bob.id)
    assert (rating["rating"], rating["history"][0]["why"]) == (1208, f"complete {deal}")
    assert bob.is_connected  # looking at somebody does not take its place
    places = (await succeed("leaderboard", "--limit", "2", "-u", hall.url)).splitlines()
    assert sorted(place.split()[1:3] for place in places) == sorted(
        [[bob.address, "bob"], [f"@{ALICE.public.agent_id()}", "-"]]  # alice has left
    )
    assert (await succeed_json("leaderboard", hall.url))[0]["rank"] == 1


# receipts


async def test_receipts_are_listed_exported_and_verified(
    hall: HallProcess, bob: Agent, tmp_path: Path
) -> None:
    first, second = await completed_deal(hall, bob), await completed_deal(hall, bob)
    alice = ("-u", hall.url, "-i", "alice.json")
    lines = (await succeed("receipts", "list", *alice)).splitlines()
    assert [line.split()[0] for line in lines] == [second, first]
    assert lines[0].endswith("Review")
    assert [row["proposal_id"] for row in await succeed_json("receipts", "list", *alice)] == [second, first]

    await succeed("receipts", "export", "-o", "receipts.jsonl", *alice)
    halls = ("--hall", key_id(hall.key))
    verified = await succeed("receipts", "verify", "receipts.jsonl", *halls)
    assert [line for line in verified.splitlines() if line.startswith("prop_")] == [
        f"{second}  holds",
        f"{first}  holds",
    ]
    await succeed("receipts", "export", "-o", "newest.jsonl", "--limit", "1", *alice)
    newest = (await succeed("receipts", "verify", "newest.jsonl", *halls)).splitlines()
    rest = "2 fact(s) rest on its word alone: -v lists them."
    assert newest == [
        f"{second}  holds",
        "  signed    by the parties: PROPOSAL, ACCEPT, COMPLETE.",
        f"  hall      {hall.key.raw.hex()} signed all of it (named with --hall); {rest}",
    ]
    exported = await succeed("receipts", "export", first, *alice)
    held = await succeed("receipts", "verify", "-", *halls, given=exported)
    assert held.startswith(f"{first}  holds\n")

    receipt = json.loads(exported)
    (tmp_path / "pretty.json").write_text(json.dumps(receipt, indent=2))
    assert await succeed("receipts", "verify", "pretty.json", *halls) == held
    (tmp_path / "list.json").write_text(json.dumps([receipt]))
    (told,) = await succeed_json("receipts", "verify", "list.json", *halls)
    assert (told["proposal_id"], told["holds"], told["hall"]) == (first, True, hall.key.raw.hex())
    assert len(told["proven"]) == 3

    (tmp_path / "none.json").write_text("[]")
    none = await moothall("receipts", "verify", "none.json")
    assert (none.exit_code, "holds no receipts" in none.stderr) == (2, True)

    receipt["proof"] = "unseen"
    (tmp_path / "forged.json").write_text(json.dumps(receipt))
    forged = await moothall("receipts", "verify", "forged.json", *halls)
    assert forged.exit_code == 1
    assert forged.stdout.splitlines() == [
        f"{first}  does not hold",
        "  WRONG     `proof`: it does not hold that `proof` is the one that was signed.",
        "            2 problem(s) in all: do not rely on it. -v lists all that was checked.",
    ]
    everything = (await moothall("receipts", "verify", "forged.json", "-v", *halls)).stdout
    assert "  MISSING   `hall_sig`: the hall signature does not fit: the record was changed" in everything
    result = await moothall("receipts", "verify", "forged.json", "--json", *halls)
    assert result.exit_code == 1
    (told,) = json.loads(result.stdout)
    assert (told["holds"], told["hall"], len(told["problems"])) == (False, None, 2)


async def test_receipts_that_are_not_there(hall: HallProcess, tmp_path: Path) -> None:
    alice = ("-u", hall.url, "-i", "alice.json")
    assert "prop_0" in await complaint(2, "receipts", "export", "prop_0", *alice)
    assert "No such file" in await complaint(2, "receipts", "verify", "nowhere.json")
    assert "directory" in await complaint(2, "receipts", "export", "-o", ".", *alice)
    (tmp_path / "empty").write_text("\n\n")
    assert "no receipts" in await complaint(2, "receipts", "verify", "empty")


@pytest.mark.parametrize(
    "content", [b"nonsense", b"[1]", b"{}\n{}", b"\xff", b"[" * 100_000, b"null", b"{}\n\n{"]
)
async def test_whatever_is_in_the_file_is_judged(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "receipt").write_bytes(content)
    result = await moothall("receipts", "verify", "receipt")
    assert result.exit_code == 1
    assert "?  does not hold" in result.stdout


# the page about it


def test_the_walk_through_works_as_it_is_written(hall: HallProcess, tmp_path: Path) -> None:
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE))
    assert script.count("moothall ") >= 10
    folder = tmp_path / "walk"
    folder.mkdir()
    variables = environment(AGENTCHAT_URL=hall.url)
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1208 after 1 deal" in result.stdout
    assert "  holds\n" in result.stdout
    assert "WRONG     `operations[0].sig`: it does not hold that @" in result.stdout
