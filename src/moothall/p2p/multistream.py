"""multistream-select 1.0: two peers agree on the protocol of a connection or stream.

A line is its length as a varint, a text, and a newline. Both sides send the header first. The initiator proposes
protocols one by one; the responder repeats the one it takes, and answers `na` to others. What follows the agreed
line belongs to the protocol.

The initiator sends the header and its first proposal together, as rust-libp2p and js-libp2p do. If it has one
proposal only, nothing but a refusal can follow, so it may send data of the protocol at once (`may_write`): one
round trip less. It should not finish the stream before the answer: js-libp2p loses an end that comes before its
handler. The responder answers whatever has arrived in one piece.
"""

from collections.abc import Collection, Sequence
from typing import Final

from moothall.p2p import varint
from moothall.p2p.faults import MalformedMessage, NegotiationFailed

HEADER: Final = "/multistream/1.0.0"
NOT_AVAILABLE: Final = "na"
MAX_LINE: Final = 1024  # bytes with the newline, as js-libp2p has it; rust-libp2p takes 16,383
_LENGTH_BYTES: Final = 2  # of the longest line
MAX_PROPOSALS: Final = 32  # that a responder answers with `na` before it gives up


def line(text: str) -> bytes:
    """Raises ValueError if the text does not fit on a line."""
    octets = text.encode() + b"\n"
    if len(octets) > MAX_LINE or b"\n" in octets[:-1]:
        raise ValueError(f"a line of multistream-select has at most {MAX_LINE} bytes, and one newline")
    return varint.encode(len(octets)) + octets


class _Lines:
    """Cuts what arrives into lines. Keeps what may belong to the next one, which the agreed protocol may own."""

    def __init__(self) -> None:
        self._buffer = b""

    def receive(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> str | None:
        """The next line, or None if its end is missing. Raises NegotiationFailed."""
        try:
            head = varint.read(self._buffer, widest=_LENGTH_BYTES)
        except MalformedMessage as fault:
            raise NegotiationFailed(str(fault)) from None
        if head is None:
            return None
        size, start = head
        if not 0 < size <= MAX_LINE:
            raise NegotiationFailed(
                f"the peer does not speak libp2p: a line of {size:,} bytes; lines have 1 to {MAX_LINE:,}"
            )
        if start + size > len(self._buffer):
            return None
        octets = self._buffer[start : start + size]
        self._buffer = self._buffer[start + size :]
        if octets[-1:] != b"\n":
            raise NegotiationFailed("the peer does not speak libp2p: a line does not end with a newline")
        try:
            return octets[:-1].decode()
        except UnicodeDecodeError:
            raise NegotiationFailed("a line is not UTF-8") from None

    def rest(self) -> bytes:
        rest, self._buffer = self._buffer, b""
        return rest


class Initiator:
    """Proposes protocols, best first. Send `start()` before anything else.

    `agreed` is the protocol, once the responder took one. From then on `rest()` has what arrived behind it.
    """

    def __init__(self, proposals: Sequence[str]) -> None:
        if not proposals:
            raise ValueError("there is no protocol to propose")
        self._proposals = list(proposals)
        self._lines = _Lines()
        self._greeted = False
        self.agreed: str | None = None

    @property
    def may_write(self) -> bool:
        """True if data of the protocol may be sent now, behind what `start` and `receive` gave."""
        return self.agreed is not None or len(self._proposals) == 1

    def start(self) -> bytes:
        return line(HEADER) + line(self._proposals[0])

    def receive(self, data: bytes) -> bytes:
        """Takes what the responder sent; returns what to send next. Raises NegotiationFailed."""
        self._lines.receive(data)
        if self.agreed is not None:
            return b""
        answer = b""
        while (text := self._lines.next()) is not None:
            if not self._greeted:
                if text != HEADER:
                    raise NegotiationFailed("the peer does not speak multistream-select 1.0")
                self._greeted = True
            elif text == self._proposals[0]:
                self.agreed = text
                break
            elif text != NOT_AVAILABLE:
                raise NegotiationFailed("the peer took a protocol that was not proposed")
            elif len(self._proposals) == 1:
                raise NegotiationFailed(f"the peer does not speak {self._proposals[0]}")
            else:
                del self._proposals[0]
                answer += line(self._proposals[0])
        return answer

    def rest(self) -> bytes:
        return self._lines.rest()


class Responder:
    """Takes the first proposal that is among `protocols`.

    `agreed` is the protocol, once one was taken. From then on `rest()` has what arrived behind it.
    """

    def __init__(self, protocols: Collection[str]) -> None:
        self._protocols = protocols
        self._lines = _Lines()
        self._greeted = False
        self._refused = 0
        self.agreed: str | None = None

    def receive(self, data: bytes) -> bytes:
        """Takes what the initiator sent; returns what to send next. Raises NegotiationFailed."""
        self._lines.receive(data)
        answer = b""
        while self.agreed is None and (text := self._lines.next()) is not None:
            if not self._greeted:
                if text != HEADER:
                    raise NegotiationFailed("the peer does not speak multistream-select 1.0")
                self._greeted = True
                answer += line(HEADER)
            elif text in self._protocols:
                self.agreed = text
                answer += line(text)
            else:
                self._refused += 1
                if self._refused > MAX_PROPOSALS:
                    raise NegotiationFailed(f"the peer proposed more than {MAX_PROPOSALS} protocols")
                answer += line(NOT_AVAILABLE)
        return answer

    def rest(self) -> bytes:
        return self._lines.rest()
