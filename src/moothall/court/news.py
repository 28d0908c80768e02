"""What parties and arbiters are told about a case. A case says most of it itself: it is the record as the decision
left it."""

from collections.abc import Sequence

from moothall.court.records import CourtChange, Dispute, Slot
from moothall.market.movement import Movement
from moothall.market.outcome import News, Notice, Outcome
from moothall.market.records import Proposal

CourtOutcome = Outcome[CourtChange]


class CaseNews(News, frozen=True, gc=False):
    case: Dispute
    at: int


# -- filing --------------------------------------------------------------------------------------------


class IntentFiled(CaseNews, frozen=True, gc=False):
    """For the disputant."""


class CaseFiled(CaseNews, frozen=True, gc=False):
    """For the respondent."""


class Revealed(CaseNews, frozen=True, gc=False):
    """For the disputant."""


class FellBack(CaseNews, frozen=True, gc=False):
    pass


# -- the panel -----------------------------------------------------------------------------------------


class PanelFormed(CaseNews, frozen=True, gc=False):
    pass


class ArbiterAssigned(CaseNews, frozen=True, gc=False):
    is_replacement: bool


# -- evidence ------------------------------------------------------------------------------------------


class EvidenceOpen(CaseNews, frozen=True, gc=False):
    address: str  # of the party that is told


class EvidenceReceived(CaseNews, frozen=True, gc=False):
    address: str  # of the party that brought it
    count: int


class CaseReady(CaseNews, frozen=True, gc=False):
    deal: Proposal


# -- the verdict ---------------------------------------------------------------------------------------


class VerdictReached(CaseNews, frozen=True, gc=False):
    pass


class DealSettled(CaseNews, frozen=True, gc=False):
    movement: Movement


# -- who is told ---------------------------------------------------------------------------------------


def filed(case: Dispute, now: int) -> Notice:
    """(seed 000, file intent 6)"""
    return Notice((case.respondent,), CaseFiled(case, now))


def panel_formed(case: Dispute, now: int) -> Notice:
    return Notice(case.parties, PanelFormed(case, now))


def assigned(case: Dispute, slots: Sequence[Slot], now: int) -> Notice:
    """Slots that are alike: the first panel, or one replacement."""
    is_replacement = case.is_replacement(case.slots.index(slots[0]))
    return Notice(tuple(slot.arbiter for slot in slots), ArbiterAssigned(case, now, is_replacement))


def evidence_open(case: Dispute, now: int) -> tuple[Notice, Notice]:
    """(seed 000, arbiter accept 4d)"""
    return (
        Notice((case.disputant,), EvidenceOpen(case, now, case.disputant_address)),
        Notice((case.respondent,), EvidenceOpen(case, now, case.respondent_address)),
    )


def case_ready(case: Dispute, deal: Proposal, now: int) -> Notice:
    """For the arbiters that have not voted yet: at first, all."""
    waiting = tuple(slot.arbiter for slot in case.slots if slot.status == "accepted")
    return Notice(waiting, CaseReady(case, now, deal))


def judged(case: Dispute, movement: Movement, now: int) -> tuple[Notice, Notice]:
    """For the parties and all arbiters ever drawn, also those that declined (agentchat wire 6.5)."""
    told = (*case.parties, *(slot.arbiter for slot in case.slots))
    return Notice(told, VerdictReached(case, now)), Notice(told, DealSettled(case, now, movement))


def reminder(case: Dispute, deal: Proposal, key: bytes, now: int) -> Notice | None:
    """What an arbiter that comes back has yet to do, as it was told the first time."""
    number = case.slot_of(key)
    if number is None:
        return None
    slot = case.slots[number]
    if case.phase == "arbiter_response" and slot.status == "pending":
        return assigned(case, (slot,), now)
    if case.phase == "deliberation" and slot.status == "accepted":
        return Notice((key,), CaseReady(case, now, deal))
    return None
