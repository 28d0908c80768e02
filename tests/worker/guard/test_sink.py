"""Where output goes: to any kind of reader, without waiting for it."""

import os
import pty
import socket
from pathlib import Path

import pytest

from moothall.worker.guard.sink import PIPE, Sink


def write(sink: Sink, data: bytes) -> None:
    with memoryview(data) as block:
        sink.write(block)


def test_what_a_pipe_does_not_take_is_kept_and_goes_later() -> None:
    reading, writing = os.pipe()
    sink = Sink(writing)
    data = os.urandom(PIPE + 100_000)
    write(sink, data)
    has_more = sink.is_behind
    assert has_more
    write(sink, b"more")
    found = b""
    while sink.is_behind:
        found += os.read(reading, 1 << 20)
        sink.flush()
    while len(found) < len(data) + 4:
        found += os.read(reading, 1 << 20)
    assert found == data + b"more"
    for descriptor in (reading, writing, sink.descriptor):
        os.close(descriptor)


def test_the_descriptor_of_others_stays_blocking() -> None:
    reading, writing = os.pipe()
    sink = Sink(writing)
    assert os.get_blocking(writing)
    assert not os.get_blocking(sink.descriptor)
    for descriptor in (reading, writing, sink.descriptor):
        os.close(descriptor)


def test_a_reader_that_is_gone_breaks_it() -> None:
    reading, writing = os.pipe()
    sink = Sink(writing)
    write(sink, b"x" * (PIPE + 1))
    os.close(reading)
    sink.flush()
    assert sink.is_broken
    assert not sink.is_behind
    write(sink, b"y")
    assert not sink.is_behind
    os.close(writing)
    os.close(sink.descriptor)


def test_a_full_disk_breaks_it() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    sink = Sink(full)
    write(sink, b"x")
    assert sink.is_broken
    os.close(full)
    os.close(sink.descriptor)


def test_a_file_is_appended_to_where_it_is(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(b"before ")
        file.flush()
        sink = Sink(file.fileno())
        write(sink, b"after")
    assert (tmp_path / "file").read_bytes() == b"before after"


def test_a_socket_is_never_waited_for() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sink = Sink(ours.fileno())
        data = os.urandom(1 << 20)
        write(sink, data)
        assert sink.is_behind
        assert os.get_blocking(ours.fileno())
        found = b""
        while len(found) < len(data):
            found += theirs.recv(1 << 20)
            sink.flush()
        assert found == data


def test_a_terminal() -> None:
    leader, follower = pty.openpty()
    sink = Sink(follower)
    write(sink, b"hello")
    assert os.read(leader, 100) == b"hello"
    for descriptor in (leader, follower, sink.descriptor):
        os.close(descriptor)


def test_a_closed_descriptor_is_told() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    with pytest.raises(OSError, match="Bad file descriptor"):
        Sink(writing)
