import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.cli._amounts import millionths, shown
from moothall.errors import UsageError
from moothall.market.credits import MAX_AMOUNT


@pytest.mark.parametrize(
    ("text", "amount"),
    [("0", 0), ("20", 20_000_000), ("2.5", 2_500_000), ("0.000001", 1), ("007.10", 7_100_000)],
)
def test_credits_become_millionths(text: str, amount: int) -> None:
    assert millionths(text) == amount


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.", ".5", "1.0000001", "1e3", "1,5", " 1", "nan", "٣", "1_0"]
)
def test_what_is_not_exact_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not an amount of credits, such as 20 or 2\.5"):
        millionths(text)


@pytest.mark.parametrize("text", ["9223372036854.775808", "9999999999999"])
def test_what_no_store_holds_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"more than a hall can keep, 9223372036854\.775807"):
        millionths(text)


@given(st.integers(0, MAX_AMOUNT))
def test_what_is_shown_can_be_written(amount: int) -> None:
    assert millionths(shown(amount)) == amount
    assert shown(-amount) == (f"-{shown(amount)}" if amount else "0")
