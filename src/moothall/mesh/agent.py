"""`MeshAgent`: an agent of the mesh, in ten lines."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from moothall.client.agent import DEFAULT_NAME, Agent
from moothall.client.backoff import DEFAULT_BACKOFF, Backoff
from moothall.client.handlers import Handlers
from moothall.client.spelling import several
from moothall.client.staying import Staying
from moothall.errors import MoothallError, NotConnected
from moothall.identity import Identity, PrivateKey, PublicKey
from moothall.mesh.agentchat import AgentchatSide
from moothall.mesh.conversation import Conversation
from moothall.mesh.dealing import Dealing
from moothall.mesh.decorators import Decorators
from moothall.mesh.intake import Intake
from moothall.mesh.keys import load_key
from moothall.mesh.line import Line
from moothall.mesh.marks import Marks
from moothall.mesh.nonces import Nonces
from moothall.mesh.post import Post, now_us
from moothall.mesh.publishing import Publishing
from moothall.mesh.stay import Shown, Stay
from moothall.wire.mesh.announcements import BEACON_SECONDS, Advertise, default_name

TIMEOUT: Final = 10.0  # seconds


class MeshAgent(Staying[Line], Decorators, Dealing, Publishing):
    """An agent of the mesh.

    `name` is what others see in its BEACON. `key` is a key file, a file of 32 bytes, or a key; without one, a key
    is made that is not kept. With `create`, a key file that is not there is made, and the log says so. The nonces
    of a key file are kept beside it. `capabilities` are advertised on connecting, and named `topics` subscribed to.
    With `beacon` False the agent is not shown as present. With `inbox` False it gets no envelopes: those to it go
    to its other connections, or wait in its inbox. That is for a program that does something for an agent.
    `inbox_limit` is how many envelopes are read of the inbox at most; the others stay there.
    `timeout` is how many seconds an operation waits. After a lost connection it connects again, unless `reconnect`
    is False, after the waits of `backoff`. `url` is where the hall is.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        key: str | os.PathLike[str] | Identity | PrivateKey | None = None,
        create: bool = False,
        capabilities: str | Iterable[str] = (),
        topics: str | Iterable[str] = (),
        beacon: bool = True,
        inbox: bool = True,
        inbox_limit: int | None = None,
        timeout: float = TIMEOUT,
        reconnect: bool = True,
        backoff: Backoff = DEFAULT_BACKOFF,
        url: str | None = None,
    ) -> None:
        own = load_key(key, name, create=create)
        self._key = own.key
        Staying.__init__(self, url, backoff, reconnect=reconnect)
        self._timeout = timeout
        self._receives = inbox
        self._beating: asyncio.Task[None] | None = None
        self._visit: Stay | None = None
        self._agentchat = AgentchatSide(
            own.key, name or own.name or DEFAULT_NAME, self._address, timeout, backoff
        )
        handlers = Handlers()
        Decorators.__init__(self, handlers)
        post = Post(own.key, Nonces(own.nonces, now_us), self._connection, timeout)
        Dealing.__init__(self, post, lambda record: Conversation(self, record), self._agentchat.agent)
        shown = Shown(name or own.name or default_name(own.key.public.raw), beacon)
        shown.topics.update(dict.fromkeys(several(topics)))
        if offered := several(capabilities):
            shown.offer = Advertise(capabilities=offered)
            shown.offer.encode()  # a wrong name is told where it is written
        intake = Intake(self, handlers, Marks(own.marks), inbox_limit=inbox_limit if inbox else 0)
        Publishing.__init__(self, post, intake, shown, timeout)

    def __repr__(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return f"<MeshAgent {self.name} {state}>"

    # -- who it is -----------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What others see in its BEACON."""
        return self._shown.name

    @property
    def id(self) -> str:
        """The agent's id, which is its public key: 64 hex digits."""
        return self._key.public.raw.hex()

    @property
    def public_key(self) -> PublicKey:
        """Its public key. On the hall's other wires, its `agent_id()` is the id of the agent."""
        return self._key.public

    @property
    def hall(self) -> str:
        """The key of the hall: 64 hex digits. Raises NotConnected before the first connection."""
        if self._visit is None or not self._visit.hall:
            raise NotConnected("the agent has not connected yet")
        return self._visit.hall.hex()

    # -- coming and going ----------------------------------------------------------------------------------

    async def connect(self, url: str | None = None) -> None:
        """Connect, and prove the key. `url` is by default what the agent was made with, $MOOTHALL_URL,
        $AGENTCHAT_URL, or a hall on this machine.

        Raises ConnectionFailed, UntrustedHall, a Refusal, or UsageError when `url` is not the address of a hall.
        """
        stay = Stay(
            self._address_of(url),
            self._key,
            self._shown,
            self._post,
            self._intake,
            self._handlers,
            self._timeout,
            receives=self._receives,
            on_end=self._notify_all,
        )
        self._visit = stay
        self._intake.begin()
        try:
            await self._stay(stay)
        except BaseException:
            await self._intake.end()
            raise
        if self._shown.beacon:
            self._beating = asyncio.create_task(_beat(stay))

    async def close(self) -> None:
        """Leave. Handlers that run are cancelled. Raises nothing."""
        await self._handlers.close()
        await self._agentchat.close()
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait((self._beating,))
        if self._lifeline is not None:
            await self._lifeline.close()
        await self._intake.end()
        await self._handlers.close()  # what the last messages have started meanwhile

    async def agentchat(self) -> Agent:
        """Return the agent of the same key on the hall's agentchat wire, connected. It leaves with this one.

        The court speaks agentchat. A party that did not file a case brings its evidence with this agent. Raises
        what `moothall.Agent.connect` raises.
        """
        return await self._agentchat.agent()

    # -- inside --------------------------------------------------------------------------------------------

    def _address(self) -> str:
        if self._visit is None:
            raise NotConnected("the agent has not connected yet")
        return self._visit.url


async def _beat(stay: Stay) -> None:
    while True:
        await asyncio.sleep(BEACON_SECONDS)
        with suppress(MoothallError):  # the next connection begins with one
            await stay.beat()
