"""What the fields of the market's commands may hold. Checked before anything else is done with a command.

Everything here is kept for good, several times over (the deal, its audit rows, its receipt), and told to others.
The checks are cheap and need neither the store nor a signature. Lengths of texts are UTF-16 code units, as the wire
counts those of a message.
"""

from typing import Any, Final

from moothall.errors import InvalidMessage
from moothall.market import escrow, skills
from moothall.market.skills import MAX_CAPABILITY
from moothall.market.storable import bounded_json, require_bounded
from moothall.wire.agentchat.client import (
    MAX_CONTENT,
    MAX_SIGNATURE,
    Accept,
    Complete,
    Dispute,
    Proposal,
    RegisterSkills,
    Reject,
    SearchSkills,
)
from moothall.wire.agentchat.jstext import utf16_length

MAX_TASK: Final = MAX_CONTENT  # as a message has
MAX_TERMS: Final = 16 * 1024  # bytes as JSON
MAX_REASON: Final = MAX_CONTENT  # of REJECT and DISPUTE
MAX_PROOF: Final = MAX_CONTENT
MAX_PAYMENT_CODE: Final = 1024
MAX_AMOUNT: Final = 256  # of an amount that is a text
MAX_CURRENCY: Final = 64
MAX_QUERY: Final = 4096  # bytes as JSON: the answer repeats it
MAX_QUERY_ID: Final = 256


def check_proposal(message: Proposal) -> None:
    _require_length(message.task, "task", MAX_TASK)
    _require_length(message.amount, "amount", MAX_AMOUNT)
    _require_length(message.currency, "currency", MAX_CURRENCY)
    _require_length(message.payment_code, "payment_code", MAX_PAYMENT_CODE)
    _require_length(message.capability, "capability", MAX_CAPABILITY)
    _require_length(message.sig, "sig", MAX_SIGNATURE)
    escrow.stake_of(message.elo_stake)
    if message.terms is not None:
        require_bounded(message.terms, "terms")
        bounded_json(message.terms, "terms", MAX_TERMS)


def check_accept(message: Accept) -> None:
    _require_length(message.payment_code, "payment_code", MAX_PAYMENT_CODE)
    _require_length(message.sig, "sig", MAX_SIGNATURE)
    escrow.stake_of(message.elo_stake)


def check_reject(message: Reject) -> None:
    _require_length(message.reason, "reason", MAX_REASON)
    _require_length(message.sig, "sig", MAX_SIGNATURE)


def check_complete(message: Complete) -> None:
    _require_length(message.proof, "proof", MAX_PROOF)
    _require_length(message.sig, "sig", MAX_SIGNATURE)


def check_dispute(message: Dispute) -> None:
    _require_length(message.reason, "reason", MAX_REASON)
    _require_length(message.sig, "sig", MAX_SIGNATURE)


def check_skills(message: RegisterSkills) -> None:
    _require_length(message.sig, "sig", MAX_SIGNATURE)
    skills.require_modest(message.skills)


def check_search(message: SearchSkills) -> None:
    _require_length(message.query_id, "query_id", MAX_QUERY_ID)
    require_bounded(message.query, "query")
    bounded_json(message.query, "query", MAX_QUERY)
    skills.read_query(message)


def _require_length(value: Any, field: str, most: int) -> None:
    """Of a text; numbers and truth values are short."""
    # A character is one or two code units: most texts need not be counted.
    if isinstance(value, str) and len(value) * 2 > most and utf16_length(value) > most:
        raise InvalidMessage(f"`{field}` has more than {most} characters")
