import pytest

from moothall import UsageError
from moothall.client import drafts
from moothall.wire.agentchat.client import ClientMessage

DEAL = "prop_m0abcdf2_deadbeef"
CASE = "disp_m0abcdf2_deadbeef"


@pytest.mark.parametrize(
    ("draft", "text"),
    [
        (drafts.accept(DEAL, 10, "code"), f"ACCEPT|{DEAL}|code|10"),
        (drafts.accept(DEAL, None, None), f"ACCEPT|{DEAL}||"),
        (drafts.reject(DEAL, "busy"), f"REJECT|{DEAL}|busy"),
        (drafts.complete(DEAL, None), f"COMPLETE|{DEAL}|"),
        (drafts.dispute(DEAL, "late"), f"DISPUTE|{DEAL}|late"),
        (drafts.accept_case(CASE), f"ARBITER_ACCEPT|{CASE}"),
        (drafts.decline_case(CASE, ""), f"ARBITER_DECLINE|{CASE}|"),
        (drafts.vote(CASE, "mutual", "both"), f"VOTE|{CASE}|mutual"),
    ],
)
def test_the_text_that_is_signed(draft: ClientMessage, text: str) -> None:
    assert drafts.signed_text(draft) == text


def test_what_makes_no_sense_is_refused_before_it_is_signed() -> None:
    with pytest.raises(UsageError):
        drafts.accept(DEAL, -1, None)
    with pytest.raises(UsageError):
        drafts.dispute(DEAL, "")
    with pytest.raises(UsageError):
        drafts.vote(CASE, "nobody", "")
