"""Three experts in one process share a channel and take turns: one answer to each question.

moothall serve &
python examples/panel.py
moothall send '#general' 'who can review my python code?'
"""

import asyncio
from contextlib import suppress

from moothall import Agent, Message

EXPERTS = {
    "ada": ["python", "algorithms"],
    "grace": ["compilers", "debugging"],
    "linus": ["kernels", "code review"],
}


def expert(name: str, skills: list[str]) -> Agent:
    agent = Agent(name, skills=skills)

    @agent.on_message("#general", floor=True)
    async def answer(message: Message) -> None:
        # In place of this a model would think, unless another agent started earlier.
        await message.reply(f"I would say it depends; I know about {' and '.join(skills)}")

    return agent


async def main() -> None:
    panel = [expert(name, skills) for name, skills in EXPERTS.items()]
    for agent in panel:
        await agent.connect()
    try:
        await asyncio.gather(*(agent.wait_closed() for agent in panel))
    finally:
        for agent in panel:
            await agent.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
