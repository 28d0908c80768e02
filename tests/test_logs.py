"""Log lines that cannot be written, and what must not be in any."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.identity.vectors import ALICE, BOB
from tests.support.agentchat import AgentChat
from tests.support.server import PATIENCE, PLACE, PROGRAM, environment

FULL = Path("/dev/full")


@pytest.fixture
def muted(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A hall whose log is on a full disk."""
    with (
        FULL.open("wb") as full,
        subprocess.Popen(
            [PROGRAM, "serve", *PLACE, "--data-dir", "data", "--log-format", "json"],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
        ) as hall,
    ):
        yield hall
        hall.kill()


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
async def test_a_log_on_a_full_disk_costs_nobody_their_connection(muted: "subprocess.Popen[str]") -> None:
    assert muted.stdout is not None
    url = muted.stdout.readline().split()[-1]
    async with asyncio.timeout(PATIENCE), await AgentChat.connect(url, "first", ALICE) as first:
        async with await AgentChat.open(url) as thief:
            await thief.send_text("{")
            challenge = await thief.ask("CHALLENGE", type="IDENTIFY", name="thief", pubkey=ALICE.public.pem)
            await thief.prove(BOB, challenge)
            assert (await thief.refusal())["code"] == "VERIFICATION_FAILED"
        async with await AgentChat.connect(url, "second", ALICE):
            assert (await first.closed())[0] == 1000
    muted.terminate()
    assert muted.wait(PATIENCE) == 0


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_the_traceback_of_a_bug_shows_where_it_is_and_not_what_was_said(log_format: str) -> None:
    program = f"""
from moothall.logs import configure
from moothall.settings import Settings

def handle(message, admin_key):
    raise ValueError("a bug")

log = configure(Settings(log_format="{log_format}"))
try:
    handle("".join(["pri", "vate"]), "".join(["ses", "ame"]))
except ValueError:
    log.warning("a message could not be handled", exc_info=True)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert "ValueError: a bug" in ended.stderr
    assert "in handle" in ended.stderr
    assert "private" not in ended.stderr
    assert "sesame" not in ended.stderr
