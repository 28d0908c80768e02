"""The six agents: three on the agentchat wire, two on the mesh, one on keep. Each has a key that is made anew."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, NoReturn, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from moothall.client import Agent, Assignment, Case
from moothall.client.decorators import AssignmentHandler
from moothall.errors import DemoEnded, MoothallError
from moothall.identity import PrivateKey
from moothall.keep import AsyncKeepClient
from moothall.keep.message import Message as KeepMessage
from moothall.mesh import MeshAgent

HOST: Final = "127.0.0.1"

GENERAL: Final = "#general"
BUILDS: Final = "#builds"
COURT: Final = "#court"
CHANNELS: Final = (GENERAL, BUILDS, COURT)

TALKERS: Final = {
    "ada": ("python", "testing"),
    "bruno": ("code-review", "testing"),
    "clara": ("documentation", "release-notes"),
}
TRADERS: Final = {"dao": ("planning",), "mika": ("translation",)}
WATCHER: Final = "pulse"


class Actor(Protocol):
    name: str

    @property
    def id(self) -> str:
        """As agents of the agentchat wire address it, with @."""

    async def say(self, channel: str, text: str) -> None: ...

    async def watch(self) -> NoReturn:
        """Wait until the agent is gone. Raises DemoEnded then."""


class Talker:
    """An agent on the agentchat wire."""

    def __init__(self, name: str, skills: tuple[str, ...]) -> None:
        self.name = name
        self.key = _new_key()
        self.skills = skills
        self.agent = Agent(name, identity=self.key, channels=CHANNELS, skills=skills, reconnect=False)

    @property
    def id(self) -> str:
        return self.agent.address

    async def say(self, channel: str, text: str, *, in_reply_to: str | None = None) -> None:
        await self.agent.send(channel, text, in_reply_to=in_reply_to)

    async def ask(self, channel: str, text: str) -> str:
        """Say it, and return the id of the message."""
        msg_id = await self.agent.send(channel, text)
        if msg_id is None:
            raise DemoEnded("the hall gave a message no id")
        return msg_id

    async def watch(self) -> NoReturn:
        await _gone(self.name, self.agent)


class Trader:
    """An agent on the mesh. To judge in court it comes over to the agentchat wire, with the same key."""

    def __init__(self, name: str, skills: tuple[str, ...], url: str) -> None:
        self.name = name
        self.key = _new_key()
        self.skills = skills
        topics = [channel.removeprefix("#") for channel in CHANNELS]
        self.mesh = MeshAgent(
            name, key=self.key, capabilities=skills, topics=topics, reconnect=False, url=url
        )
        self.on_assigned: AssignmentHandler = wait_for_the_scene
        self._judge: Agent | None = None  # its agent on the agentchat wire, while it judges
        self._is_back = asyncio.Event()
        self._is_back.set()

    @property
    def id(self) -> str:
        return f"@{self.key.public.agent_id()}"

    async def say(self, channel: str, text: str) -> None:
        if self._judge is not None:
            await self._judge.send(channel, text)
        else:
            await self.mesh.broadcast(channel.removeprefix("#"), text)

    @asynccontextmanager
    async def in_court(self, url: str) -> AsyncIterator[Agent]:
        """Its agent on the agentchat wire. While that is here, the hall gives the mesh agent another id; so the
        mesh agent connects anew afterwards."""
        self._is_back.clear()
        agent = Agent(self.name, identity=self.key, channels=[COURT], reconnect=False)
        agent.on_arbiter_assigned(self.on_assigned)
        agent.on_case(wait_for_the_scene)
        try:
            async with agent.connected(url) as judge:
                self._judge = judge
                yield judge
        finally:
            self._judge = None
            await self.mesh.close()
        await self.mesh.connect()
        self._is_back.set()

    async def watch(self) -> NoReturn:
        while True:
            try:
                await _gone(self.name, self.mesh)
            except DemoEnded:
                if self._is_back.is_set():
                    raise
            await self._is_back.wait()


class Watcher:
    """An agent on the keep wire, which watches builds."""

    def __init__(self, keep_port: int) -> None:
        self.name = WATCHER
        self.src = f"bot:{WATCHER}"
        seed = secrets.token_bytes(32)
        self.key = PrivateKey(seed)
        signing = Ed25519PrivateKey.from_private_bytes(seed)
        self.client = AsyncKeepClient(HOST, keep_port, signing, src=self.src, reconnect=False)
        self.heard: asyncio.Queue[KeepMessage] = asyncio.Queue(100)

    @property
    def id(self) -> str:
        return f"@{self.key.public.agent_id()}"

    async def say(self, channel: str, text: str) -> None:
        await self.client.send(text, dst=channel, wait_reply=False)

    async def watch(self) -> NoReturn:
        async for message in self.client:
            if not self.heard.full():
                self.heard.put_nowait(message)
        raise DemoEnded(f"{self.name} lost its connection to the hall")


class Cast:
    """The agents of the play."""

    def __init__(self, url: str, keep_port: int) -> None:
        self.url = url
        self.talkers = tuple(Talker(name, skills) for name, skills in TALKERS.items())
        self.traders = tuple(Trader(name, skills, url) for name, skills in TRADERS.items())
        self.watcher = Watcher(keep_port)

    @property
    def everyone(self) -> tuple[Actor, ...]:
        return (*self.talkers, *self.traders, self.watcher)

    @property
    def judges(self) -> list[tuple[str, PrivateKey]]:
        """Name and key of those that can sit on a panel: deals and cases need a proven key."""
        talkers = [(talker.name, talker.key) for talker in self.talkers]
        return [*talkers, *((trader.name, trader.key) for trader in self.traders)]

    def name_of(self, agent_id: str) -> str:
        """The name of one of them; of others, the id."""
        return next((actor.name for actor in self.everyone if actor.id == agent_id), agent_id)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["Cast"]:
        """They come in, say what they can do, and leave at the end."""
        async with AsyncExitStack() as stack:
            for talker in self.talkers:
                await stack.enter_async_context(talker.agent.connected(self.url))
                await talker.agent.register_skills(talker.skills)
            for trader in self.traders:
                await stack.enter_async_context(trader.mesh.connected())
            await stack.enter_async_context(self.watcher.client)
            await self.watcher.client.send("here I am")
            yield self


async def wait_for_the_scene(_: Assignment | Case) -> None:
    """For cases of the play: the agent accepts and votes when its turn comes."""


async def _gone(name: str, agent: Agent | MeshAgent) -> NoReturn:
    why = "it was closed"
    try:
        await agent.wait_closed()
    except MoothallError as error:
        why = str(error)
    raise DemoEnded(f"{name} has left the hall: {why}")


def _new_key() -> PrivateKey:
    return PrivateKey(secrets.token_bytes(32))
