"""The reputation vector of the mesh: what FEEDBACK says of an agent, as the reference counts it (mesh wire 11.1).

Its numbers are averages of scores, times 1000, as whole numbers. All division drops the fraction, also below zero.
Whose FEEDBACK counts is decided elsewhere (`conversations`).
"""

from typing import Final

from msgspec import Struct, structs

SCALE: Final = 1000  # of a score, which is from -100 to 100
GRACE_EPOCHS: Final = 6  # an agent may be idle for so long before its numbers decay
_KEPT: Final = (95, 100)  # of each number, per epoch


class ReputationVector(Struct, kw_only=True, frozen=True, omit_defaults=True, gc=False):
    """How one agent is rated. `last_active_epoch` is that of its last envelope in a conversation, as far as it was
    rated before. `epoch` is the one up to which the numbers have decayed."""

    reliability: int = 0
    cooperation: int = 0
    notary_accuracy: int = 0
    total_tasks: int = 0
    total_notarized: int = 0
    total_disputes: int = 0
    last_active_epoch: int = 0
    epoch: int = 0


UNRATED: Final = ReputationVector()


def rated(vector: ReputationVector, score: int, *, as_notary: bool) -> ReputationVector:
    """The vector after FEEDBACK about a party, or about the work of a notary."""
    if as_notary:
        count = vector.total_notarized + 1
        return structs.replace(
            vector,
            notary_accuracy=_average(vector.notary_accuracy, score, count),
            total_notarized=count,
        )
    count = vector.total_tasks + 1
    return structs.replace(
        vector,
        reliability=_average(vector.reliability, score, count),
        cooperation=_average(vector.cooperation, score, count),
        total_tasks=count,
    )


def decayed(vector: ReputationVector, epoch: int, *, before: int) -> ReputationVector:
    """The vector when the epoch `before` has ended and `epoch` begins; there may be others between them."""
    times = min(epoch - vector.last_active_epoch - GRACE_EPOCHS, epoch - before)
    numbers = (vector.reliability, vector.cooperation, vector.notary_accuracy)
    for _ in range(times):
        if not any(numbers):
            break
        reliability, cooperation, accuracy = numbers
        numbers = (_decay(reliability), _decay(cooperation), _decay(accuracy))
    reliability, cooperation, accuracy = numbers
    return structs.replace(vector, reliability=reliability, cooperation=cooperation, notary_accuracy=accuracy)


def in_epoch(vector: ReputationVector, epoch: int) -> ReputationVector:
    """The vector as it is in this epoch. What did not decay when an epoch began decays now, to the same numbers."""
    if epoch <= vector.epoch:
        return vector
    return structs.replace(decayed(vector, epoch, before=vector.epoch), epoch=epoch)


def active(vector: ReputationVector, epoch: int) -> ReputationVector:
    """The vector of an agent that acts in this epoch. What an earlier idle time cost it stays lost."""
    return structs.replace(in_epoch(vector, epoch), last_active_epoch=max(epoch, vector.last_active_epoch))


def disputed(vector: ReputationVector) -> ReputationVector:
    """The vector of an agent that sent a DISPUTE. It is a count, and no judgement."""
    return structs.replace(vector, total_disputes=vector.total_disputes + 1)


def _average(average: int, score: int, count: int) -> int:
    return _quotient(average * (count - 1) + score * SCALE, count)


def _decay(number: int) -> int:
    kept, of = _KEPT
    return _quotient(number * kept, of)


def _quotient(number: int, by: int) -> int:
    """Towards zero; `//` goes down."""
    return number // by if number >= 0 else -(-number // by)
