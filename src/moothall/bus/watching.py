"""Follows the entries of a bucket through a consumer of JetStream that pushes them, in their order.

A consumer ends with its connection, or with the server that has it. Its messages are numbered, and it sends a
heartbeat while there are none. If a number or the heartbeat is missing, a new consumer begins with all entries that
there are. Entries that were known and are not among them were deleted meanwhile.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from moothall.bus.buckets import API_SECONDS, Buckets, is_marker
from moothall.bus.connection import Connection
from moothall.hall.cluster.bus import Bucket, Entry
from moothall.hall.outside import Log

IDLE_SECONDS: Final = 1.0  # between heartbeats of a consumer that has nothing to tell
SILENCE_SECONDS: Final = 4.0  # after which it is thought to be gone
FORGOTTEN_SECONDS: Final = 30.0  # after which NATS ends a consumer that no connection listens to
PAUSE_SECONDS: Final = 0.5  # before the next try

STATUS: Final = "Status"
STALLED: Final = "Nats-Consumer-Stalled"
LAST: Final = "Nats-Last-Consumer"


class Watch:
    def __init__(
        self,
        buckets: Buckets,
        bucket: Bucket,
        told: Callable[[Entry], None],
        ready: Callable[[], None],
        log: Log,
    ) -> None:
        self._buckets = buckets
        self._bucket = bucket
        self._told = told
        self._ready = ready
        self._log = log
        self._known: dict[str, int] = {}  # revisions by key
        self._is_ready = False
        self._task: asyncio.Task[None] | None = None
        self._look: _Look | None = None

    def rise(self, connection: Connection) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(connection))

    def fall(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._look is not None:
            self._look.end()
            self._look = None

    async def _run(self, connection: Connection) -> None:
        """Ends with the connection. nats-py may swallow a cancellation, so that alone would not do."""
        while self._task is asyncio.current_task():
            self._look = look = _Look(self, connection)
            try:
                await look.follow()
            except Exception as error:  # noqa: BLE001  # nats-py raises many kinds
                if not connection.is_closed:
                    self._log.warning("bus_watch_failed", bucket=self._bucket, error=repr(error))
            if self._task is asyncio.current_task():
                await asyncio.sleep(PAUSE_SECONDS)

    def consumer(self, inbox: str) -> ConsumerConfig:
        return ConsumerConfig(
            deliver_subject=inbox,
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
            filter_subject=self._buckets.all_subjects(self._bucket),
            ack_policy=AckPolicy.NONE,
            max_deliver=1,
            idle_heartbeat=IDLE_SECONDS,
            flow_control=True,
            inactive_threshold=FORGOTTEN_SECONDS,
            mem_storage=True,
            num_replicas=1,
        )

    @property
    def stream(self) -> str:
        return self._buckets.stream(self._bucket)

    def take(self, message: Msg, revision: int) -> str:
        """Tell of an entry. Returns its key."""
        key = self._buckets.key(message.subject)
        self._buckets.latest = max(self._buckets.latest, revision)
        if not is_marker(message.headers):
            self._known[key] = revision
            self._told(Entry(key, message.data, revision))
        elif self._known.pop(key, None) is not None:
            self._told(Entry(key, b"", revision))
        return key

    def complete(self, present: set[str]) -> None:
        """All entries that there are have been told."""
        for key in self._known.keys() - present:
            self._told(Entry(key, b"", self._known.pop(key) + 1))
        if not self._is_ready:
            self._is_ready = True
            self._ready()


class _Look:
    """One consumer: all entries, then the changes."""

    def __init__(self, watch: Watch, connection: Connection) -> None:
        self._is_over = False
        self._watch = watch
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._number = 0  # of the last message
        self._present: set[str] | None = set()  # keys, until all are known
        self._broken = asyncio.Event()

    def end(self) -> None:
        """Tell of nothing more."""
        self._is_over = True
        self._broken.set()

    async def follow(self) -> None:
        """Returns when messages are missing."""
        connection = self._connection
        inbox = connection.new_inbox()
        listening = await connection.subscribe(inbox, cb=self._receive)
        try:
            stream = connection.jetstream(timeout=API_SECONDS)
            made = await stream.add_consumer(self._watch.stream, self._watch.consumer(inbox))
            delivered = 0 if made.delivered is None else made.delivered.consumer_seq
            if (made.num_pending or 0) + delivered == 0:
                self._complete()
            self._heard = self._loop.time()
            while self._loop.time() < self._heard + SILENCE_SECONDS:
                with suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS):
                        await self._broken.wait()
                        return
        finally:
            self.end()
            if not connection.is_closed:
                await listening.unsubscribe()

    async def _receive(self, message: Msg) -> None:
        if self._is_over:
            return
        self._heard = self._loop.time()
        if message.headers is not None and message.headers.get(STATUS) == "100":
            await self._control(message.reply, message.headers)
            return
        about = message.metadata
        self._number += 1
        if about.sequence.consumer != self._number:
            self.end()
            return
        key = self._watch.take(message, about.sequence.stream)
        if self._present is not None:
            self._present.add(key)
            if about.num_pending == 0:
                self._complete()

    async def _control(self, reply: str, headers: dict[str, str]) -> None:
        """Flow control or a heartbeat: not an entry."""
        if goes_on := reply or headers.get(STALLED, ""):
            await self._connection.publish(goes_on)
        elif int(headers.get(LAST, self._number)) > self._number:
            self._broken.set()
        else:
            self._complete()  # what was to come has expired meanwhile

    def _complete(self) -> None:
        if self._present is not None:
            present, self._present = self._present, None
            self._watch.complete(present)
