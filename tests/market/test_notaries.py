"""Which agent becomes the notary: the pool, its order, and who must have asked."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from moothall.market.conversations import Conversation
from moothall.market.notaries import MAX_POOL, chosen, is_wanted

A, B, N = (letter * 32 for letter in (b"A", b"B", b"N"))
TALK = Conversation(
    id=bytes(range(16)), requester=A, provider=B, state="NEGOTIATING", amount=0, offered_by=A, max_rounds=2
)
keys = st.binary(min_size=32, max_size=32)
pools = st.lists(keys, max_size=10)


def test_no_offers_no_notary() -> None:
    assert chosen(TALK, (), ()) is None
    assert chosen(TALK, (A,), (B,)) is None


def test_the_index_is_the_first_eight_bytes_little_endian_modulo_the_size() -> None:
    pool = [bytes([number]) * 32 for number in range(1, 8)]
    talk = structs.replace(TALK, id=(9).to_bytes(8, "little") + b"\xff" * 8)
    assert chosen(talk, pool, ()) == pool[9 % 7]


@given(pools, pools)
def test_the_order_of_the_offers_does_not_matter(own: list[bytes], standing: list[bytes]) -> None:
    assert chosen(TALK, own, standing) == chosen(TALK, own[::-1], standing[::-1])


@given(pools, pools)
def test_the_notary_offered_itself_and_is_no_party(own: list[bytes], standing: list[bytes]) -> None:
    notary = chosen(TALK, [*own, A], [*standing, B])
    pool = {*own, *standing} - {A, B}
    assert (notary in pool) if pool else notary is None


def test_the_pool_has_a_hundred_agents_and_those_of_the_conversation_come_first() -> None:
    own = [bytes([number]) * 32 for number in range(MAX_POOL)]
    for number in range(200):
        talk = structs.replace(TALK, id=number.to_bytes(8, "little") + bytes(8))
        assert chosen(talk, own, [N]) in own


def test_a_party_asks_for_a_notary_and_the_requester_agrees() -> None:
    """It pays the notary, and a verdict may give its credits away. That the provider asked is not enough."""
    assert not is_wanted(TALK, A)
    assert not is_wanted(structs.replace(TALK, asked=(B,)), B)
    assert is_wanted(structs.replace(TALK, asked=(B,)), A)
    assert is_wanted(structs.replace(TALK, asked=(A,)), B)
    assert not is_wanted(structs.replace(TALK, asked=(A,), notary=N), B)
