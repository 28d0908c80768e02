"""Log lines that cannot be written."""

import asyncio
import subprocess
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
