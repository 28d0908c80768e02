"""Batches of signed messages: signatures are checked together, then messages are handled in the order of arrival.

A signature takes longer to check than everything else together, and libsodium does it outside the interpreter's
lock. So messages are gathered in batches, a few of each connection, and where the hall has a second processor, a
thread and the loop share the batch: each takes the next message that is unchecked. How large a batch is, and how
long the loop has for others after it, is its `Pace`. The wires share one of these, and so one share of the loop.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from moothall.hall.checking import Arrival, Source
from moothall.identity.signatures import verify
from moothall.settings import Settings


class Pace(NamedTuple):
    messages: int  # that the loop checks in one turn; twice as many, where a thread helps
    bytes: int  # of them
    share: int  # messages of one connection, before the next has its turn
    inbox: int  # bytes of one connection that were read and not looked at yet, before reading stops
    most: float  # seconds for the handling of a batch, before the rest is put off
    rest: float  # seconds until the next batch, if this one was at least half full


# A signature takes 60 us, and handling a message about 30 us more. Without limits, these wires have all they can
# get: a batch takes two to three milliseconds. With limits they have half a millisecond of a turn of the loop, and
# then they rest for one to two milliseconds, as timers go. So a flood from any number of connections takes about a
# third of the loop's time, and chat, which takes 0.7 ms when it is quiet, waits for less than that again. This
# leaves about 4,000 messages a second for all connections together, and twice as many with a second processor.
FULL_SPEED: Final = Pace(messages=32, bytes=512 * 1024, share=8, inbox=256 * 1024, most=inf, rest=0.0)
BESIDE_OTHERS: Final = Pace(messages=8, bytes=64 * 1024, share=2, inbox=0, most=0.0005, rest=0.001)

WORTH_SPLITTING: Final = 6  # messages: a thread is not woken for fewer


def pace_of(settings: Settings) -> Pace:
    return FULL_SPEED if settings.no_limits else BESIDE_OTHERS


class Batches:
    """Messages are taken from connections, checked, and handed back to them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pace: Pace) -> None:
        self._loop = loop
        self._pace = pace
        self._flushes: list[Callable[[], None]] = []
        self._ready: deque[Source] = deque()
        self._at_work = False  # a batch is being checked, or is about to be
        self._resting = False  # the next batch is put off
        self._helper = ThreadPoolExecutor(1, "signatures") if _processors() > 1 else None
        self._size = pace.messages * (2 if self._helper is not None else 1)

    def after_each(self, flush: Callable[[], None]) -> None:
        """Call this at the end of each batch."""
        self._flushes.append(flush)

    @property
    def is_at_work(self) -> bool:
        """True while received messages are being checked and handled."""
        return self._at_work

    def ready(self, source: Source) -> None:
        """The connection has something to be checked."""
        if source.listed:
            return
        source.listed = True
        self._ready.append(source)
        self._go_on()

    def _go_on(self) -> None:
        if self._ready and not self._at_work and not self._resting:
            self._at_work = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        batch = self._gather()
        helper = self._helper
        if helper is None or len(batch) < WORTH_SPLITTING:
            _check(batch)
            self._handle_all(batch)
            return
        unchecked = iter(batch)  # of which both take the next, until there is none

        def check_some() -> None:
            try:
                _check(unchecked)
            finally:
                self._loop.call_soon_threadsafe(self._handle_all, batch)

        helper.submit(check_some)
        # The loop hears that the thread is done no sooner than it is done itself.
        _check(unchecked)

    def _gather(self) -> list[Arrival]:
        batch: list[Arrival] = []
        size = 0
        ready = self._ready
        while ready and len(batch) < self._size and size < self._pace.bytes:
            source = ready.popleft()
            source.listed = False
            if source.held or source.closing:
                continue
            size += source.take(batch, self._pace.share)
            if source.has_waiting and not source.held:
                source.listed = True
                ready.append(source)
        return batch

    def _handle_all(self, batch: list[Arrival], begun: int = 0) -> None:
        """Handle a checked batch from there on, as long as the pace allows; the rest after a rest."""
        pace, loop = self._pace, self._loop
        end = loop.time() + pace.most
        next_one = begun
        try:
            for arrival in islice(batch, begun, None):
                next_one += 1
                source = arrival.source
                if source.held or source.checked:
                    source.checked.append(arrival)
                else:
                    source.handle(arrival)
                if pace.rest and loop.time() > end:
                    break
            for flush in self._flushes:
                flush()
        finally:
            if next_one < len(batch):
                loop.call_later(pace.rest, self._handle_all, batch, next_one)
            else:
                self._at_work = False
                if pace.rest and 2 * len(batch) >= self._size:
                    self._resting = True
                    loop.call_later(pace.rest, self._end_rest)
                self._go_on()

    def _end_rest(self) -> None:
        self._resting = False
        self._go_on()

    def close(self) -> None:
        if self._helper is not None:
            self._helper.shutdown()


def _check(arrivals: Iterable[Arrival]) -> None:
    for arrival in arrivals:
        proof = arrival.proof
        if proof is not None:
            arrival.valid = verify(proof.key, proof.message, proof.signature)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
