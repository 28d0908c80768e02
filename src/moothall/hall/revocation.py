"""A key's owner brings the notice that ends it (agentchat wire 3.7; the message REVOKE_KEY is ours).

A notice is signed by the key it revokes, so it proves itself: it is taken from any connection, identified or not.
Only keys that the hall has seen can be revoked, because keys cost nothing and rows do. The notice is in the store
when it is answered, and holds on all wires. Deals of the key stay, for the other party to end.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from moothall.errors import InvalidCertificate, InvalidKey, InvalidMessage, NotAllowed, Refusal, UsageError
from moothall.hall.commands import Command, Row
from moothall.hall.costs import STEP
from moothall.hall.outside import Store
from moothall.hall.session import Session, Tier
from moothall.identity import PublicKey
from moothall.identity.certificates import verify_revocation
from moothall.wire.agentchat.client import RevokeKey
from moothall.wire.agentchat.server import KeyRevoked
from moothall.wire.websocket import NORMAL

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

MAX_NOTICE: Final = 4096  # characters of its texts together
# Another hall may commit a lower number a moment after a higher one was read here.
OVERLAP: Final = 100
# What the signature covers, and the signature. The rotations behind a key say nothing about its end.
NOTICE_FIELDS: Final[tuple[str, ...]] = (
    "type",
    "pubkey",
    "agent_id",
    "fingerprint",
    "reason",
    "timestamp",
    "signature",
)

Notice = Mapping[str, Any]


class RevokedKeys:
    """The revoked keys. A key stays revoked for ever; only keys that the store knows can be revoked."""

    def __init__(self, numbered: Iterable[tuple[int, bytes]] = ()) -> None:
        """`numbered` are rows of the store, in their order."""
        self._keys: set[bytes] = set()
        self.last_number = 0  # of the rows that were read
        self.read(numbered)

    def __contains__(self, raw: object) -> bool:
        return raw in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._keys)

    def add(self, raw: bytes) -> None:
        self._keys.add(raw)

    def read(self, numbered: Iterable[tuple[int, bytes]]) -> list[bytes]:
        """Learn from rows of the store. Returns the keys that were not known."""
        news: list[bytes] = []
        for number, raw in numbered:
            self.last_number = max(self.last_number, number)
            if raw not in self._keys:
                self._keys.add(raw)
                news.append(raw)
        return news


def encode_notice(notice: Notice) -> bytes:
    return json.dumps(notice).encode()


def decode_notices(content: bytes) -> dict[bytes, Notice]:
    """The list that former versions kept in a file: the first notice of each key."""
    try:
        notices = json.loads(content)
    except (ValueError, RecursionError):
        notices = None
    if not isinstance(notices, list) or not all(map(_is_notice, notices)):
        raise UsageError("not a list of revocation notices")
    try:
        return {PublicKey.from_pem(notice["pubkey"]).raw: notice for notice in reversed(notices)}
    except InvalidKey as error:
        raise UsageError(str(error)) from None


def _is_notice(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("pubkey"), str)


class RevocationBooks(Protocol):
    """The part of the store's books that holds revoked keys."""

    def is_revoked(self, key: bytes) -> bool: ...

    def is_known(self, key: bytes) -> bool:
        """True if an id is bound to it, or it has a row of any kind."""

    def revocations(self) -> int:
        """How many there are. Numbers that were drawn in vain may count too."""

    def revoked_since(self, number: int) -> list[tuple[int, bytes]]:
        """(number, key) of those with a higher number, in their order."""

    def revoke(self, key: bytes, notice: bytes, now: int) -> None: ...


Kept = TypeVar("Kept", bound=RevocationBooks)


def revoke_command(store: Store[Kept], withdraw: Callable[[Kept, bytes, int], None]) -> Row:
    """The row of REVOKE_KEY. `withdraw` ends, in the same unit of work, what other rooms offer for the key."""

    def revoke_key(hall: "Hall", session: Session, message: RevokeKey) -> None:
        key, notice = _read_notice(hall, session, message)
        if key.raw in hall.revoked:
            _confirm(hall, session, key)
            return
        is_seen, capacity, now = (
            _is_seen(hall, session, key),
            hall.settings.max_known_keys,
            hall.timestamp(),
        )

        def work(books: Kept) -> None:
            if record(books, key.raw, notice, is_seen=is_seen, capacity=capacity, now=now):
                withdraw(books, key.raw, now)

        def done(_: None) -> None:
            hall.note("key_revoked", ip=session.ip, agent=key.fingerprint)
            enact(hall, key, but=session)
            _confirm(hall, session, key)

        hall.durable.transact(session, store, work, done)

    return Command(RevokeKey, revoke_key, STEP, Tier.STRANGER)


def _read_notice(hall: "Hall", session: Session, message: RevokeKey) -> tuple[PublicKey, Notice]:
    """The key that a notice ends, if it holds. Its size is looked at before anything else."""
    notice = {name: message.notice[name] for name in NOTICE_FIELDS if name in message.notice}
    if sum(len(text) for text in notice.values() if isinstance(text, str)) > MAX_NOTICE:
        raise InvalidMessage(f"A notice has at most {MAX_NOTICE} characters")
    try:
        key = verify_revocation(notice)
    except InvalidCertificate as error:
        hall.note("revocation_refused", ip=session.ip)
        raise Refusal.by_code[hall.settings.signature_code](f"The notice does not hold: {error}") from None
    return key, notice


def _is_seen(hall: "Hall", session: Session, key: PublicKey) -> bool:
    """True if the hall knows the key without asking the store.

    An agent of another wire binds no id, and neither does an approval. Their keys count as new keys of the address
    that brings the notice.
    """
    if hall.keyring.knows(key.agent_id(hall.settings.id_length), key.raw):
        return True
    is_here = hall.roster.bearers(key.raw) or key in hall.allowlist
    return is_here and hall.new_keys.admit(session.ip, hall.now())


def record(
    books: RevocationBooks, key: bytes, notice: Notice, *, is_seen: bool, capacity: int, now: int
) -> bool:
    """In a unit of work. False: it was revoked before."""
    if books.is_revoked(key):
        return False
    if not is_seen and not books.is_known(key):
        raise NotAllowed("This hall has never seen this key. Bring the notice to the halls that have")
    if books.revocations() >= capacity:
        raise NotAllowed("This hall has no room for more notices; its operator can raise `max_known_keys`")
    books.revoke(key, encode_notice(notice), now)
    return True


def enact(hall: "Hall", key: PublicKey, but: Session | None = None) -> None:
    """From now on this key is not let in; sessions that have it end, except one that is to be answered."""
    hall.revoked.add(key.raw)
    agent = hall.roster.by_key.get(key.raw)
    if agent is not None and agent.session is not but:
        hall.delivery.tell(agent, _notice(hall, key))
        hall.close(agent.session, NORMAL, "Key revoked")
    for bearer in list(hall.roster.bearers(key.raw)):
        hall.close(bearer.session, NORMAL, "Key revoked")


def _confirm(hall: "Hall", session: Session, key: PublicKey) -> None:
    hall.reply(session, _notice(hall, key))
    if session.agent is not None and session.agent.key == key:
        hall.close(session, NORMAL, "Key revoked")


def read_again(hall: "Hall", store: Store[RevocationBooks]) -> None:
    """Learn which keys were revoked in other halls of the same store."""
    since = hall.revoked.last_number - OVERLAP

    def read(rows: list[tuple[int, bytes]]) -> None:
        for raw in hall.revoked.read(rows):
            enact(hall, PublicKey(raw))

    def failed(error: BaseException) -> None:
        hall.log.warning("revoked_keys_not_read", error=repr(error))

    store.submit(lambda books: books.revoked_since(since), read, failed)


def _notice(hall: "Hall", key: PublicKey) -> KeyRevoked:
    address = f"@{key.agent_id(hall.settings.id_length)}"
    return KeyRevoked(ts=hall.timestamp(), agent_id=address, fingerprint=key.fingerprint)
