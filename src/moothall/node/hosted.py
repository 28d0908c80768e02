"""Agents that the node hosts: it makes their keys, keeps them, and sends for them (mesh wire 13).

A session has a token, of which the store has the hash only. The keys are in the store, encrypted with a key that
follows from the node's own: a copy of the database alone does not give them away. A session lasts seven days and
survives a restart. After that its key is forgotten.

The node sends BEACONs for its hosted agents, so that others can route to them.
"""

import os
import secrets
from collections import deque
from collections.abc import Callable
from hashlib import blake2b, sha256
from typing import Final

from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
)
from nacl.exceptions import CryptoError

from moothall.errors import NodeRefused
from moothall.hall.budgets import Account, Price, buckets
from moothall.hall.outside import Log, Store
from moothall.identity import PrivateKey
from moothall.identity.signatures import SEED_BYTES
from moothall.market.node_books import HostedAgent
from moothall.node.desk import Books
from moothall.node.inbox import read_inbox
from moothall.node.listeners import Listeners
from moothall.node.posting import Posting
from moothall.node.reports import Received, Sent
from moothall.node.signers import Signers
from moothall.node.units import done
from moothall.settings.limits import Rate
from moothall.wire.mesh.msg_types import MsgType

SESSION: Final = 7 * 24 * 60 * 60 * 1000  # ms
MAX_SESSIONS: Final = 10_000
SENDS: Final = Rate(60, 60)  # of one session
REGISTRATIONS: Final = Rate(60, 60)  # of all
TOKEN_BYTES: Final = 32

_NONCE_BYTES: Final = 24
_PERSON: Final = b"moothall hosted"
_OF_SENDS: Final = buckets((SENDS,))
_ONE: Final = Price(frames=1)


class _Session:
    __slots__ = ("agent", "ends_at", "listeners", "sends", "token")

    def __init__(self, agent: bytes, token: bytes, ends_at: int, log: Log) -> None:
        self.agent = agent
        self.token = token
        self.ends_at = ends_at
        self.sends = Account(_OF_SENDS)
        self.listeners: Listeners[Received] = Listeners(log)


class Hosted:
    """`clock` is Unix microseconds, `now` milliseconds that never go back."""

    def __init__(
        self,
        store: Store[Books],
        signers: Signers,
        posting: Posting,
        seed: bytes,
        *,
        clock: Callable[[], int],
        now: Callable[[], int],
        log: Log,
        registered: Callable[[bytes], None],
    ) -> None:
        """`registered` hears of each new agent."""
        self._store = store
        self._signers = signers
        self._posting = posting
        self._box_key = blake2b(seed, digest_size=32, person=_PERSON).digest()
        self._clock = clock
        self._now = now
        self._log = log
        self._registered = registered
        self._sessions: dict[bytes, _Session] = {}  # by the hash of the token
        self._by_agent: dict[bytes, _Session] = {}
        self._round: deque[bytes] = deque()  # agents whose BEACON is due, the next one first
        self._registrations = Account(buckets((REGISTRATIONS,)))

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(self) -> None:
        """Sessions of the time before the start go on."""
        now = self._clock() // 1000

        def work(books: Books) -> list[HostedAgent]:
            books.expire_hosted(now)
            return books.hosted()

        for each in await done(self._store, work):
            try:
                self._add(each, self._opened(each))
            except CryptoError:  # the node has another key since
                self._log.warning("hosted_key_unreadable", agent=each.agent.hex())

    # -- sessions --------------------------------------------------------------------------------------

    async def register(self) -> tuple[bytes, str]:
        """The id of a new agent, and the token of its session.

        Raises NodeRefused: 429 for too many in a minute, 503 if there are too many sessions.
        """
        if self._registrations.take(_ONE, self._now() / 1000):
            raise NodeRefused(
                429,
                f"A node registers {REGISTRATIONS.limit} agents in {REGISTRATIONS.seconds:g} s. Try again later.",
            )
        self.expire()
        if len(self._sessions) >= MAX_SESSIONS:
            raise NodeRefused(
                503, f"This node hosts {MAX_SESSIONS:,} agents, which is its limit. Try another node."
            )
        seed, token = os.urandom(SEED_BYTES), secrets.token_hex(TOKEN_BYTES)
        agent = PrivateKey(seed).public.raw
        hosted = HostedAgent(agent, _hash(token), self._locked(agent, seed), self._clock() // 1000 + SESSION)
        await done(self._store, lambda books: books.put_hosted(hosted))
        self._add(hosted, seed)
        self._registered(agent)
        return agent, token

    def expire(self) -> None:
        """End the sessions whose time has come."""
        now = self._clock() // 1000
        ended = [each for each in self._sessions.values() if each.ends_at <= now]
        for session in ended:
            del self._sessions[session.token]
            del self._by_agent[session.agent]
            self._signers.remove(session.agent)
        if ended:
            self._store.submit(lambda books: books.expire_hosted(now), lambda _: None, self._not_expired)

    def _not_expired(self, error: BaseException) -> None:
        """The next start forgets them."""
        self._log.warning("hosted_not_expired", error=repr(error))

    def agent_of(self, token: str) -> bytes:
        """Raises NodeRefused (401)."""
        return self._session(token).agent

    def _session(self, token: str) -> _Session:
        session = self._sessions.get(
            _hash(token)
        )  # how long this takes tells of the hash, and not of the token
        if session is None:
            raise NodeRefused(401, "This token is not known, or its session has ended. Register again.")
        if session.ends_at <= self._clock() // 1000:
            raise NodeRefused(401, "The session of this token has ended. Register again.")
        return session

    def _add(self, hosted: HostedAgent, seed: bytes) -> None:
        session = _Session(hosted.agent, hosted.token, hosted.ends_at, self._log)
        self._sessions[hosted.token] = session
        self._by_agent[hosted.agent] = session
        self._round.append(hosted.agent)
        self._signers.add(hosted.agent, seed)

    # -- what agents do --------------------------------------------------------------------------------

    async def send(
        self,
        token: str,
        msg_type: MsgType,
        payload: bytes,
        *,
        recipient: bytes | None = None,
        conversation_id: bytes,
    ) -> Sent:
        """As `Node.send`. Raises NodeRefused: 401 for a token that is not known or too old, 429 for too many."""
        session = self._session(token)
        if session.sends.take(_ONE, self._now() / 1000):
            raise NodeRefused(
                429, f"A session sends {SENDS.limit} messages in {SENDS.seconds:g} s. Try again later."
            )
        return await self._posting.send(session.agent, msg_type, payload, recipient, conversation_id)

    def listen(self, token: str, callback: Callable[[Received], None]) -> Callable[[], None]:
        """Calls with each envelope to the agent, after its commit. Raises NodeRefused (401)."""
        return self._session(token).listeners.add(callback)

    async def read_inbox(self, token: str, after: int, limit: int) -> list[Received]:
        """As `Node.read_inbox`. Raises NodeRefused (401)."""
        agent = self._session(token).agent
        return await read_inbox(self._store, agent, after, limit)

    # -- what the node asks ----------------------------------------------------------------------------

    def tell(self, agent: bytes, received: Received) -> None:
        session = self._by_agent.get(agent)
        if session is not None:
            session.listeners.tell(received)

    def next_beacons(self, most: int) -> list[bytes]:
        """The agents whose BEACON is due next. All of them have their turn."""
        due: list[bytes] = []
        for _ in range(min(most, len(self._round))):
            agent = self._round.popleft()
            if agent in self._by_agent:
                due.append(agent)
                self._round.append(agent)
        return due

    # -- keys ------------------------------------------------------------------------------------------

    def _locked(self, agent: bytes, seed: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + crypto_aead_xchacha20poly1305_ietf_encrypt(seed, agent, nonce, self._box_key)

    def _opened(self, hosted: HostedAgent) -> bytes:
        nonce, box = hosted.secret[:_NONCE_BYTES], hosted.secret[_NONCE_BYTES:]
        return crypto_aead_xchacha20poly1305_ietf_decrypt(box, hosted.agent, nonce, self._box_key)


def _hash(token: str) -> bytes:
    return sha256(token.encode(errors="replace")).digest()
