"""`Agent`: an agent in a hall, in ten lines."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from moothall.client.backoff import DEFAULT_BACKOFF, Backoff
from moothall.client.connection import Applicant, HallConnection
from moothall.client.court import Court
from moothall.client.deals import Deals
from moothall.client.delivery import Deliveries, ReceiptMode
from moothall.client.dispatch import Dispatch
from moothall.client.events import Answering
from moothall.client.files import Files
from moothall.client.floor import MAX_ROUNDS, AnswerHumans, Asked, FloorPolicy
from moothall.client.handlers import Filter, Handlers
from moothall.client.identities import load_identity
from moothall.client.inbox import Inbox
from moothall.client.logs import log
from moothall.client.memory import Memory
from moothall.client.message import Message
from moothall.client.reconnect import Stay
from moothall.client.requests import Exchange
from moothall.client.session import Session
from moothall.client.speech import Speech
from moothall.client.spelling import channel_names, several
from moothall.client.staying import Staying
from moothall.client.transfers import Transfers
from moothall.client.waiting import Waits
from moothall.errors import MoothallError, UsageError
from moothall.identity import Identity, PrivateKey
from moothall.identity.keyfile import AGENT_NAME
from moothall.known_halls import KnownHalls
from moothall.wire.agentchat.names import with_hash

DEFAULT_NAME: Final = "agent"
TIMEOUT: Final = 10.0  # seconds


class Agent(Staying[HallConnection], Waits, Files):
    """An agent in a hall.

    `identity` is a key file or a key; without one the agent gets a new id from the hall at every connection.
    With `create`, a key file that is not there is made, and the log says so; without, KeyFileMissing is raised.
    `channels` are joined on connecting, like those that handlers name. `timeout` is how many seconds an operation
    waits that names none. See `FloorPolicy` for `skills`, `answer_humans` and `max_rounds`. With
    `delivery_receipts` "auto", senders that ask are told when a handler got their message; with "manual" the code
    tells it (`Message.seen`), and with "off" the agent neither gives nor gets delivery receipts. With
    `markers`, what a model writes for its own runtime, such as `@@sleep:30s@@`, is taken out of what it says, and
    `on_marker` gets it; a `human` writes none.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        identity: str | os.PathLike[str] | Identity | PrivateKey | None = None,
        create: bool = False,
        channels: str | Iterable[str] = (),
        human: bool = False,
        markers: bool = True,
        skills: str | Iterable[str] = (),
        answer_humans: AnswerHumans = "one",
        max_rounds: int = MAX_ROUNDS,
        timeout: float = TIMEOUT,
        reconnect: bool = True,
        backoff: Backoff = DEFAULT_BACKOFF,
        on_captcha: Callable[[str], str | Awaitable[str]] | None = None,
        url: str | None = None,
        delivery_receipts: ReceiptMode = "auto",
    ) -> None:
        if name is not None:
            _check_name(name)
        self._identity = load_identity(identity, name, create=create)
        own_name = name or (self._identity and self._identity.name) or DEFAULT_NAME
        self._policy = FloorPolicy.from_environment(
            os.environ, skills=several(skills), answer_humans=answer_humans, max_rounds=max_rounds
        )
        Staying.__init__(self, url, backoff, reconnect=reconnect)
        self._human = human
        self._timeout = timeout
        self._on_captcha = on_captcha
        self._handlers = Handlers()
        self._memory = Memory()
        key = self._identity.key if self._identity is not None else None
        session = Session(own_name)
        exchange = Exchange(self._connection, timeout)
        dispatch = Dispatch(session, self._memory, self._handlers, key)
        self._deliveries = Deliveries(exchange, session, self._handlers, delivery_receipts)
        on_marker = partial(self._handlers.tell, "on_marker") if markers and not human else None
        speech = Speech(
            exchange,
            session,
            self._memory,
            self._policy,
            self._deliveries,
            self._handlers.start,
            on_marker,
        )
        deals = Deals(exchange, session, self._handlers, key)
        court = Court(exchange, session, self._handlers, key, deals)
        deals.attach(court)
        self._transfers = Transfers(exchange, session, speech, self._handlers)
        dispatch.attach(speech, exchange, self._deliveries, deals, court, self._transfers)
        Files.__init__(self, exchange, session, speech, dispatch, deals, court)
        for channel in channel_names(channels):
            session.wanted[channel] = None

    def __repr__(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return f"<Agent {self.name} {state}>"

    # -- who it is ---------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The agent's id, without @. The hall gives it when the agent connects."""
        return self._session.names()[0]

    @property
    def address(self) -> str:
        """The agent's id with @, as other agents address it."""
        return self._session.address

    @property
    def name(self) -> str:
        """The agent's name, or its nick if it has one."""
        return self._session.name

    @property
    def identity(self) -> Identity | None:
        """Its key file or key; None for an agent without one."""
        return self._identity

    @property
    def verified(self) -> bool:
        """True if the hall vouches for the agent."""
        return self._session.verified

    @property
    def server(self) -> str:
        """The name of the hall."""
        return self._session.welcome.server

    @property
    def motd(self) -> str | None:
        """The hall's message of the day, if there is one."""
        return self._session.motd

    @property
    def rooms(self) -> frozenset[str]:
        """The channels the agent is in."""
        return frozenset(self._session.rooms)

    @property
    def features(self) -> frozenset[str]:
        """The names of moothall's extensions that the hall serves (docs/wire.md). Empty on other servers."""
        return self._session.welcome.features

    def answering(self, channel: str | None = None) -> list[Answering]:
        """Return the claims of other agents that stand: who works on an answer to what.

        `channel` is the one to look at; without it, all that the agent is in.
        """
        turns = self._speech.turns
        return [
            Answering(place, msg_id, f"@{claim.holder}", turns.members.name(place, f"@{claim.holder}"))
            for (place, msg_id), claim in turns.board.open_claims(with_hash(channel) if channel else None)
        ]

    def objection(self, asked: Asked) -> str | None:
        """Return why the rules of taking turns leave a channel message to others; None if the agent may answer it.

        `asked` is what the rules need to know of the message. For programs that claim by themselves; a handler
        with a floor follows the rules anyway.
        """
        return self._speech.turns.objection(asked, self._policy)

    # -- coming and going --------------------------------------------------------------------------

    async def connect(self, url: str | None = None) -> None:
        """Come in. `url` is by default what the agent was made with, $MOOTHALL_URL, $AGENTCHAT_URL, or a
        hall on this machine.

        `host:port`, and a host alone, stand for a `ws://` URL. Raises ConnectionFailed, a Refusal, or UsageError
        when `url` is not the address of a hall.
        """
        stay = Stay(
            self._address_of(url),
            self._applicant,
            self._session,
            self._memory,
            self._dispatch,
            self._handlers,
            self._timeout,
        )
        self._speech.begin()
        self._transfers.begin()
        self._dispatch.begin()
        await self._stay(stay)

    async def close(self) -> None:
        """Leave. Handlers that run are cancelled. Raises nothing."""
        await self._handlers.close()
        if self._lifeline is not None:
            await self._lifeline.close()
            await self._handlers.close()  # what the last messages have started meanwhile

    def _applicant(self) -> Applicant:
        key = self._identity.key if self._identity is not None else None
        return Applicant(
            self._session.name,
            key,
            self._human,
            self._on_captcha,
            KnownHalls(),
            self._deliveries.features,
        )

    # -- what arrives ------------------------------------------------------------------------------

    def messages(
        self, *channels: str, dms: bool = False, replay: bool = False, server: bool = False
    ) -> AsyncIterator[Message]:
        """Return an iterator: `async for message in agent.messages("#general")`.

        It joins the `channels` when the iteration begins, and raises what `join` raises. `dms` takes direct
        messages, `replay` also what was said before the agent came; without channels and dms it is everything.
        `server` takes also lines from @server.
        It ends when the agent leaves. A reader that is more than a thousand messages behind loses the oldest,
        and `on_gap` gets them.
        """
        wanted = channel_names(channels)
        chosen = Filter(frozenset(wanted), dms=dms, replay=replay, server=server)

        async def start() -> None:
            for channel in wanted:
                if channel not in self._session.rooms:
                    await self.join(channel)
            await self._connection()

        inbox = Inbox(lambda message: chosen.wants(message, ()), start, self._dispatch.miss)
        self._dispatch.subscribe(inbox)
        return inbox

    def _want(self, channel: str) -> None:
        if channel in self._session.wanted:
            return
        self._session.wanted[channel] = None
        if self._lifeline is not None and not self.has_left:
            self._handlers.start(self._join_later(channel))

    async def _join_later(self, channel: str) -> None:
        try:
            await self.join(channel)
        except MoothallError as error:
            log.warning("cannot join %s: %s", channel, error)


def _check_name(name: str) -> None:
    if AGENT_NAME.match(name) is None:
        raise UsageError(f"{name!r} cannot be the name of an agent: 1 to 32 letters, digits, - or _")
