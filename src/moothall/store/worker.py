"""The store's own thread: what waits for the disk waits here, in order, and the event loop does not."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from moothall.hall.outside import Result


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
    """Collects entries and hands them to the thread together, one write at a time."""

    def __init__(
        self,
        thread: StoreThread,
        write: Callable[[list[tuple[str, bytes]]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._thread = thread
        self._write = write
        self._report = failed
        self._waiting: list[tuple[str, bytes]] = []
        self._writing = False

    def add(self, agent_id: str, raw: bytes) -> None:
        self._waiting.append((agent_id, raw))
        if not self._writing:
            self._start()

    def close(self) -> None:
        """Hand over what still waits behind a write; the thread must still be open."""
        if self._waiting:
            self._start()

    def _start(self) -> None:
        entries, self._waiting = self._waiting, []
        self._writing = True
        self._thread.submit(lambda: self._write(entries), self._done, self._failed)

    def _done(self, _: None) -> None:
        self._writing = False
        if self._waiting:
            self._start()

    def _failed(self, error: BaseException) -> None:
        self._report(error)
        self._done(None)
