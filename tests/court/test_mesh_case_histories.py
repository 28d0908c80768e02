"""Random histories of a conversation that may go to court, on a real store: no credit is lost or stays for ever."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.errors import CreditsRefused, OutOfOrder, Refusal
from moothall.market.credits import EXTERNAL
from moothall.store.files import DataDirectory
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import Judgement, Verdict
from tests.identity.vectors import ALICE, BOB
from tests.store.support import Log, Place
from tests.support.court_talks import JUDGES, RULES, CourtTalks
from tests.support.talks import CREDIT, TIMEOUT

pytestmark = pytest.mark.slow

A, B = ALICE.public.raw, BOB.public.raw
VERDICTS: Final = ("disputant", "respondent", "mutual")
LONG: Final = 10 * TIMEOUT


class History:
    """A party, a judge or the clock does something, allowed or not. What is refused changes nothing."""

    def __init__(self, talks: CourtTalks) -> None:
        self.talks = talks

    def act(self, number: int) -> None:
        party, other = (ALICE, BOB) if number % 2 else (BOB, ALICE)
        judge, verdict = JUDGES[number % 3], VERDICTS[number // 3 % 3]
        talks = self.talks
        filed = talks.select("SELECT id FROM disputes ORDER BY filed_at DESC, id DESC")
        case = filed[0][0] if filed else "disp_0"
        amount = CREDIT * (1 + number % 2)
        approval = Verdict(Judgement.APPROVE, A, B, b"").encode()
        acts: list[Callable[[], object]] = [
            lambda: talks.offer(party, amount),
            lambda: talks.counter(party, amount),
            lambda: talks.agree(party, amount),
            lambda: talks.send(party, MsgType.REJECT, b""),
            talks.hand_over,
            lambda: talks.challenge(party),
            lambda: talks.send(ALICE, MsgType.VERDICT, approval),
            lambda: talks.cancel(A),
            lambda: talks.consent(B),
            lambda: talks.feedback(party.public.raw, other.public.raw, 50, positive=True),
            lambda: talks.file(party),
            lambda: talks.reveal(party),
            lambda: talks.step(judge, "ARBITER_ACCEPT", dispute_id=case),
            lambda: talks.step(party, "EVIDENCE", dispute_id=case, items=[], statement=""),
            lambda: talks.step(judge, "ARBITER_VOTE", dispute_id=case, verdict=verdict, reasoning=""),
            lambda: self.wait((1, 60_000, RULES.vote_period, TIMEOUT)[number % 4]),
            talks.restart,
        ]
        before = talks.facts()
        try:
            acts[number // 9 % len(acts)]()
        except (OutOfOrder, CreditsRefused, Refusal):
            assert talks.facts() == before

    def wait(self, milliseconds: int) -> None:
        """Time passes for both: the court's clock acts first, or that of the mesh."""
        self.talks.now += milliseconds
        self.talks.act()
        due = self.talks.unit(lambda books: books.due_cases(self.talks.now))
        for case in due:
            self.talks.lapse_due(case)

    def check(self) -> None:
        totals = self.talks.unit(lambda books: books.totals())
        assert totals["agents"] + totals["escrows"] + totals["treasury"] == 10 * CREDIT == -totals[EXTERNAL]
        conversation = self.talks.conversation()
        if conversation is not None and conversation.case is not None:
            assert self.talks.case(conversation.case).is_open
            assert self.talks.deal().frozen_by == conversation.case


BEGINNINGS: Final[tuple[Callable[[CourtTalks], object], ...]] = (
    CourtTalks.quarrel,
    CourtTalks.file,
    CourtTalks.reveal,
    lambda talks: [talks.step(judge, "ARBITER_ACCEPT", dispute_id="disp_1") for judge in JUDGES],
    lambda talks: [
        talks.step(party, "EVIDENCE", dispute_id="disp_1", items=[], statement="") for party in (ALICE, BOB)
    ],
    lambda talks: [
        talks.step(judge, "ARBITER_VOTE", dispute_id="disp_1", verdict="respondent", reasoning="")
        for judge in JUDGES
    ],
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(BEGINNINGS)), st.lists(st.integers(0, 17 * 9 - 1), max_size=30))
def test_no_credit_is_lost_and_none_stays_for_ever(steps: int, numbers: list[int]) -> None:
    """After so many steps of a case, anything may happen."""
    with TemporaryDirectory() as folder:
        place = Place(DataDirectory(Path(folder) / "data"), "", Log())
        talks = CourtTalks(place)
        history = History(talks)
        for begin in BEGINNINGS[:steps]:
            begin(talks)
            history.check()
        for number in numbers:
            history.act(number)
            history.check()
        for _ in range(4):
            history.wait(LONG)
        history.check()
        conversation = talks.conversation()
        assert conversation is None or (conversation.held, conversation.case) == (0, None)
        talks.close()
        assert place.problems() == []
