"""The registry of `hall/cluster/bus.py`: key-value buckets of JetStream.

An entry is changed by a message to its subject that names the last revision of that subject. JetStream refuses it
if there is a later one. Entries are read at the leader of the bucket, which has what was written last.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final, TypeVar

from nats.js.api import Header
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from moothall.bus.buckets import API_SECONDS, MARKER_TTL, OPERATION, WRONG_LAST, Buckets, is_marker
from moothall.bus.connection import Connection
from moothall.bus.watching import Watch
from moothall.errors import BusDown
from moothall.hall.cluster.bus import Bucket, Entry, Failed, Stop
from moothall.hall.outside import Log

ANSWER_SECONDS: Final = 4.0
MOST_CALLS: Final = 20_000  # under way; more of them would only wait until they fail

Result = TypeVar("Result")


class NatsRegistry:
    def __init__(self, buckets: Buckets, log: Log) -> None:
        self._buckets = buckets
        self._log = log
        self._connection: Connection | None = None
        self._calls: dict[int, tuple[asyncio.Task[None], Failed]] = {}
        self._numbers = count()
        self._watches: list[Watch] = []
        self._mending: asyncio.Task[None] | None = None

    def get(self, bucket: Bucket, key: str, done: Callable[[Entry | None], None], failed: Failed) -> None:
        subject = self._buckets.subject(bucket, key)

        async def ask(connection: Connection) -> Entry | None:
            revision, value = await self._last(connection, bucket, subject)
            return Entry(key, value, revision) if value else None

        self._ask(ask, done, failed)

    def put(
        self,
        bucket: Bucket,
        key: str,
        value: bytes,
        revision: int,
        done: Callable[[int | None], None],
        failed: Failed,
    ) -> None:
        if not value:
            raise ValueError("an entry has a value; `delete` deletes it")
        subject = self._buckets.subject(bucket, key)

        async def ask(connection: Connection) -> int | None:
            new = await self._write(connection, subject, value, revision)
            if new is None and revision == 0:
                marker, found = await self._last(connection, bucket, subject)
                if not found:
                    new = await self._write(connection, subject, value, marker)
            return new

        self._ask(ask, done, failed)

    def delete(
        self, bucket: Bucket, key: str, revision: int, done: Callable[[bool], None], failed: Failed
    ) -> None:
        subject = self._buckets.subject(bucket, key)

        async def ask(connection: Connection) -> bool:
            headers = {OPERATION: "DEL", Header.MSG_TTL.value: str(MARKER_TTL)}
            return await self._write(connection, subject, b"", revision, headers) is not None

        self._ask(ask, done, failed)

    def watch(self, bucket: Bucket, told: Callable[[Entry], None], ready: Callable[[], None]) -> Stop:
        watch = Watch(self._buckets, bucket, told, ready, self._log)
        self._watches.append(watch)
        if self._connection is not None:
            watch.rise(self._connection)

        def stop() -> None:
            if watch in self._watches:
                self._watches.remove(watch)
                watch.fall()

        return stop

    # -- for the bus -------------------------------------------------------------------------------

    def rise(self, connection: Connection) -> None:
        self._connection = connection
        for watch in self._watches:
            watch.rise(connection)

    async def finish(self) -> None:
        """Return when all calls under way have been answered."""
        while self._calls:
            await asyncio.wait([task for task, _ in self._calls.values()])

    def fall(self) -> None:
        """All calls under way fail."""
        self._connection = None
        if self._mending is not None:
            self._mending.cancel()
        for watch in self._watches:
            watch.fall()
        calls, self._calls = self._calls, {}
        loop = asyncio.get_running_loop()
        for task, failed in calls.values():
            task.cancel()
            loop.call_soon(failed, BusDown("the bus went down before it answered"))

    # -- calls -------------------------------------------------------------------------------------

    def _ask(
        self,
        ask: Callable[[Connection], Awaitable[Result]],
        done: Callable[[Result], None],
        failed: Failed,
    ) -> None:
        """Answers exactly once, and never before this returns."""
        loop = asyncio.get_running_loop()
        connection = self._connection
        if connection is None:
            loop.call_soon(failed, BusDown("the bus is down"))
        elif len(self._calls) >= MOST_CALLS:
            loop.call_soon(failed, BusDown("too many questions to the registry are under way"))
        else:
            number = next(self._numbers)
            task = loop.create_task(self._answer(number, connection, ask, done, failed))
            self._calls[number] = task, failed

    async def _answer(
        self,
        number: int,
        connection: Connection,
        ask: Callable[[Connection], Awaitable[Result]],
        done: Callable[[Result], None],
        failed: Failed,
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                result = await ask(connection)
        except Exception as error:  # noqa: BLE001  # always answer, or the caller waits for ever
            if self._calls.pop(number, None) is not None:
                loop.call_soon(failed, error)
            if isinstance(error, NoStreamResponseError) and self._mending is None:
                self._mending = loop.create_task(self._mend(connection))
        else:
            if self._calls.pop(number, None) is not None:
                loop.call_soon(done, result)

    async def _mend(self, connection: Connection) -> None:
        """A bucket has no leader, or it was deleted: then it is made again."""
        try:
            await self._buckets.prepare(connection)
        except Exception as error:  # noqa: BLE001  # nats-py raises many kinds
            self._log.warning("bus_bucket_missing", error=str(error))
        finally:
            self._mending = None

    async def _last(self, connection: Connection, bucket: Bucket, subject: str) -> tuple[int, bytes]:
        """The revision and the value; an empty value if there is no entry, or a marker in its place."""
        stream = connection.jetstream(timeout=API_SECONDS)
        try:
            message = await stream.get_msg(self._buckets.stream(bucket), subject=subject)
        except NotFoundError:
            return 0, b""
        revision = message.seq or 0
        self._buckets.latest = max(self._buckets.latest, revision)
        return revision, b"" if is_marker(message.headers) else message.data or b""

    async def _write(
        self,
        connection: Connection,
        subject: str,
        value: bytes,
        revision: int,
        headers: dict[str, str] | None = None,
    ) -> int | None:
        """The new revision, or None if the last one was another."""
        expected = {Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(revision)}
        try:
            stored = await connection.jetstream().publish(
                subject, value, timeout=API_SECONDS, headers=expected | (headers or {})
            )
        except APIError as error:
            if error.err_code in WRONG_LAST:
                return None
            raise
        self._buckets.latest = max(self._buckets.latest, stored.seq)
        return stored.seq
