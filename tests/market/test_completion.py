"""What both parties of a completed deal gain, whatever wire it was made on."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.market.completion import Party, completion_shares
from moothall.market.rating_rules import PairHistory, RatingRules
from moothall.market.records import Standing
from moothall.market.reputation import completion_gain

ratings = st.integers(100, 3000)


def party(letter: bytes, rating: int = 1200, stake: int = 0) -> Party:
    return Party(letter.decode(), Standing(key=letter * 32, rating=rating), stake)


def test_newcomers_gain_eight_and_get_their_stakes_back() -> None:
    one, other = completion_shares(
        party(b"A", stake=5), party(b"B"), None, pair=PairHistory(), now=0, rules=RatingRules()
    )
    assert (one.address, one.earned, one.change, one.staked, one.awarded) == ("A", 8, 8, 5, 5)
    assert (other.address, other.earned, other.change, other.staked) == ("B", 8, 8, 0)


@given(ratings, ratings, st.integers(0, 20), st.booleans())
def test_each_gains_by_the_other(one: int, other: int, settled: int, diminishing: bool) -> None:
    rules, pair = RatingRules(diminishing=diminishing), PairHistory(settled, 0)
    parties = party(b"A", one), party(b"B", other)
    shares = completion_shares(*parties, 10, pair=pair, now=0, rules=rules)
    assert [share.earned for share in shares] == [
        completion_gain(parties[0].standing, parties[1].standing, 10, rules, pair),
        completion_gain(parties[1].standing, parties[0].standing, 10, rules, pair),
    ]


def test_what_the_limit_withholds_is_told() -> None:
    rules = RatingRules(gain_limit=5, gain_window=1000)
    share, _ = completion_shares(party(b"A"), party(b"B"), None, pair=PairHistory(), now=0, rules=rules)
    assert (share.earned, share.withheld) == (5, 3)
    assert share.curbs is not None
    assert share.curbs.drained_at == 1000
