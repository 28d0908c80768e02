"""Multiaddrs: text and bytes of the forms that the mesh needs."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p.faults import MalformedAddress
from moothall.p2p.multiaddr import MAX_TEXT, Multiaddr
from moothall.wire.mesh.peer_ids import peer_id

AGENT = bytes(range(32))
addresses = (
    st.builds(
        Multiaddr,
        st.just("ip4"),
        st.ip_addresses(v=4).map(str),
        st.integers(0, 65_535),
        st.none() | st.binary(min_size=32, max_size=32),
    )
    | st.builds(
        Multiaddr,
        st.just("ip6"),
        st.ip_addresses(v=6).map(str),
        st.integers(0, 65_535),
        st.none() | st.binary(min_size=32, max_size=32),
    )
    | st.builds(
        Multiaddr,
        st.sampled_from(["dns", "dns4", "dns6"]),
        st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z0-9]{1,20}){0,3}", fullmatch=True),
        st.integers(0, 65_535),
        st.none() | st.binary(min_size=32, max_size=32),
    )
)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("/ip4/127.0.0.1/tcp/9000", "047f000001062328"),
        ("/ip6/::1/tcp/4001", "2900000000000000000000000000000001060fa1"),
        ("/dns/example.com/tcp/443", "350b6578616d706c652e636f6d0601bb"),
        ("/dns4/example.com/tcp/443", "360b6578616d706c652e636f6d0601bb"),
        ("/dns6/example.com/tcp/443", "370b6578616d706c652e636f6d0601bb"),
        (
            f"/ip4/1.2.3.4/tcp/0/p2p/{peer_id(AGENT)}",
            "0401020304060000a50326002408011220" + AGENT.hex(),
        ),
    ],
)
def test_forms_written_out_by_hand(text: str, form: str) -> None:
    assert Multiaddr.parse(text).encode().hex() == form
    assert str(Multiaddr.decode(bytes.fromhex(form))) == text


@given(addresses)
def test_both_forms_say_the_same(address: Multiaddr) -> None:
    assert Multiaddr.parse(str(address)) == address
    assert Multiaddr.decode(address.encode()) == address


def test_the_former_name_of_p2p_is_read() -> None:
    assert Multiaddr.parse(f"/ip4/1.2.3.4/tcp/1/ipfs/{peer_id(AGENT)}").agent_id == AGENT


def test_addresses_of_sockets() -> None:
    assert str(Multiaddr.of_socket("127.0.0.1", 9000)) == "/ip4/127.0.0.1/tcp/9000"
    assert str(Multiaddr.of_socket("::1", 9000)) == "/ip6/::1/tcp/9000"
    assert str(Multiaddr.of_socket("hall.example", 1, AGENT)).startswith(
        "/dns/hall.example/tcp/1/p2p/12D3KooW"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "127.0.0.1:9000",
        "/ip4/127.0.0.1",
        "/ip4/127.0.0.1/udp/9000/quic-v1",
        "/ip4/127.0.0.1/tcp/9000/ws",
        "/ip4/127.0.0.1/tcp/9000/",
        "/ip4/127.0.0.1/tcp/65536",
        "/ip4/127.0.0.1/tcp/09",
        "/ip4/127.0.0.1/tcp/-1",
        "/ip4/127.0.0.1/tcp/٣",
        "/ip4/127.0.0.256/tcp/1",
        "/ip4/::1/tcp/1",
        "/ip6/fe80::1%eth0/tcp/1",
        "/dns//tcp/1",
        "/dns/a..b/tcp/1",
        "/dns/a b/tcp/1",
        "/dns/" + "a" * 254 + "/tcp/1",
        "/dns/" + "a-" * 60 + "!/tcp/1",
        "/ip4/1.2.3.4/tcp/1/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N",
        "/ip4/1.2.3.4/tcp/1/p2p/" + peer_id(AGENT) + "/p2p-circuit",
        "/ip4/1.2.3.4/tcp/1/p2p/" + peer_id(AGENT)[:-1],
        "/" * (MAX_TEXT + 1),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(MalformedAddress):
        Multiaddr.parse(text)


@given(st.binary(max_size=100))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    try:
        address = Multiaddr.decode(data)
    except MalformedAddress:
        return
    assert Multiaddr.decode(address.encode()) == address


@given(addresses, st.data())
def test_changed_bytes_are_refused_or_read(address: Multiaddr, data: st.DataObject) -> None:
    form = bytearray(address.encode())
    form[data.draw(st.integers(0, len(form) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedAddress):
        Multiaddr.parse(str(Multiaddr.decode(bytes(form))))


@given(addresses, st.integers(1, 30))
def test_a_form_that_is_cut_off_is_refused(address: Multiaddr, missing: int) -> None:
    form = address.encode()[:-missing]
    try:
        found = Multiaddr.decode(form)
    except MalformedAddress:
        return
    assert found == Multiaddr(address.kind, address.host, address.port)  # the peer id is missing as a whole


@given(st.text(max_size=60))
def test_random_texts_are_refused_or_read(text: str) -> None:
    for whole in (text, f"/dns/{text}/tcp/1", f"/ip6/{text}/tcp/1", f"/ip4/1.1.1.1/tcp/{text}"):
        try:
            address = Multiaddr.parse(whole)
        except MalformedAddress:
            continue
        assert Multiaddr.parse(str(address)) == address
