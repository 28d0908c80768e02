"""The texts that are signed, one function each (agentchat wire 8).

All are plain texts joined with `|`, nothing escaped; an optional value that JavaScript finds falsy
contributes nothing; numbers and JSON are written as JavaScript writes them.
"""

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from msgspec import UNSET

from moothall.wire.agentchat.client import (
    Accept,
    ArbiterAccept,
    ArbiterDecline,
    ArbiterVote,
    Complete,
    Dispute,
    DisputeIntent,
    DisputeReveal,
    Evidence,
    Number,
    Proposal,
    RegisterSkills,
    Reject,
)
from moothall.wire.agentchat.jstext import field_text, json_text, number_text, utf8

# Another agent chooses the text that VERIFY_RESPONSE signs, so it must not mean anything anywhere else. These 32
# digits are what every known client draws (agentchat wire 3.4), and no other signed message looks like them:
# the texts of this module and of the hall contain `|`, those of MSG and of certificates begin with `{`, the
# signing bytes of a mesh envelope are at least 143 long (mesh wire 2.2). Those of a keep packet may be all hex
# digits: `2`, which is the tag of `dst`, and a length. But the smallest length that is a hex digit is 48.
_is_peer_nonce: Final = re.compile(r"[0-9a-f]{32}").fullmatch


def is_peer_nonce(text: str) -> bool:
    """True if a signature of `text` proves possession of the key and nothing else."""
    return _is_peer_nonce(text) is not None


# Bars that join the fields of each text. A text that has more of them holds one in a field, and then the signature
# does not tell where that field ends.
BARS: Final[Mapping[str, int]] = {
    "PROPOSAL": 6,
    "ACCEPT": 3,
    "COMPLETE": 2,
    "DISPUTE_INTENT": 3,
    "DISPUTE_REVEAL": 2,
    "EVIDENCE": 2,
    "ARBITER_ACCEPT": 1,
    "ARBITER_DECLINE": 2,
    "ARBITER_VOTE": 2,
}


def has_bars(kind: str, text: str) -> bool:
    """True if a field of the signed text of this message type holds `|`."""
    return text.count("|") > BARS[kind]


# Milliseconds that the SDK adds to the timestamp of a proof if the CHALLENGE did not name its hall. A hall that did
# name itself knows by it that a server in between removed the name. No clock shows exactly this fraction.
_UNBOUND: Final = 85 / 256


def bound_nonce(hall_key: str, hall_random: str, hall_host: str) -> str:
    """The nonce of a CHALLENGE that names its hall: 32 hex digits."""
    return sha256(utf8(f"{hall_key}|{hall_random}|{hall_host}")).hexdigest()[:32]


def unbound_time(milliseconds: int) -> float:
    """The timestamp of a proof for a CHALLENGE that did not name its hall."""
    return milliseconds + _UNBOUND


def is_unbound_time(timestamp: Number) -> bool:
    return timestamp % 1 == _UNBOUND


def auth_text(nonce: str, challenge_id: str, timestamp: Number) -> str:
    return f"AGENTCHAT_AUTH|{nonce}|{challenge_id}|{number_text(timestamp)}"


def message_text(to: str, content: str, ts: Number) -> str:
    """What clients sign in MSG. Receivers cannot check it: the relayed `ts` is the server's."""
    return json_text({"to": to, "content": content, "ts": ts})


def proposal_text(message: Proposal) -> str:
    expires = None if message.expires is UNSET else message.expires
    optional = (message.amount, message.currency, message.payment_code, expires, message.elo_stake)
    return "|".join((message.to, message.task, *map(field_text, optional)))


def accept_text(message: Accept) -> str:
    return f"ACCEPT|{message.proposal_id}|{field_text(message.payment_code)}|{field_text(message.elo_stake)}"


def reject_text(message: Reject) -> str:
    return f"REJECT|{message.proposal_id}|{field_text(message.reason)}"


def complete_text(message: Complete) -> str:
    return f"COMPLETE|{message.proposal_id}|{field_text(message.proof)}"


def dispute_text(message: Dispute) -> str:
    return f"DISPUTE|{message.proposal_id}|{message.reason}"


def skills_text(message: RegisterSkills) -> str:
    return f"REGISTER_SKILLS|{_json_hash(message.skills)}"


def dispute_intent_text(message: DisputeIntent) -> str:
    return f"DISPUTE_INTENT|{message.proposal_id}|{message.reason}|{message.commitment}"


def dispute_reveal_text(message: DisputeReveal) -> str:
    return f"DISPUTE_REVEAL|{message.proposal_id}|{message.nonce}"


def evidence_text(message: Evidence) -> str:
    return f"EVIDENCE|{message.dispute_id}|{_json_hash(message.items)}"


def arbiter_accept_text(message: ArbiterAccept) -> str:
    return f"ARBITER_ACCEPT|{message.dispute_id}"


def arbiter_decline_text(message: ArbiterDecline) -> str:
    return f"ARBITER_DECLINE|{message.dispute_id}|{field_text(message.reason)}"


def vote_text(message: ArbiterVote) -> str:
    return f"VOTE|{message.dispute_id}|{message.verdict}"


def _json_hash(value: Any) -> str:
    return sha256(json_text(value).encode()).hexdigest()


SignedMessage = (
    Proposal
    | Accept
    | Reject
    | Complete
    | Dispute
    | RegisterSkills
    | DisputeIntent
    | DisputeReveal
    | Evidence
    | ArbiterAccept
    | ArbiterDecline
    | ArbiterVote
)

TEXTS: Final[Mapping[type[SignedMessage], Callable[[Any], str]]] = {
    Proposal: proposal_text,
    Accept: accept_text,
    Reject: reject_text,
    Complete: complete_text,
    Dispute: dispute_text,
    RegisterSkills: skills_text,
    DisputeIntent: dispute_intent_text,
    DisputeReveal: dispute_reveal_text,
    Evidence: evidence_text,
    ArbiterAccept: arbiter_accept_text,
    ArbiterDecline: arbiter_decline_text,
    ArbiterVote: vote_text,
}


def signed_text(message: SignedMessage) -> str:
    return TEXTS[type(message)](message)
