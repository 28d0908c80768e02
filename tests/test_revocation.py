"""A revoked key on a real hall: from the command line, through the SDK, and after a crash."""

import asyncio
import json
from pathlib import Path

import pytest

from moothall import Agent, PrivateKey, SyncAgent, VerificationFailed
from moothall.errors import InvalidSignature
from moothall.identity.certificates import revoke
from tests.identity.vectors import ALICE, NOW_MS
from tests.support.agentchat import AgentChat, Refused
from tests.support.server import PATIENCE, HallProcess, complaint, run_moothall, running_hall

pytestmark = pytest.mark.slow


async def is_refused(hall: HallProcess, key: PrivateKey) -> bool:
    try:
        agent = await AgentChat.connect(hall.url, "thief", key)
    except Refused as refused:
        return (refused.code, refused.message) == ("VERIFICATION_FAILED", "This key was revoked")
    await agent.close()
    return False


async def test_from_the_command_line_and_for_good(tmp_path: Path) -> None:
    run_moothall(tmp_path, "identity", "new", "--file", "stolen.json")
    with running_hall(tmp_path, "--no-limits") as hall:
        run_moothall(tmp_path, "skills", "register", "paint", "--url", hall.url, "-i", "stolen.json")
        signed = run_moothall(tmp_path, "identity", "revoke", "--file", "stolen.json", "--out", "notice.json")
        assert signed.returncode == 0
        searched = run_moothall(tmp_path, "skills", "search", "paint", "--url", hall.url)
        assert "paint" in searched.stdout  # a notice alone does nothing
        published = run_moothall(tmp_path, "identity", "publish", "notice.json", hall.url)
        assert (published.returncode, published.stdout) == (0, "")
        assert json.loads((tmp_path / "notice.json").read_text())["fingerprint"] in published.stderr
        hall.kill()
        hall.restart()
        searched = run_moothall(tmp_path, "skills", "search", "paint", "--url", hall.url)
        assert "paint" not in searched.stdout
        came = run_moothall(tmp_path, "send", "general", "hello", "--url", hall.url, "-i", "stolen.json")
        assert (came.returncode, "revoked" in came.stderr) == (4, True)


async def test_revoke_can_publish_at_once(tmp_path: Path) -> None:
    made = run_moothall(tmp_path, "identity", "new", "--file", "stolen.json")
    assert made.returncode == 0
    with running_hall(tmp_path) as hall:
        met = run_moothall(tmp_path, "send", "general", "hello", "--url", hall.url, "-i", "stolen.json")
        assert met.returncode == 0
        result = run_moothall(tmp_path, "identity", "revoke", "--file", "stolen.json", "--publish", hall.url)
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["type"] == "REVOCATION"
        came = run_moothall(tmp_path, "send", "general", "hello", "--url", hall.url, "-i", "stolen.json")
        assert came.returncode == 4


def test_a_forged_notice_is_not_even_sent(tmp_path: Path) -> None:
    (tmp_path / "notice.json").write_text(json.dumps({**revoke(ALICE, now_ms=NOW_MS), "reason": "other"}))
    result = run_moothall(tmp_path, "identity", "publish", "notice.json", "ws://127.0.0.1:1")
    assert result.returncode == 1
    assert "signature" in result.stderr


def test_a_list_that_cannot_be_read_stops_the_hall_from_starting(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "revoked.json").write_text("[{}]")
    said = complaint(run_moothall(tmp_path, "serve", "--port", "0", "--data-dir", "data"))
    assert "revoked.json: not a list of revocation notices" in said


def test_a_key_that_the_hall_never_saw_is_told_so(tmp_path: Path) -> None:
    run_moothall(tmp_path, "identity", "new", "--file", "mine.json")
    with running_hall(tmp_path) as hall:
        result = run_moothall(tmp_path, "identity", "revoke", "--file", "mine.json", "--publish", hall.url)
        assert (result.returncode, "never seen" in result.stderr) == (4, True)


async def test_the_list_of_a_former_version_is_taken_over(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "revoked.json").write_text(json.dumps([revoke(ALICE, now_ms=NOW_MS)]))
    with running_hall(tmp_path) as hall:
        assert await is_refused(hall, ALICE)
        assert not (data / "revoked.json").exists()
        assert (data / "revoked.json.before-import").exists()
        hall.kill()
        hall.restart()
        assert await is_refused(hall, ALICE)


async def test_a_thousand_notices_are_as_many_rows(tmp_path: Path) -> None:
    """Each was written with all that came before it: 7 GB for two thousand."""
    keys = [PrivateKey(number.to_bytes(32, "big")) for number in range(1, 301)]
    with running_hall(tmp_path, "--no-limits") as hall:
        for key in keys:
            async with await AgentChat.connect(hall.url, "sybil", key):
                pass
        before = written(hall)
        async with await AgentChat.open(hall.url) as stranger:
            for key in keys:
                await stranger.ask("KEY_REVOKED", type="REVOKE_KEY", notice=revoke(key, now_ms=NOW_MS))
        first = written(hall) - before
        assert first < len(keys) * 64 * 1024  # a few pages each
        assert all([await is_refused(hall, key) for key in keys[::100]])


def written(hall: HallProcess) -> int:
    """Bytes that the process has handed to the system."""
    counts = Path(f"/proc/{hall.process.pid}/io").read_text()
    return int(next(line.split()[1] for line in counts.splitlines() if line.startswith("wchar:")))


async def test_an_agent_that_is_revoked_ends_and_does_not_come_back(tmp_path: Path) -> None:
    notice = revoke(ALICE, now_ms=NOW_MS)
    with running_hall(tmp_path) as hall:
        alice, bob = Agent("alice", identity=ALICE), Agent("bob")
        async with bob.connected(hall.url), asyncio.timeout(PATIENCE):
            async with alice.connected(hall.url):
                assert await bob.revoke(notice) == ALICE.public.fingerprint
                with pytest.raises(VerificationFailed, match="revoked"):
                    await alice.wait_closed()
            with pytest.raises(InvalidSignature):
                await bob.revoke({**notice, "reason": "other"})
        hall.kill()
        hall.restart()
        assert await is_refused(hall, ALICE)


async def test_without_await(tmp_path: Path) -> None:
    def bring(url: str) -> str:
        with SyncAgent("bob", url=url) as bob:
            return bob.revoke(revoke(ALICE, now_ms=NOW_MS))

    with running_hall(tmp_path) as hall:
        async with await AgentChat.connect(hall.url, "alice", ALICE):
            pass
        assert await asyncio.to_thread(bring, hall.url) == ALICE.public.fingerprint
        assert await is_refused(hall, ALICE)
