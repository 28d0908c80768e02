"""One output of the command, read in its own time."""

import os

import pytest

from moothall.worker.guard.limits import Limits
from moothall.worker.guard.sieve import Sieve
from moothall.worker.guard.sink import PIPE, Sink
from moothall.worker.guard.stream import PAUSE, Stream
from moothall.worker.guard.usage import LineUsage
from moothall.worker.guard.watch import Source


class Bench:
    """A stream between two pipes."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.source = Source(LineUsage(), Limits())
        self.sink = Sink(self.writing)
        self.stream = Stream(self.sink, Sieve((b"tokens",), 1000), self.source)
        self.buffer = bytearray(PIPE)

    def pump(self, now: float) -> bool:
        return self.stream.may_read(now) and self.stream.pump(now, self.buffer)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_after_a_read_the_pipe_fills_up_for_a_moment(bench: Bench) -> None:
    os.write(bench.stream.inner, b"one\n")
    assert bench.pump(10)
    assert bench.stream.resume_at == 10 + PAUSE
    os.write(bench.stream.inner, b"two\n")
    assert not bench.pump(10 + PAUSE / 2)
    assert bench.pump(10 + PAUSE)
    assert os.read(bench.reading, 100) == b"one\ntwo\n"
    assert not bench.pump(20)
    assert bench.stream.resume_at is None


def test_a_full_pipe_is_read_at_once(bench: Bench) -> None:
    os.write(bench.stream.inner, b"x" * PIPE)
    assert bench.pump(10)
    assert bench.stream.resume_at == 10


def test_nothing_is_read_while_the_reader_is_behind(bench: Bench) -> None:
    for _ in range(2):
        os.write(bench.stream.inner, b"x" * PIPE)
        assert bench.pump(10)
    assert bench.sink.is_behind
    os.write(bench.stream.inner, b"more")
    assert not bench.pump(11)
    os.read(bench.reading, PIPE)
    bench.sink.flush()
    assert bench.pump(11)


def test_the_last_line_counts_at_the_end_of_the_output(bench: Bench) -> None:
    os.write(bench.stream.inner, b"Input tokens: 5")
    os.close(bench.stream.inner)
    assert bench.pump(10)
    assert bench.source.usage.tokens_in == 0
    assert not bench.pump(11)
    assert not bench.stream.is_open
    assert bench.source.usage.tokens_in == 5


def test_a_reader_that_is_gone_closes_it(bench: Bench) -> None:
    os.close(bench.reading)
    os.write(bench.stream.inner, b"x")
    assert bench.pump(10)
    assert not bench.stream.is_open
    assert bench.stream.resume_at is None
    with pytest.raises(BrokenPipeError):
        os.write(bench.stream.inner, b"x")
