"""How much strangers may add to the log in a day."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.node import disk_budget
from moothall.node.disk_budget import DiskBudget

SENDERS = st.sampled_from([b"a", b"b", b"c"])


@given(st.lists(st.tuples(SENDERS, st.integers(1, 40), st.integers(0, 2)), max_size=80))
def test_neither_all_nor_one_is_over_its_share(taken: list[tuple[bytes, int, int]]) -> None:
    budget = DiskBudget(total=100, share=60)
    counted: dict[int, list[tuple[bytes, int]]] = {}
    last = -1
    for sender, size, epoch in sorted(taken, key=lambda each: each[2]):
        if epoch != last:
            last = epoch
            counted[epoch] = []
        own = sum(each for name, each in counted[epoch] if name == sender)
        total = sum(each for _, each in counted[epoch])
        fits = own + size <= 60 and total + size <= 100
        assert budget.admits(sender, size, epoch) == fits
        if fits:
            counted[epoch].append((sender, size))


def test_senders_are_bounded() -> None:
    budget = DiskBudget()
    for number in range(disk_budget.MAX_SENDERS):
        assert budget.admits(number.to_bytes(32, "big"), 1, 5)
    assert not budget.admits(b"new", 1, 5)
    assert budget.admits(bytes(32), 1, 5)
    assert budget.admits(b"new", 1, 6)
