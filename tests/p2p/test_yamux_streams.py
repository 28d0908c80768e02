"""The frames that a stream sends, one by one."""

from moothall.p2p.yamux_frames import DATA, WINDOW_UPDATE, Flag, header
from moothall.p2p.yamux_streams import MAX_DATA, WINDOW, Stream


def test_the_first_frame_carries_syn_or_ack() -> None:
    ours, theirs = Stream(1, is_inbound=False), Stream(2, is_inbound=True)
    assert (ours.is_announced, theirs.is_announced) == (False, True)
    ours.queue += b"data"
    assert ours.frame(100) == (header(DATA, Flag.SYN, 1, 4) + b"data", 4)
    assert ours.is_announced
    assert theirs.frame(100) == (header(WINDOW_UPDATE, Flag.ACK, 2, 0), 0)
    assert not ours.has_frame
    assert not theirs.has_frame


def test_fin_follows_the_last_data() -> None:
    stream = Stream(1, is_inbound=False)
    stream.queue += b"abc"
    stream.can_send = False
    assert stream.frame(2) == (header(DATA, Flag.SYN, 1, 2) + b"ab", 2)
    assert stream.frame(2) == (header(DATA, 0, 1, 1) + b"c", 1)
    assert stream.frame(2) == (header(WINDOW_UPDATE, Flag.FIN, 1, 0), 0)
    assert stream.is_finished
    assert not stream.has_frame


def test_fin_goes_alone_if_there_are_no_data() -> None:
    stream = Stream(1, is_inbound=False)
    stream.can_send = False
    assert stream.frame(100) == (header(WINDOW_UPDATE, Flag.SYN | Flag.FIN, 1, 0), 0)


def test_a_frame_keeps_to_window_and_size() -> None:
    stream = Stream(1, is_inbound=False)
    stream.queue += bytes(WINDOW + 1)
    sizes = []
    while stream.has_frame:
        sizes.append(stream.frame(1 << 20)[1])
    assert sizes == [MAX_DATA] * (WINDOW // MAX_DATA)
    assert stream.send_window == 0
    stream.send_window += 1
    assert stream.frame(100)[1] == 1


def test_window_is_returned_in_halves() -> None:
    stream = Stream(2, is_inbound=True)
    stream.frame(100)
    stream.receive_window = 0
    stream.credit = WINDOW // 2 - 1
    assert not stream.has_frame
    stream.credit += 1
    assert stream.frame(100) == (header(WINDOW_UPDATE, 0, 2, WINDOW // 2), 0)
    assert stream.receive_window == WINDOW // 2
    stream.credit = WINDOW // 2
    stream.peer_finished = True
    assert not stream.has_frame
