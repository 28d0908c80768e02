"""The store's own thread: what waits for the disk waits here, in order, and the event loop does not."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from moothall.hall.outside import Result

BATCH_SECONDS: Final = 0.25
RETRY_SECONDS: Final = 10.0  # after a write that failed
MOST_WAITING: Final = 100_000  # entries, while nothing can be written; the oldest are given up first


class StoreThread:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")

    def submit(
        self,
        work: Callable[[], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def report(future: Future[Result]) -> None:
            error = future.exception()
            if error is not None:
                self._loop.call_soon_threadsafe(failed, error)
            else:
                self._loop.call_soon_threadsafe(done, future.result())

        self._thread.submit(work).add_done_callback(report)

    def close(self) -> None:
        """Finish what was submitted."""
        self._thread.shutdown(wait=True)


class Batch:
    """Collects entries for a moment and hands them to the thread together, one write at a time.

    A crowd that arrives after a restart costs a few writes a second this way, not one for each newcomer. What could
    not be written is tried again later: nobody else remembers it.
    """

    def __init__(
        self,
        thread: StoreThread,
        write: Callable[[list[tuple[str, bytes]]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = thread
        self._write = write
        self._report = failed
        self._waiting: list[tuple[str, bytes]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def add(self, agent_id: str, raw: bytes) -> None:
        self._waiting.append((agent_id, raw))
        if self._timer is None:
            self._timer = self._loop.call_later(BATCH_SECONDS, self._hand_over)

    def close(self) -> None:
        """Hand over what still waits; the thread must still be open."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._hand_over()

    def _hand_over(self) -> None:
        entries, self._waiting = self._waiting, []
        self._timer = None

        def failed(error: BaseException) -> None:
            self._report(error)
            if not self._closed:
                self._waiting = [*entries, *self._waiting][-MOST_WAITING:]
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_later(RETRY_SECONDS, self._hand_over)

        self._thread.submit(lambda: self._write(entries), lambda _: None, failed)
