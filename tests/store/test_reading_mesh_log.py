"""The log as commands read it: of one moment, in order, whatever it holds."""

from moothall.market.epoch_log import ClosedEpoch, epoch_at
from moothall.store import reading_mesh_log as reading
from moothall.wire.mesh import merkle
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from tests.store.support import ALICE, BOB, CAROL, NOW_MS, Place
from tests.support.envelopes import CONVERSATION, sent

EPOCH = epoch_at(NOW_MS)
PROPOSE = sent(ALICE, MsgType.PROPOSE, b"{}", to=BOB, conversation_id=CONVERSATION)
ACCEPT = sent(BOB, MsgType.ACCEPT, b"{}", to=ALICE, conversation_id=CONVERSATION)
DISCOVER = sent(CAROL, MsgType.DISCOVER, b"{}")


def logged(place: Place) -> None:
    with place.books() as books:
        for envelope, raw in (PROPOSE, ACCEPT, DISCOVER):
            books.log(envelope, raw, NOW_MS)


def test_an_epoch_is_read_in_order(place: Place) -> None:
    logged(place)
    raws = [PROPOSE[1], ACCEPT[1], DISCOVER[1]]
    with place.connected() as connection, reading.one_moment(connection):
        assert list(reading.envelopes(connection, EPOCH)) == raws
        assert list(reading.envelopes(connection, EPOCH + 1)) == []
        assert list(reading.leaves(connection, EPOCH)) == list(map(merkle.leaf, raws))
        assert reading.tree(connection, EPOCH).root() == merkle.root(list(map(merkle.leaf, raws)))


def test_epochs_that_have_ended_and_that_have_not(place: Place) -> None:
    closed = ClosedEpoch(EPOCH - 1, 0, bytes(32), b"{}")
    with place.books() as books:
        books.close_epoch(closed)
    logged(place)
    with place.connected() as connection:
        assert list(reading.closed_epochs(connection)) == [closed]
        assert reading.closed_epoch(connection, EPOCH - 1) == closed
        assert reading.closed_epoch(connection, EPOCH) is None
        assert reading.open_epochs(connection) == [(EPOCH, 3)]


def test_an_envelope_is_found_by_the_first_digits_of_its_hash(place: Place) -> None:
    logged(place)
    with place.connected() as connection:
        for index, (_, raw) in enumerate((PROPOSE, ACCEPT, DISCOVER)):
            digits = keccak256(raw).hex()
            for length in (9, 10, 64):
                assert reading.find(connection, digits[:length]) == [reading.Found(EPOCH, index, raw)]
        assert len(reading.find(connection, "")) == 2
        assert reading.find(connection, "0" * 64) == []


def test_acts_come_in_order(place: Place) -> None:
    logged(place)
    with place.connected() as connection:
        acts = list(reading.acts(connection, EPOCH))
    assert [act.sender for act in acts] == [key.public.raw for key in (ALICE, BOB, CAROL)]
    assert {act.envelope for act in acts} == {PROPOSE[1], ACCEPT[1], None}
    with place.books() as books:
        first = books.acts(EPOCH, limit=2)
        assert first == acts[:2]
        assert books.acts(EPOCH, after=first[-1].number) == acts[2:]


def test_what_may_concern_an_agent(place: Place) -> None:
    logged(place)
    with place.connected() as connection:
        assert [row[0] for row in reading.around(connection, CAROL.public.raw, EPOCH)] == [
            PROPOSE[1],
            ACCEPT[1],
            DISCOVER[1],
        ]
        assert [row[:2] for row in reading.around(connection, ALICE.public.raw, EPOCH)] == [
            (PROPOSE[1], NOW_MS),
            (ACCEPT[1], NOW_MS),
        ]
