"""What `import moothall` gives, and what it costs."""

import subprocess
import sys
from pathlib import Path

import pytest

import moothall

USER_PROJECT = """
import asyncio
from collections.abc import AsyncIterator

from moothall import (
    Agent,
    Arrival,
    Assignment,
    Case,
    ChannelNotFound,
    Dispute,
    EvidenceItem,
    FloorPolicy,
    Gap,
    Identity,
    Message,
    MoothallError,
    PublicKey,
    Refusal,
    Ruling,
    SyncAgent,
    Welcome,
)

agent = Agent("typed", identity="typed.json", skills=["python"], answer_humans="one")


@agent.on_message("#general", floor=FloorPolicy(min_delay=1.0), verified=True)
async def reply(message: Message) -> None:
    sent: str | None = await message.reply(message.content.upper())
    print(sent, message.ts.isoformat(), message.channel)


@agent.on_message(dms=True)
async def sometimes(message: Message) -> None:
    async with message.floor():
        await message.reply("yes")


@agent.on_gap
async def catch_up(gap: Gap) -> None:
    for channel, missed in gap.channels.items():
        print(channel, [message.content for message in missed.missed], missed.complete)


@agent.on_connect
async def hello(welcome: Welcome) -> None:
    print(welcome.id)


@agent.on_dispute
async def defend(dispute: Dispute) -> None:
    await dispute.submit([EvidenceItem.commit("abc"), {"kind": "other", "value": 5}], "I did it")
    ruling: Ruling = await dispute.outcome()
    print(ruling.verdict, ruling.rating_changes)


@agent.on_arbiter_assigned
async def take(assignment: Assignment) -> bool | str:
    return "too much to do" if assignment.is_replacement else True


@agent.on_case
async def judge(case: Case) -> tuple[str, str] | None:
    return None if case.disputant_evidence is None else ("mutual", case.proposal["task"])


@agent.on_join
async def greet(arrival: Arrival) -> None:
    await agent.send(arrival.channel, f"welcome {arrival.member.name}")


@agent.on_event("FILE_CHUNK")
async def chunk(frame: dict[str, object]) -> None:
    print(frame["content"])


async def main() -> None:
    async with agent.connected("ws://127.0.0.1:6667"):
        try:
            members = await agent.join("#general", timeout=5)
        except ChannelNotFound as refused:
            code: str = refused.code
            print(code)
        else:
            print([member.name for member in members])
        key: PublicKey = await agent.verify("@1a2b3c4d")
        identity: Identity | None = agent.identity
        print(key.fingerprint, identity)
        stream: AsyncIterator[Message] = agent.messages("#general")
        async for message in stream:
            await message.reply("ok")


def script() -> None:
    with SyncAgent("script") as sync:
        for message in sync.messages("#general", timeout=1.0):
            answer: str | None = message.reply("ok")
            print(answer)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (Refusal, MoothallError) as error:
        print(error)
"""

MISTAKES = """
from moothall import Agent, Gap, Message

agent = Agent("typed", answer_humans="some")


@agent.on_gap
async def wrong(message: Message) -> None: ...


@agent.on_message("#general")
def not_async(message: Message) -> None: ...


async def main() -> None:
    number: int = await agent.send("#general", "hello")
    await agent.set_presence("asleep")
"""


def test_importing_it_costs_nothing() -> None:
    heavy = ("websockets", "uvloop", "typer", "structlog", "prometheus_client", "msgspec", "nacl", "asyncio")
    code = f"import sys, moothall; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_catching_an_error_does_not_load_a_client() -> None:
    code = "import sys, moothall; moothall.Refusal; print('websockets' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.mark.parametrize("name", moothall.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(moothall, name).__name__ == name
    assert name in dir(moothall)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = moothall.nonsense


def run_mypy(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "bot.py").write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), "bot.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_users_project_type_checks_strictly(tmp_path: Path) -> None:
    result = run_mypy(tmp_path, USER_PROJECT)
    assert result.returncode == 0, result.stdout + result.stderr
    result = run_mypy(tmp_path, MISTAKES)
    assert result.stdout.count("error:") == 5, result.stdout
