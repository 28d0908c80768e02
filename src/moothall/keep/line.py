"""One blocking connection that several threads may use at once.

No thread reads in the background. One waiting thread reads for all; the others wait until
it has read a packet, and look whether it was theirs. So a callback of `listen` may itself ask the server, and
another thread may do so while `listen` runs.
"""

import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final, TypeVar

from moothall.keep.sorting import Sorting
from moothall.wire.keep.codec import MalformedPacket, decode, encode
from moothall.wire.keep.frames import FrameReader, frame
from moothall.wire.keep.packet import Packet

READ_SIZE: Final = 64 * 1024

Found = TypeVar("Found")


class Line:
    def __init__(self, host: str, port: int, timeout: float | None, news: deque[Packet]) -> None:
        self._socket = socket.create_connection((host, port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Reading waits here and not in the socket, whose one timeout is for writing.
        self._readable = select.poll()
        self._readable.register(self._socket, select.POLLIN)
        self._frames = FrameReader()
        self._sorting = Sorting()
        self._news = news
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._is_read = False
        self._heard = monotonic()
        self._ended = ""  # why, once it has

    @property
    def is_open(self) -> bool:
        return not self._ended

    def close(self, why: str = "the connection was closed") -> None:
        with self._changed:
            self._ended = self._ended or why
            self._changed.notify_all()
        with suppress(OSError):  # the peer was faster
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
        self._socket.close()

    def write(self, *packets: Packet) -> None:
        content = b"".join(frame(encode(packet)) for packet in packets)
        if self._ended:
            raise ConnectionError(self._ended)
        with self._writing:
            try:
                self._socket.sendall(content)
            except OSError as error:
                self.close(str(error))  # part of it may be out, and no next frame would be understood
                raise

    def ask(self, question: Packet, timeout: float | None) -> Packet:
        """The answer. A packet that is not it becomes news."""
        answers: list[Packet] = []
        with self._changed:
            self._sorting.expect(question, answers.append)
        try:
            self.write(question)
            return self._until(lambda: answers[0] if answers else None, _at(timeout))
        finally:
            with self._changed:
                self._sorting.give_up(question)

    def deliver(self, message: Packet, check: Packet, window: float, timeout: float | None) -> Packet | None:
        """What became of a message: an error, an answer within the window, or None.

        A forward is not acknowledged, but packets of one connection are handled in order (keep wire 1): once
        the server has answered `check`, which follows the message, it would have said that the agent is offline.
        """
        answers: list[Packet] = []
        checks: list[Packet] = []
        with self._changed:
            self._sorting.expect(message, answers.append)
            self._sorting.expect(check, checks.append)
        try:
            self.write(message, check)
            self._until(lambda: answers or checks or None, _at(timeout))
            return answers[0] if answers else self._answer_within(window, answers)
        finally:
            with self._changed:
                self._sorting.give_up(message)
                self._sorting.give_up(check)

    def _answer_within(self, window: float, answers: list[Packet]) -> Packet | None:
        try:
            return self._until(lambda: answers[0] if answers else None, _at(window))
        except (TimeoutError, ConnectionError):
            return None  # no answer, but the message is on its way

    def next_news(self, gap: float | None) -> Packet | None:
        """None when nothing at all arrived for so long, or nothing more will (keep wire 10, listen)."""
        begun = monotonic()

        def deadline() -> float | None:
            return None if gap is None else max(begun, self._heard) + gap

        try:
            return self._until(lambda: self._news.popleft() if self._news else None, deadline)
        except (TimeoutError, ConnectionError):
            return None

    def _until(self, find: Callable[[], Found | None], deadline: Callable[[], float | None]) -> Found:
        while True:
            with self._changed:
                while True:
                    found = find()
                    if found is not None:
                        return found
                    if self._ended:
                        raise ConnectionError(self._ended)
                    left = _left(deadline())
                    if not self._is_read:
                        break
                    self._changed.wait(left)
                self._is_read = True
            self._read(left)

    def _read(self, left: float | None) -> None:
        """Read for all threads, for at most `left` seconds."""
        payloads: list[bytes] = []
        ended = ""
        try:
            payloads = self._receive(left)
        except OSError as error:
            ended = str(error)
        finally:
            with self._changed:
                self._is_read = False
                self._ended = self._ended or self._sort(payloads) or ended
                self._changed.notify_all()

    def _receive(self, left: float | None) -> list[bytes]:
        if self._frames.broken:
            raise ConnectionError("the server sent a frame with a length that no packet has")
        if not self._readable.poll(None if left is None else max(1, left * 1000)):
            return []
        content = self._socket.recv(READ_SIZE)
        if not content:
            raise ConnectionError("the server closed the connection")
        return self._frames.feed(content)

    def _sort(self, payloads: list[bytes]) -> str:
        """What is wrong with one of them, if anything is; those before it count."""
        for payload in payloads:
            self._heard = monotonic()
            try:
                news = self._sorting.sort(decode(payload))
            except MalformedPacket as error:
                return f"the server sent something else than a packet: {error}"
            if news is not None:
                self._news.append(news)
        return ""


def _at(timeout: float | None) -> Callable[[], float | None]:
    moment = None if timeout is None else monotonic() + timeout
    return lambda: moment


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
