"""Who may come in: approved keys, bans, admin keys, connections per address (agentchat wire 16).

The entries of both lists are records in the reference's own format, so that its files can be imported as they are.
"""

import hmac
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, ValidationError, convert, to_builtins

from moothall.errors import AuthRequired, InvalidKey, InvalidMessage, NotAllowed, UsageError
from moothall.identity import PublicKey
from moothall.settings.limits import Rate, Window
from moothall.wire.origins import is_loopback

ALLOWLIST_FILE = "allowlist.json"
BANS_FILE = "bans.json"

HOUR: Final = 3600.0
LOOPBACK: Final = "loopback"
MAX_BINDERS: Final = 10_000  # addresses whose new keys are counted

HEX_DIGITS: Final = frozenset("0123456789abcdef")
_HOST_BITS: Final = 64  # of an IPv6 address: the owner of a /64 chooses them freely (RFC 4291, 2.5.1)


class Approval(Struct, kw_only=True, rename="camel", gc=False):
    pubkey: str
    agent_id: str = ""
    approved_at: str = ""
    approved_by: str = "admin"
    note: str | None = None

    @property
    def name(self) -> bytes:
        """What the store finds it by."""
        return PublicKey.from_pem(self.pubkey).raw


class Ban(Struct, kw_only=True, rename="camel", gc=False):
    agent_id: str
    reason: str | None = None
    banned_at: str = ""
    banned_by: str = "admin"
    pubkey: str | UnsetType = UNSET  # ours: which key had the id

    @property
    def name(self) -> bytes:
        """What the store finds it by. An id can be any text, as long as a frame."""
        if self.pubkey is UNSET:
            return sha256(self.agent_id.encode(errors="surrogatepass")).digest()
        return PublicKey.from_pem(self.pubkey).raw


class Allowlist:
    """Approved keys. An id may be given with 8 or 16 digits."""

    def __init__(self, approvals: Iterable[Approval] = ()) -> None:
        self._by_key: dict[bytes, Approval] = {}
        for approval in approvals:
            self.approve(approval)

    def __contains__(self, key: PublicKey) -> bool:
        return key.raw in self._by_key

    def __len__(self) -> int:
        return len(self._by_key)

    def check(self, key: PublicKey | None) -> None:
        """Raise NotAllowed unless the operator has approved this key."""
        if key is None or key not in self:
            raise NotAllowed("This hall admits approved keys only; ask the operator to approve yours")

    def entries(self) -> list[Approval]:
        return list(self._by_key.values())

    def approve(self, approval: Approval) -> PublicKey:
        key = PublicKey.from_pem(approval.pubkey)
        approval.pubkey = key.pem
        approval.agent_id = key.fingerprint
        self._by_key[key.raw] = approval
        return key

    def revoke(self, *, pubkey: str | None, agent_id: str | None) -> list[Approval]:
        """What was taken out. Raises InvalidMessage if two keys have the id: the key has to be given then."""
        found = [
            key
            for key in map(PublicKey, self._by_key)
            if agent_id in (key.agent_id(8), key.fingerprint) or (pubkey and _is_key(pubkey, key))
        ]
        if len(found) > 1:
            raise InvalidMessage(f"{len(found)} approved keys have this id; name one with `pubkey`")
        return [self._by_key.pop(key.raw) for key in found]

    def encode(self) -> bytes:
        return _encode(self.entries())


class Bans:
    """A ban that names a key holds for that key. One that names only an id, of 8 or 16 digits, holds for every key
    with that id: the reference writes no other, and an agent that was never here has no key to name."""

    def __init__(self, bans: Iterable[Ban] = ()) -> None:
        self._by_id: dict[str, Ban] = {}
        self._by_key: dict[PublicKey, Ban] = {}
        for ban in bans:
            self.add(ban)

    def __len__(self) -> int:
        return len(self._by_id) + len(self._by_key)

    def __contains__(self, agent_id: str) -> bool:
        """True if the id itself is banned, whichever key has it."""
        return agent_id in self._by_id

    def entries(self) -> list[Ban]:
        return [*self._by_id.values(), *self._by_key.values()]

    def find(self, key: PublicKey) -> Ban | None:
        by_id = self._by_id
        if not by_id and not self._by_key:
            return None
        return self._by_key.get(key) or by_id.get(key.agent_id(8)) or by_id.get(key.fingerprint)

    def add(self, ban: Ban) -> None:
        if ban.pubkey is UNSET:
            self._by_id[ban.agent_id] = ban
        else:
            self._by_key[PublicKey.from_pem(ban.pubkey)] = ban

    def remove(self, agent_id: str) -> list[Ban]:
        """Take out every ban that would keep this agent out, in whichever length its id was given here or there."""
        ids = [banned for banned in self._by_id if _is_same_id(banned, agent_id)]
        keys = [key for key in self._by_key if agent_id in (key.agent_id(8), key.fingerprint)]
        return [*(self._by_id.pop(banned) for banned in ids), *(self._by_key.pop(key) for key in keys)]

    def encode(self) -> bytes:
        return _encode(self.entries())


@lru_cache(maxsize=4096)
def holder_of(ip: str) -> str:
    """What limits per address count: an IPv4 address, or the /64 network of an IPv6 one, however it is written."""
    try:
        address = ip_address(ip)
    except ValueError:
        return ip
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> _HOST_BITS << _HOST_BITS)}/{_HOST_BITS}"


class AddressCounts:
    """Counts the connections of each address, up to a limit; 0 is no limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: dict[str, int] = {}
        self._told: set[str] = set()  # addresses whose first rejection was logged

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __getitem__(self, ip: str) -> int:
        return self._counts.get(holder_of(ip), 0)

    def admit(self, ip: str) -> bool:
        ip = holder_of(ip)
        count = self._counts.get(ip, 0)
        if self._most and count >= self._most:
            return False
        self._counts[ip] = count + 1
        return True

    def add(self, ip: str) -> None:
        """Count a connection that another node has admitted."""
        ip = holder_of(ip)
        self._counts[ip] = self._counts.get(ip, 0) + 1

    def depart(self, ip: str) -> None:
        ip = holder_of(ip)
        count = self._counts[ip] - 1
        if count:
            self._counts[ip] = count
        else:
            del self._counts[ip]
            self._told.discard(ip)

    def is_news(self, ip: str) -> bool:
        """True the first time an address exceeds its limit."""
        known = len(self._told)
        self._told.add(holder_of(ip))
        return len(self._told) > known


class NewKeys:
    """How many ids each address has bound to new keys in the last hour; 0 is any number.

    All loopback clients together are one address, with `loopback_factor` times the limit.
    """

    def __init__(self, most: int, loopback_factor: int) -> None:
        self._most = most
        self._loopback_factor = loopback_factor
        self._windows: OrderedDict[str, Window] = OrderedDict()  # by address, the last to bring a key last

    def __len__(self) -> int:
        return len(self._windows)

    def has_room(self, ip: str, now: float) -> bool:
        if not self._most:
            return True
        window = self._windows.get(_binder(ip))
        return window is None or window.has_room(now)

    def admit(self, ip: str, now: float, factor: int = 1) -> bool:
        """Count a new key of this address. False if the address is at its limit, which is `factor` times the
        usual one."""
        if not self._most:
            return True
        binder = _binder(ip)
        window = self._windows.get(binder)
        if window is None:
            if len(self._windows) >= MAX_BINDERS:
                self._windows.popitem(last=False)  # the one that has been quiet longest
            factor = self._loopback_factor if binder == LOOPBACK else factor
            window = self._windows[binder] = Window(Rate(self._most * factor, HOUR))
        self._windows.move_to_end(binder)
        return window.admit(now)

    def forgive(self, ip: str) -> None:
        """Take back the last count: the key was not new after all."""
        window = self._windows.get(_binder(ip))
        if window is not None and len(window):
            window.forgive()


def _binder(ip: str) -> str:
    return LOOPBACK if is_loopback(ip) else holder_of(ip)


class Doorkeeper:
    """Counts connections and wrong admin keys per address, and knows the admin keys."""

    def __init__(self, *, max_per_ip: int, admin_key: str, access_key: str, admin_rate: Rate) -> None:
        self.connections = AddressCounts(max_per_ip)
        self._admin_key = admin_key
        self._access_key = access_key
        self._admin_rate = admin_rate
        self._failures: OrderedDict[str, Window] = OrderedDict()  # by address, the latest last

    @property
    def has_access_key(self) -> bool:
        return bool(self._access_key or self._admin_key)

    def may_attempt_admin(self, ip: str, now: float) -> bool:
        if not self._admin_rate.limit:
            return True
        window = self._failures.get(holder_of(ip))
        return window is None or window.has_room(now)

    def admin_failed(self, ip: str, now: float) -> None:
        """Count a wrong key. Right ones do not count, or approving a dozen agents would lock the operator out."""
        if self._admin_rate.limit:
            failures, address = self._failures, holder_of(ip)
            while failures and next(iter(failures.values())).is_quiet(now):
                failures.popitem(last=False)
            failures.setdefault(address, Window(self._admin_rate)).count(now)
            failures.move_to_end(address)

    def check_admin(self, given: str) -> None:
        if not self._admin_key:
            raise InvalidMessage("This hall has no admin key; the operator sets one with `admin_key`")
        if not _same(given, self._admin_key):
            raise AuthRequired("Wrong admin key")

    def check_access(self, given: str) -> None:
        """Either key opens the lists: tools for kick and ban send the one, the allow list's the other."""
        if not self.has_access_key:
            raise InvalidMessage("This hall has no admin key; the operator sets one with `admin_key`")
        # Both are compared, whichever matches, so that the time taken tells nothing.
        if not _same(given, self._access_key) | _same(given, self._admin_key):
            raise AuthRequired("Wrong admin key")


def encode_entry(entry: Approval | Ban) -> bytes:
    """One entry, for the store: plain ASCII, also where a text holds a lone surrogate."""
    return json.dumps(to_builtins(entry)).encode()


def decode_approval(record: bytes) -> Approval:
    return convert(json.loads(record), Approval)


def decode_ban(record: bytes) -> Ban:
    return convert(json.loads(record), Ban)


def decode_allowlist(content: bytes) -> Allowlist:
    """A file."""
    try:
        return Allowlist(convert(_decode(content), list[Approval]))
    except (InvalidKey, ValidationError) as error:
        raise UsageError(str(error)) from None
    except UnicodeEncodeError:
        raise UsageError("a field name holds a lone surrogate") from None


def decode_bans(content: bytes) -> Bans:
    """A file."""
    try:
        return Bans(convert(_decode(content), list[Ban]))
    except (InvalidKey, ValidationError) as error:
        raise UsageError(str(error)) from None
    except UnicodeEncodeError:
        raise UsageError("a field name holds a lone surrogate") from None


def _decode(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise UsageError("not JSON") from None


def _encode(entries: list[Any]) -> bytes:
    text = json.dumps(to_builtins(entries), indent=2, ensure_ascii=False)
    # A lone surrogate in a reason or a note is written as a JSON escape: \udxxx.
    return text.encode(errors="backslashreplace") + b"\n"


def _is_same_id(one: str, other: str) -> bool:
    """True if the ids are equal, or one is the 8-digit form of the other."""
    short, long = sorted((one, other), key=len)
    return one == other or (_is_id(short, 8) and _is_id(long, 16) and long.startswith(short))


def _is_id(text: str, digits: int) -> bool:
    return len(text) == digits and set(text) <= HEX_DIGITS


def _same(given: str, secret: str) -> bool:
    return bool(secret) and hmac.compare_digest(given.encode(errors="replace"), secret.encode())


def _is_key(pem: str, key: PublicKey) -> bool:
    try:
        return PublicKey.from_pem(pem) == key
    except InvalidKey:
        return False
