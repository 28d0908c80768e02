"""What a hall is built from. `app` makes these, and so does a test."""

from dataclasses import dataclass, field

from moothall.hall.access import Allowlist, Bans
from moothall.hall.common import Copies
from moothall.hall.keyring import Keyring
from moothall.hall.outside import Alarm, Clock, Entropy, Log, Pick
from moothall.hall.redaction import Redactor
from moothall.hall.reporting import Spending
from moothall.hall.revocation import RevokedKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    clock: Clock
    entropy: Entropy
    pick: Pick
    alarm: Alarm
    log: Log
    redactor: Redactor
    copies: Copies
    allowlist: Allowlist
    bans: Bans
    keyring: Keyring
    hall_key: bytes  # the public one
    spending: Spending
    revoked: RevokedKeys = field(default_factory=RevokedKeys)
    token_secret: bytes = b""  # see `api_tokens`
