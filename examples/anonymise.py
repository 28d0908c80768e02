"""Makes JSON lines of a hall fit to share: ids become pseudonyms, texts their length, all else is left out.

moothall store export | python examples/anonymise.py > deals.jsonl
moothall listen --json --events | python examples/anonymise.py > events.jsonl

Pseudonyms are the same within one run and mean nothing outside of it: the secret behind them is drawn at the start
and never written. PSEUDONYM_KEY=... gives several runs the same pseudonyms. With that key the agents can be found
again.
"""

import hashlib
import hmac
import json
import os
import secrets
import sys
from base64 import b64encode
from typing import Any

from moothall import PublicKey

# Only what is listed is shared. Agents choose what is in fields of any other name.
WORDS = {"table", "type", "status", "phase", "verdict", "role", "slot", "operation", "book", "settlement"}
WORDS |= {"kind", "presence"}
NUMBERS = {"ts", "at", "created_at", "updated_at", "completed_at", "disputed_at", "filed_at", "resolved_at"}
NUMBERS |= {
    "expires",
    "deadline",
    "registered_at",
    "started_at",
    "rating",
    "transactions",
    "amount",
    "change",
}
NUMBERS |= {"oldRating", "newRating", "withheld", "proposer_stake", "acceptor_stake", "proposer", "acceptor"}
NUMBERS |= {"reward", "version", "is_open", "frozen", "verified", "replay"}
IDS = {"id", "key", "fingerprint", "short", "from", "to", "agent", "agent_id", "actor", "account", "deal"}
IDS |= {"proposal_id", "dispute_id", "msg_id", "in_reply_to", "channel", "holder", "winner", "arbiter"}
IDS |= {"disputant", "respondent", "proposer", "recipient", "completed_by", "disputed_by", "ended_by"}
TEXTS = {"content", "task", "reason", "statement", "reasoning", "proof"}
INSIDE = {
    "record",
    "data",
    "message",
    "body",
    "operations",
    "rating_changes",
    "_escrow",
    "elo_stakes",
    "votes",
}

secret = os.environ.get("PSEUDONYM_KEY", "").encode() or secrets.token_bytes(32)
aliases: dict[str, str] = {}  # other spellings of a key


def pseudonym(value: str) -> str:
    bare = value.removeprefix("@").removeprefix("agent:")
    return hmac.new(secret, aliases.get(bare, bare).encode(), hashlib.sha256).hexdigest()[:12]


def learn(row: dict[str, str]) -> None:
    raw = bytes.fromhex(row["key"])
    for spelling in (row["fingerprint"], row["short"], b64encode(raw).decode(), PublicKey(raw).pem):
        aliases[spelling] = row["key"]


def shared(value: Any, name: str) -> Any:
    """What may be shared of a field; None for what may not."""
    if isinstance(value, str):
        if name in IDS:
            return pseudonym(value)
        return value if name in WORDS else len(value) if name in TEXTS else None
    if isinstance(value, int | float):
        return value if name in NUMBERS else None
    if name not in INSIDE and not name.startswith("@"):
        return None
    return inside(value) if isinstance(value, dict) else [inside(each) for each in value or () if each]


def inside(record: dict[str, Any]) -> dict[str, Any]:
    found = {name: shared(value, name) for name, value in record.items()}
    return {
        pseudonym(name) if name.startswith("@") else name: value
        for name, value in found.items()
        if value is not None
    }


for line in sys.stdin:
    row = json.loads(line)
    if row.get("table") == "keys":
        learn(row)
    elif row.get("table") == "offers":
        del row["body"]  # the skill as its agent wrote it, whose fields may have any name
    sys.stdout.write(json.dumps(inside(row)) + "\n")
