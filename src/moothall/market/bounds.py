"""What the fields of the market's commands may hold. Checked before anything else is done with a command.

Everything here is kept for good, several times over (the deal, its audit rows, its receipt), and told to others.
The checks are cheap and need neither the store nor a signature. Lengths of texts are UTF-16 code units, as the wire
counts those of a message.
"""

from typing import Any, Final

from moothall.errors import InvalidMessage
from moothall.market import skills
from moothall.market.commands import Accept, Complete, Dispute, Propose, RegisterSkills, Reject
from moothall.market.skills import MAX_CAPABILITY
from moothall.market.storable import bounded_json, require_bounded
from moothall.wire.agentchat.jstext import utf16_length

MAX_TASK: Final = 4096  # as a message has (seed 001, transport)
MAX_TERMS: Final = 16 * 1024  # bytes as JSON
MAX_REASON: Final = MAX_TASK  # of REJECT and DISPUTE
MAX_PROOF: Final = MAX_TASK
MAX_PAYMENT_CODE: Final = 1024
MAX_AMOUNT: Final = 256  # of an amount that is a text
MAX_CURRENCY: Final = 64


def check_propose(command: Propose) -> None:
    require_length(command.task, "task", MAX_TASK)
    require_length(command.amount, "amount", MAX_AMOUNT)
    require_length(command.currency, "currency", MAX_CURRENCY)
    require_length(command.payment_code, "payment_code", MAX_PAYMENT_CODE)
    require_length(command.capability, "capability", MAX_CAPABILITY)
    if command.terms is not None:
        require_bounded(command.terms, "terms")
        bounded_json(command.terms, "terms", MAX_TERMS)


def check_accept(command: Accept) -> None:
    require_length(command.payment_code, "payment_code", MAX_PAYMENT_CODE)


def check_reject(command: Reject) -> None:
    require_length(command.reason, "reason", MAX_REASON)


def check_complete(command: Complete) -> None:
    require_length(command.proof, "proof", MAX_PROOF)


def check_dispute(command: Dispute) -> None:
    require_length(command.reason, "reason", MAX_REASON)


def check_skills(command: RegisterSkills) -> None:
    skills.require_modest(command.skills)


def require_length(value: Any, field: str, most: int) -> None:
    """Check the length of a text. Numbers and booleans are always short."""
    # A character is one or two code units: most texts need not be counted.
    if isinstance(value, str) and len(value) * 2 > most and utf16_length(value) > most:
        raise InvalidMessage(f"`{field}` has more than {most} characters")
