"""Headers of yamux frames, written out by hand from its specification."""

import pytest

from moothall.p2p.yamux_frames import DATA, GO_AWAY, PING, SESSION, WINDOW_UPDATE, Flag, Why, header


@pytest.mark.parametrize(
    ("frame", "form"),
    [
        (header(DATA, Flag.SYN, 1, 5), "000000010000000100000005"),
        (header(DATA, Flag.FIN, 2, 0), "000000040000000200000000"),
        (header(WINDOW_UPDATE, Flag.ACK, 1, 131_072), "000100020000000100020000"),
        (header(WINDOW_UPDATE, Flag.RST, 7, 0), "000100080000000700000000"),
        (header(PING, Flag.SYN, SESSION, 0xCAFE), "00020001000000000000cafe"),
        (header(GO_AWAY, 0, SESSION, Why.PROTOCOL_ERROR), "000300000000000000000001"),
    ],
)
def test_headers(frame: bytes, form: str) -> None:
    assert frame.hex() == form
