"""API_TOKEN: a session with a proven key gets a bearer token for the HTTP API (docs/http-api.md).

A token says which key it stands for and when it ends. It carries a code that needs a secret, which is drawn when
the hall opens. So the hall keeps no list of tokens, and they end with the process. Halls on one store derive the
secret from their private key instead. A token only reads. A key that is banned, revoked or not approved any more is
refused, whatever token it has.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from moothall.errors import AuthRequired, Banned, NotAllowed
from moothall.hall.commands import Command
from moothall.hall.costs import ANSWER
from moothall.hall.outside import Entropy
from moothall.hall.session import Session, Tier
from moothall.identity import PublicKey
from moothall.wire.agentchat import client, server

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

TOKEN_SECONDS: Final = 900

_SECRET_BYTES: Final = 32
_KEY_BYTES: Final = 32
_TIME_BYTES: Final = 8  # the end, in milliseconds
_CODE_BYTES: Final = 16
_TOKEN_BYTES: Final = _KEY_BYTES + _TIME_BYTES + _CODE_BYTES
_TOKEN_LENGTH: Final = -(-_TOKEN_BYTES * 4 // 3)  # characters, without padding


class ApiTokens:
    """`now` is always milliseconds since the Unix epoch."""

    def __init__(self, entropy: Entropy, common_secret: bytes = b"") -> None:
        """Halls on one store have a `common_secret`: a token of one of them counts at all."""
        self._secret = common_secret or entropy(_SECRET_BYTES)

    def give(self, key: bytes, now: int) -> tuple[str, int]:
        """A token for this key, and when it ends."""
        end = now + TOKEN_SECONDS * 1000
        claim = key + end.to_bytes(_TIME_BYTES, "big")
        return urlsafe_b64encode(claim + self._code(claim)).rstrip(b"=").decode(), end

    def key_of(self, token: str, now: int) -> bytes:
        """The key that the token stands for. Raises AuthRequired if this hall did not give it, or it has ended."""
        raw = _decoded(token)
        claim, code = raw[:-_CODE_BYTES], raw[-_CODE_BYTES:]
        if len(raw) != _TOKEN_BYTES or not hmac.compare_digest(code, self._code(claim)):
            raise AuthRequired("This hall did not give this token; get one with API_TOKEN")
        if int.from_bytes(claim[_KEY_BYTES:], "big") <= now:
            raise AuthRequired("This token has ended; get a new one with API_TOKEN")
        return claim[:_KEY_BYTES]

    def _code(self, claim: bytes) -> bytes:
        return blake2b(claim, digest_size=_CODE_BYTES, key=self._secret, person=b"moothall api").digest()


def common_secret(sign: Callable[[bytes], bytes]) -> bytes:
    """`sign` signs with the private key, which halls on one store share. It signs this text nowhere else."""
    return blake2b(sign(b"moothall: secret of API tokens"), digest_size=_SECRET_BYTES).digest()


def _decoded(token: str) -> bytes:
    """Empty if it is not base64 of the right length."""
    if len(token) != _TOKEN_LENGTH or not token.isascii():
        return b""
    try:
        return urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (NotBase64, ValueError):
        return b""


def check_welcome(hall: "Hall", key: bytes) -> None:
    """Raise a Refusal unless an agent with this key may come in."""
    public = PublicKey(key)
    if key in hall.revoked:
        raise NotAllowed("This key was revoked")
    if ban := hall.bans.find(public):
        raise Banned(ban.reason or "You are banned from this hall")
    if hall.settings.admits_approved_only:
        hall.allowlist.check(public)


def give_token(hall: "Hall", session: Session, message: client.ApiToken) -> None:
    key = hall.agent_of(session).key
    assert key is not None  # noqa: S101  # the tier of the command says so
    token, end = hall.api_tokens.give(key.raw, hall.timestamp())
    hall.reply(session, server.ApiTokenGiven(ts=hall.timestamp(), token=token, expires_at=end))


COMMANDS: Final = (Command(client.ApiToken, give_token, ANSWER, Tier.VERIFIED),)
