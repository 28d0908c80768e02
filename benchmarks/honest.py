"""The honest side of the abuse benchmark: chat and deals by the clock, and how long each took.

    python -m benchmarks.honest PORT

says READY and the id of an agent that reads when all are in. Then it takes one line per window, the seconds it has,
and answers with one line of JSON. Each agent has an address of its own.
"""

import json
import re
import selectors
import sys
import threading
import time
from statistics import median
from typing import Any, Final

import msgspec

from benchmarks.agents import Client, key_of
from moothall.wire.agentchat import client, signing

CHANNEL: Final = "#general"
SPEAKERS: Final = 60
PAUSE: Final = 1.2  # seconds between two messages of one speaker: the hall allows one a second
PAIRS: Final = 10
DEAL_PAUSE: Final = 1.0  # seconds between the beginnings of two deals of one pair
LONGEST_MARK: Final = 40  # bytes
PROSE: Final = "The parser is done, and the tests that were red are green. " * 5

_MARK: Final = re.compile(rb'"content":"(<[0-9]+>)')


class Window(msgspec.Struct, frozen=True):
    """What was measured. Times are milliseconds."""

    messages: int
    lost: int
    chat_p50: float
    chat_p99: float
    deals: int
    deal_p50: float


class Chat:
    """Speakers that take turns by the clock, and one listener that tells how long each message took."""

    def __init__(self, port: int) -> None:
        self._speakers = [_arrive(port, number) for number in range(SPEAKERS)]
        self._listener = _arrive(port, SPEAKERS)
        self._sent: dict[str, float] = {}
        self._taken: list[float] = []
        self._rest = b""
        self._number = 0

    @property
    def listener_id(self) -> str:
        return self._listener.id

    def run(self, seconds: float) -> tuple[list[float], int]:
        """(milliseconds of each message that arrived, how many did not)"""
        self._sent.clear()
        self._taken.clear()
        selector = selectors.DefaultSelector()
        for speaker in self._speakers:
            speaker.sock.setblocking(False)
            selector.register(speaker.sock, selectors.EVENT_READ, None)
        self._listener.sock.setblocking(False)
        selector.register(self._listener.sock, selectors.EVENT_READ, self._listener)
        begin = time.perf_counter()
        end, next_turn = begin + seconds, begin
        while (now := time.perf_counter()) < end or (self._sent and now < end + 2.0):
            if now >= next_turn and now < end:
                self._speak()
                next_turn = now + PAUSE / SPEAKERS  # not made up for when late: the hall has a rate
                continue
            for key, _ in selector.select(max(0.0, min(next_turn, end) - now) if now < end else 0.05):
                if key.data is None:
                    key.fileobj.recv(1 << 20)  # type: ignore[union-attr]  # a socket
                else:
                    self._listen()
        selector.close()
        return self._taken, len(self._sent)

    def _speak(self) -> None:
        speaker = self._speakers[self._number % SPEAKERS]
        mark = f"<{self._number}>"
        self._number += 1
        self._sent[mark] = time.perf_counter()
        speaker.sock.setblocking(True)
        speaker.send(type="MSG", to=CHANNEL, content=f"{mark} {PROSE}")
        speaker.sock.setblocking(False)

    def _listen(self) -> None:
        now = time.perf_counter()
        data = self._rest + self._listener.sock.recv(1 << 20)
        end = 0
        for found in _MARK.finditer(data):
            end = found.end()
            sent = self._sent.pop(found[1].decode(), None)
            if sent is not None:
                self._taken.append((now - sent) * 1000)
        self._rest = data[max(end, len(data) - LONGEST_MARK) :]  # a mark may be cut in two


class Pair(threading.Thread):
    """Two agents that deal again and again, and how long each deal took."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(daemon=True)
        names = (f"proposer-{number}", f"acceptor-{number}")
        self._parties = [Client(port, f"198.51.100.{100 + 2 * number + side}") for side in (0, 1)]
        for party, name in zip(self._parties, names, strict=True):
            party.identify(name, key_of(name))
        self.taken: list[tuple[float, float]] = []  # (when it ended, milliseconds)

    def run(self) -> None:
        while True:
            begin = time.perf_counter()
            self._deal()
            now = time.perf_counter()
            self.taken.append((now, (now - begin) * 1000))
            time.sleep(max(0.0, begin + DEAL_PAUSE - now))

    def _deal(self) -> None:
        proposer, acceptor = self._parties
        offer = client.Proposal(to=acceptor.id, task="Read one page", sig="unsigned")
        proposer.send(
            type="PROPOSAL", to=offer.to, task=offer.task, sig=_sign(proposer, signing.proposal_text(offer))
        )
        deal = acceptor.wait_for("PROPOSAL")["proposal_id"]
        proposer.wait_for("PROPOSAL")
        accept = client.Accept(proposal_id=deal, sig="unsigned")
        acceptor.send(type="ACCEPT", proposal_id=deal, sig=_sign(acceptor, signing.accept_text(accept)))
        for party in self._parties:
            party.wait_for("ACCEPT")
        complete = client.Complete(proposal_id=deal, sig="unsigned")
        proposer.send(type="COMPLETE", proposal_id=deal, sig=_sign(proposer, signing.complete_text(complete)))
        for party in self._parties:
            party.wait_for("COMPLETE")


def _sign(party: Client, signed: str) -> str:
    assert party.key is not None
    return party.key.sign(signed)


def _arrive(port: int, number: int) -> Client:
    agent = Client(port, f"198.51.100.{1 + number}")
    agent.identify(f"honest-{number}")
    agent.join(CHANNEL)
    return agent


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main() -> None:
    port = int(sys.argv[1])
    chat = Chat(port)
    pairs = [Pair(port, number) for number in range(PAIRS)]
    for pair in pairs:
        pair.start()
    print("READY", chat.listener_id, flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        taken, lost = chat.run(float(line))
        deals = [ms for pair in pairs for ended, ms in list(pair.taken) if ended >= begin]
        window = Window(
            messages=len(taken),
            lost=lost,
            chat_p50=median(taken) if taken else float("inf"),
            chat_p99=percentile(taken, 0.99) if taken else float("inf"),
            deals=len(deals),
            deal_p50=median(deals) if deals else float("inf"),
        )
        answer: dict[str, Any] = msgspec.to_builtins(window)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
