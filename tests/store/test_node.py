"""What a node keeps, on both engines."""

import pytest

from moothall.market.node_books import HostedAgent, Letter
from moothall.store import node
from moothall.store.books import SqlBooks
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from tests.store.support import ALICE, BOB, NOW_MS, Place
from tests.support.envelopes import sent

A, B = ALICE.public.raw, BOB.public.raw
TALK = bytes(range(16))
LETTER = Letter(0, A, B, MsgType.PROPOSE, TALK, True, NOW_MS, b"payload")


def log(books: SqlBooks, payload: bytes, at: int = NOW_MS) -> bytes:
    made, raw = sent(ALICE, MsgType.ADVERTISE, payload)
    books.log(made, raw, at, belongs=False)
    return keccak256(raw)


def test_the_reserved_nonce_is_the_last_one_that_was_written(place: Place) -> None:
    with place.books() as books:
        assert books.reserved_nonce() == 0
        books.reserve_nonces(2**63)
    with place.books() as books:
        books.reserve_nonces(2**63 + 5)
    with place.books() as books:
        assert books.reserved_nonce() == 2**63 + 5


def test_inboxes_are_read_in_order_within_a_bound_and_forget(place: Place) -> None:
    with place.books() as books:
        known = [log(books, bytes(100 * (each + 1))) for each in range(3)]
        numbers = [books.put_arrived(A, each, NOW_MS + at, f"note {at}") for at, each in enumerate(known)]
        books.put_arrived(B, known[0], NOW_MS, None)
    with place.books() as books:
        found = books.arrived(A, 0, 10)
        assert [(each.number, each.note) for each in found] == [
            (number, f"note {at}") for at, number in enumerate(numbers)
        ]
        assert [each.number for each in books.arrived(A, numbers[0], 1)] == numbers[1:2]
        assert len(books.arrived(A, 0, 10, most=1)) == 1  # one at least
        assert len(books.arrived(A, 0, 10, most=len(found[0].envelope) + len(found[1].envelope))) == 2
        newest = books.newest_arrived()
        assert newest > numbers[-1]
        books.forget_arrived(NOW_MS + 2)
    with place.books() as books:
        assert [each.number for each in books.arrived(A, 0, 10)] == numbers[2:]
        assert books.arrived(B, 0, 10) == []
        assert len(books.log_after(0, 10)) == 3  # the log keeps them


def test_letters_wait_until_they_are_removed(place: Place) -> None:
    with place.books() as books:
        numbers = [books.put_letter(LETTER) for _ in range(3)]
    with place.books() as books:
        assert [each.number for each in books.undelivered(0, 10)] == numbers
        (second,) = books.undelivered(numbers[0], 1)
        assert second == Letter(numbers[1], A, B, MsgType.PROPOSE, TALK, True, NOW_MS, b"payload")
        assert books.remove_letter(numbers[1])
        assert not books.remove_letter(numbers[1])
    with place.books() as books:
        assert [each.number for each in books.undelivered(0, 10)] == [numbers[0], numbers[2]]


def test_the_latest_failures_are_kept_and_a_message_that_is_sent_again_takes_its_own(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "MAX_FAILURES", 2)
    other = Letter(0, A, B, MsgType.PROPOSE, TALK, True, NOW_MS, b"another payload")
    with place.books() as books:
        numbers = [books.put_failure(each, 7, "no ACK", NOW_MS) for each in (LETTER, other, LETTER)]
    with place.books() as books:
        assert [each.number for each in books.failures(0, 10)] == numbers[1:]
        assert [each.number for each in books.failures(numbers[1], 10)] == numbers[2:]
        assert books.take_failure(LETTER)
        assert not books.take_failure(LETTER)
    with place.books() as books:
        (left,) = books.failures(0, 10)
        assert (left.number, left.nonce, left.reason) == (numbers[1], 7, "no ACK")


def test_the_log_by_epoch(place: Place) -> None:
    day = 24 * 60 * 60 * 1000
    with place.books() as books:
        for each in range(3):
            log(books, bytes((each,)), each * 2 * day)
            log(books, bytes((each, 1)), each * 2 * day)
    with place.books() as books:
        assert books.logged_epochs(2) == [4, 2]
        assert books.logged_epochs(9) == [4, 2, 0]
        rows = books.log_after(0, 10, epoch=2)
        assert [row.epoch for row in rows] == [2, 2]
        assert books.log_after(rows[0].number, 10, epoch=2) == rows[1:]
        assert len(books.log_after(0, 10, most=1)) == 1


def test_sessions_end(place: Place) -> None:
    agents = [
        HostedAgent(bytes((each,)) * 32, bytes((each, 1)), b"secret", NOW_MS + each) for each in range(3)
    ]
    with place.books() as books:
        for each in reversed(agents):
            books.put_hosted(each)
    with place.books() as books:
        assert books.hosted() == agents
        books.expire_hosted(NOW_MS + 1)
    with place.books() as books:
        assert books.hosted() == agents[2:]


def test_tasks(place: Place) -> None:
    with place.books() as books:
        first, second = books.put_task(NOW_MS, b"{}"), books.put_task(NOW_MS + 1, b'{"a":1}')
    with place.books() as books:
        assert [each.number for each in books.tasks(2**62, 10)] == [second, first]
        assert [each.number for each in books.tasks(second, 10)] == [first]
        shared = books.share_task(first, shared=True)
        assert shared is not None
        assert (shared.shared, shared.fields) == (True, b"{}")
        assert books.share_task(second + 1, shared=True) is None
        assert books.remove_task(second)
        assert not books.remove_task(second)
    with place.books() as books:
        assert [(each.number, each.shared) for each in books.tasks(2**62, 10)] == [(first, True)]
        assert books.count_tasks() == 1
