"""What stands for an item of evidence, and how much of it there can be (agentchat wire 13.5)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.court.evidence import canonical_text, item_hash
from moothall.wire.agentchat import client, signing
from moothall.wire.agentchat.jstext import json_text
from tests.identity.vectors import ALICE, VECTORS

VECTOR = VECTORS["court_evidence"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
items = st.dictionaries(st.text(), json_values, max_size=5)


@pytest.mark.parametrize("number", range(len(VECTOR["items"])))
def test_items_hash_as_the_vectors(number: int) -> None:
    """Seed 000, submit evidence 3."""
    item, expected = VECTOR["items"][number], VECTOR["per_item"][number]
    assert canonical_text(item) == expected["canonical"]
    assert item_hash(item) == expected["hash"]


def test_the_signature_covers_the_items_as_the_vector() -> None:
    message = client.Evidence(
        dispute_id=VECTOR["dispute_id"], items=VECTOR["items"], statement="any", sig=VECTOR["sig"]
    )
    assert signing.evidence_text(message) == VECTOR["signing_text"]
    assert ALICE.public.verifies(signing.evidence_text(message), message.sig)


@given(items)
def test_the_order_in_which_keys_were_sent_does_not_matter(item: dict[str, object]) -> None:
    assert canonical_text(dict(reversed(item.items()))) == canonical_text(item)


@given(items)
def test_the_text_is_json_and_keeps_the_top_level(item: dict[str, object]) -> None:
    read = json.loads(canonical_text(item))
    assert list(read) == sorted(item, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    for key, value in item.items():
        if not isinstance(value, (dict, list)):
            assert read[key] == value


def test_keys_that_look_like_numbers_are_sorted_as_texts() -> None:
    """A list of keys, unlike an object, is not put in the order of array indices."""
    assert canonical_text({"2": 1, "10": {"2": 1, "10": 2}}) == '{"10":{"10":2,"2":1},"2":1}'


def test_keys_are_sorted_by_utf16_code_units() -> None:
    assert list(json.loads(canonical_text({"\uffff": 1, "\U00010000": 2}))) == ["\U00010000", "\uffff"]


names = st.sampled_from(["a", "b", "10", "2", "\uffff", "\U00010000", "\ud800", "long name"])
nested_values = st.recursive(
    st.none() | st.integers(-9, 9) | st.floats(allow_nan=False) | names,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5),
    max_leaves=25,
)


def plainly(value: object, keys: list[str]) -> str:
    """The definition: every object is asked for every key of the item."""
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{json_text(key)}:{plainly(value[key], keys)}" for key in keys if key in value)
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(plainly(element, keys) for element in value) + "]"
    return json_text(value)


@given(st.dictionaries(names, nested_values, max_size=8))
def test_the_text_is_that_of_the_definition(item: dict[str, object]) -> None:
    keys = sorted(item, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    assert canonical_text(item) == plainly(item, keys)


class Key(str):
    """A key that counts how often it is looked up or put anywhere."""

    __slots__ = ()
    lookups = 0

    def __hash__(self) -> int:
        Key.lookups += 1
        return super().__hash__()


def work(size: int) -> int:
    """For an item of so many keys, with as many objects inside it."""
    item: dict[str, object] = {Key(f"k{number}"): None for number in range(size)}
    item[Key("k0")] = [{Key("k1"): {}, Key("not there"): 1} for _ in range(size)]
    Key.lookups = 0
    assert canonical_text(item).count("{") == 2 * size + 1
    return Key.lookups


def test_the_work_grows_with_the_item_and_not_with_its_square() -> None:
    """A frame of 256 KB once took 14 s: every object inside was asked for every key of the item."""
    once, twice = work(500), work(1000)
    assert once < 20 * 500
    assert twice <= 2 * once + 20


def test_a_text_of_any_depth_is_built() -> None:
    deep: object = 1
    for _ in range(5000):
        deep = {"a": [deep]}
    assert canonical_text({"a": deep}).count("[") == 5000
