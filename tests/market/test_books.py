"""What the books say about lists."""

from moothall.market.books import what_fits


def test_a_list_has_as_many_as_fit_and_one_at_least() -> None:
    """Or whoever pages through it would get nothing, again and again."""
    rest = iter([40, 60, 1, 2])
    assert what_fits(rest, int, 100) == ([40, 60], True)
    assert list(rest) == [2]  # nothing is taken that does not matter
    assert what_fits([101, 1], int, 100) == ([101], True)
    assert what_fits([101], int, 100) == ([101], False)
    assert what_fits([], int, 100) == ([], False)
