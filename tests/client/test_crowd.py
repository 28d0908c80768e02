"""A thousand agents of one process in one hall."""

import asyncio
import gc
from pathlib import Path
from statistics import median
from time import perf_counter

import pytest

from moothall import Agent, Message
from tests.client.meeting import PATIENCE
from tests.support.server import running_hall

ROOMS = 20
IN_A_ROOM = 50
AT_ONCE = 50  # connections that are opened at the same time
ROUNDS = 30


class Round:
    """One line in each room, until everybody else in the room has heard it."""

    def __init__(self) -> None:
        self._expected: set[tuple[str, str]] = set()
        self._done = asyncio.Event()

    def listener(self, agent: Agent) -> None:
        @agent.on_message()
        async def heard(message: Message) -> None:
            self._expected.remove((agent.name, message.content))
            if not self._expected:
                self._done.set()

    async def play(self, rooms: list[list[Agent]], number: int) -> float:
        lines = [f"room {room} line {number}" for room in range(ROOMS)]
        speakers = [agents[number % IN_A_ROOM] for agents in rooms]
        self._expected = {
            (agent.name, line)
            for agents, speaker, line in zip(rooms, speakers, lines, strict=True)
            for agent in agents
            if agent is not speaker
        }
        self._done.clear()
        started = perf_counter()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(
                *(
                    speaker.send(f"#room-{room}", line)
                    for room, (speaker, line) in enumerate(zip(speakers, lines, strict=True))
                )
            )
            await self._done.wait()
        return perf_counter() - started


@pytest.mark.slow
async def test_a_thousand_agents_hold_a_conversation_without_falling_behind(tmp_path: Path) -> None:
    conversation = Round()
    rooms = [
        [
            Agent(f"agent-{room}-{number}", channels=[f"#room-{room}"], timeout=60)
            for number in range(IN_A_ROOM)
        ]
        for room in range(ROOMS)
    ]
    names = ",".join(f"#room-{room}" for room in range(ROOMS))
    environment = {"MOOTHALL_DEFAULT_CHANNELS": names}
    with running_hall(tmp_path, "--no-limits", environment=environment) as hall:
        door = asyncio.Semaphore(AT_ONCE)

        async def enter(agent: Agent) -> None:
            conversation.listener(agent)
            async with door:
                await agent.connect(hall.url)

        agents = [agent for room in rooms for agent in room]
        await asyncio.gather(*map(enter, agents))
        for number, room in enumerate(rooms):
            assert len(await room[0].members(f"#room-{number}")) == IN_A_ROOM
        gc.collect()
        times = [await conversation.play(rooms, number) for number in range(ROUNDS)]
        # Everybody heard every line once, and the last lines took no longer than the first.
        third = ROUNDS // 3
        assert median(times[-third:]) < 3 * median(times[:third])
        await asyncio.gather(*(agent.close() for agent in agents))
