"""Epochs and batches: the vectors, and what is cut."""

from typing import Any

import cbor2
import pytest
from msgspec import structs

from moothall.wire.mesh.cbor import UINT64_MAX
from moothall.wire.mesh.epochs import (
    MAX_ENTRIES,
    BehaviorBatch,
    BidValue,
    FeedbackEvent,
    TaskSelection,
    VerifierId,
    epoch_of,
    log_name,
)
from tests.support.mesh import VECTORS

VECTOR = VECTORS["behavior_batch"]


def entries(kind: type[Any], rows: list[list[Any]]) -> list[Any]:
    return [kind(*(bytes.fromhex(item) if isinstance(item, str) else item for item in row)) for row in rows]


def batch_of(fields: dict[str, Any]) -> BehaviorBatch:
    lists = {
        "bid_values": BidValue,
        "task_selections": TaskSelection,
        "verifier_ids": VerifierId,
        "feedback_events": FeedbackEvent,
    }
    values: dict[str, Any] = {
        name: entries(lists[name], value)
        if name in lists
        else bytes.fromhex(value)
        if isinstance(value, str)
        else value
        for name, value in fields.items()
        if not name.startswith("overflow")
    }
    return BehaviorBatch(**values)


BATCH = batch_of(VECTOR["fields"])


def test_a_batch_is_that_of_the_vectors() -> None:
    assert BATCH.encode().hex() == VECTOR["cbor_hex"]
    assert BATCH.hash().hex() == VECTOR["batch_hash"]
    assert list(cbor2.loads(BATCH.encode())) == VECTOR["key_order"]


def test_the_hash_of_all_entries_is_that_of_the_vectors() -> None:
    assert BATCH.lists_hash().hex() == VECTOR["overflow_hash_of_these_arrays"]


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("bid_values", BidValue(b"c", b"a", 1, 2)),
        ("task_selections", TaskSelection(b"c", b"a", 2)),
        ("verifier_ids", VerifierId(b"c", b"a", 2)),
        ("feedback_events", FeedbackEvent(b"c", b"a", 1, 2, 0, 2)),
    ],
)
def test_a_list_is_cut_and_all_of_it_is_hashed(name: str, entry: Any) -> None:
    full = structs.replace(BATCH, **{name: [entry] * MAX_ENTRIES})
    assert cbor2.loads(full.encode())["overflow"] is False
    over = structs.replace(BATCH, **{name: [entry] * (MAX_ENTRIES + 1)})
    written = cbor2.loads(over.encode())
    assert written[name] == [list(structs.astuple(entry))] * MAX_ENTRIES
    assert (written["overflow"], written["overflow_data_hash"]) == (True, over.lists_hash())
    assert over.lists_hash() != full.lists_hash()


@pytest.mark.parametrize(
    ("value", "written"),
    [(UINT64_MAX, UINT64_MAX), (UINT64_MAX + 1, 0), (-1 - UINT64_MAX, -1 - UINT64_MAX), (-2 - UINT64_MAX, 0)],
)
def test_bids_that_cbor_cannot_hold_are_zero(value: int, written: int) -> None:
    batch = structs.replace(BATCH, bid_values=[BidValue(b"c", b"a", value, 2)])
    assert cbor2.loads(batch.encode())["bid_values"][0][2] == written


def test_there_is_a_count_for_each_code() -> None:
    with pytest.raises(ValueError, match="16 counts"):
        structs.replace(BATCH, msg_type_counts=(0,) * 15).encode()


def test_an_epoch_is_a_day() -> None:
    assert epoch_of(VECTORS["constants"]["t0_unix_seconds"]) == 20454
    assert [epoch_of(seconds) for seconds in (0, 86_399, 86_400)] == [0, 0, 1]
    assert log_name(20454) == VECTORS["epoch_log"]["file_name"]
