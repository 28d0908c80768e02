"""Offers that wait: for half an hour, and not too many."""

from typing import NamedTuple

from moothall.files.control import MAX_SIZE, Offer
from moothall.files.offers import MAX_OF_ONE, MAX_PENDING, PendingOffers, objection


class Item(NamedTuple):
    sender: str
    transfer_id: str
    received_at: float = 0.0


def test_offers_over_the_limit() -> None:
    assert objection(Offer("x", [], MAX_SIZE, "0" * 64, 1)) is None
    assert (
        objection(Offer("x", [], MAX_SIZE + 1, "0" * 64, 1))
        == "50.0 MB is more than the 50.0 MB of a transfer"
    )


def test_offers_expire_after_half_an_hour() -> None:
    offers: PendingOffers[Item] = PendingOffers()
    offers.add(Item("@a", "1", 0.0))
    offers.add(Item("@a", "2", 10.0))
    offers.sweep(1799.9)
    assert len(list(offers)) == 2
    offers.sweep(1800.0)
    assert [item.transfer_id for item in offers] == ["2"]


def test_one_sender_has_a_few() -> None:
    offers: PendingOffers[Item] = PendingOffers()
    assert all(offers.add(Item("@a", str(number))) for number in range(MAX_OF_ONE))
    assert not offers.add(Item("@a", "more"))
    assert offers.add(Item("@b", "0"))
    assert not offers.add(Item("@b", "0"))  # again
    offers.remove("@a", "0")
    assert offers.add(Item("@a", "more"))


def test_a_crowd_of_senders_does_not_keep_others_out() -> None:
    offers: PendingOffers[Item] = PendingOffers()
    offers.add(Item("@honest", "0"))
    for sender in range(20):
        for number in range(MAX_OF_ONE):
            offers.add(Item(f"@{sender}", str(number)))
    assert len(list(offers)) == MAX_PENDING
    assert Item("@honest", "0") in list(offers)
    assert offers.add(Item("@late", "0"))
