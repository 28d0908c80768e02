"""A transfer with a made-up clock: messages get lost, connections break, and it ends as it should."""

import re
from collections import deque
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moothall.files.control import Accept, Ack, Cancel, Chunk, Complete, Known, Offer, Reject
from moothall.files.lifecycle import RECEIVER, RECEIVER_ENDS, SENDER, SENDER_ENDS
from moothall.files.receiving import RECEIVE_TIMEOUT, Check, Receiving, SendAccept
from moothall.files.sending import MAX_STANDSTILL, OFFER_EXPIRY, Over, SendChunk, SendComplete, Sending, Wait

SHA = "ab" * 32


def an_offer(chunks: int = 4, *, resume: bool = True) -> Offer:
    return Offer("0123456789abcdef", [], 100, SHA, chunks, resume=resume)


# -- the sender alone ------------------------------------------------------------------------------------


def test_an_offer_expires() -> None:
    machine = Sending(an_offer(), 0.0)
    assert machine.step(0.0) == Wait(OFFER_EXPIRY)
    assert machine.step(OFFER_EXPIRY) == Over()
    assert machine.state == "expired"
    machine.hear(Accept("x"), OFFER_EXPIRY)
    assert machine.state == "expired"


def test_chunks_in_order_then_complete_then_ack() -> None:
    machine = Sending(an_offer(2), 0.0)
    machine.hear(Accept("x"), 1.0)
    for idx in (0, 1):
        assert machine.step(1.0) == SendChunk(idx)
        machine.taken(idx, 1.0)
    assert machine.step(1.0) == SendComplete()
    machine.completed(1.0)
    assert machine.step(1.0) == Wait(1.0 + MAX_STANDSTILL)
    machine.hear(Accept("x"), 2.0)  # an accept without `have` is the first one again
    assert machine.state == "sent"
    machine.hear(Ack("x", ok=True), 2.0)
    assert (machine.state, machine.step(2.0)) == ("delivered", Over())


def test_a_sender_gives_up_after_a_standstill() -> None:
    machine = Sending(an_offer(2), 0.0)
    machine.hear(Accept("x"), 1.0)
    assert machine.step(1.0 + MAX_STANDSTILL) == Over()
    assert (machine.state, machine.reason) == (
        "failed",
        "no progress for 120 s: the receiver does not answer",
    )


def test_a_receiver_that_asks_for_ever_is_stopped() -> None:
    machine = Sending(an_offer(2), 0.0)
    machine.hear(Accept("x", resume=True), 0.0)
    for _ in range(100):
        step = machine.step(0.0)
        if isinstance(step, SendChunk):
            machine.taken(step.idx, 0.0)
        machine.hear(Accept("x", resume=True, have=""), 0.0)
    assert (machine.state, machine.reason) == (
        "failed",
        "the receiver asks for the same chunks again and again",
    )


def test_a_receiver_cannot_make_a_sender_talk_all_the_time() -> None:
    machine = Sending(an_offer(1), 0.0)
    machine.hear(Accept("x", resume=True), 0.0)
    machine.taken(0, 0.0)
    told = []
    for tick in range(1000):
        now = tick / 100
        while isinstance(step := machine.step(now), SendComplete):
            told.append(now)
            machine.completed(now)
        assert isinstance(step, Wait)
        assert step.until > now
        machine.hear(Accept("x", resume=True, have="0"), now)
    assert told == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_a_receiver_that_lacks_nothing_and_never_acknowledges_is_a_standstill() -> None:
    """Otherwise it would keep the place of a transfer, and be told `complete` again, for ever."""
    machine = Sending(an_offer(2), 0.0)
    machine.hear(Accept("x"), 1000.0)
    for now in range(1000, 2000):
        step = machine.step(float(now))
        if isinstance(step, SendChunk):
            machine.taken(step.idx, now)
        elif isinstance(step, SendComplete):
            machine.completed(now)
        machine.hear(Accept("x", resume=True, have="0-1"), float(now))
    assert machine.state == "failed"


@pytest.mark.parametrize("message", [Reject("x", "no"), Ack("x", ok=False, error="no")])
def test_a_receiver_may_end_it_at_any_time(message: Known) -> None:
    for accepted in (False, True):
        machine = Sending(an_offer(), 0.0)
        if accepted:
            machine.hear(Accept("x"), 0.0)
        machine.hear(message, 0.0)
        assert machine.is_over
        assert machine.reason == "no"
        assert machine.state in ("rejected", "failed")


def test_an_ack_before_the_offer_was_accepted_counts_for_nothing() -> None:
    machine = Sending(an_offer(), 0.0)
    machine.hear(Ack("x", ok=True), 0.0)
    assert machine.state == "offered"


# -- the receiver alone ----------------------------------------------------------------------------------


def receive(machine: Receiving, *indices: int, now: float = 0.0) -> None:
    for idx in indices:
        if machine.wants(Chunk("x", idx, machine.offer.chunks, "")):
            machine.take(idx, now)


def test_all_chunks_and_complete_in_any_order() -> None:
    for complete_first in (False, True):
        machine = Receiving(an_offer(2, resume=False), 0.0)
        assert machine.step(0.0) == SendAccept(Accept("0123456789abcdef"))
        machine.asked(0.0)
        if complete_first:
            machine.hear(Complete("x", "CD" * 32), 1.0)
        receive(machine, 1, 0, 1)
        if not complete_first:
            assert machine.step(1.0) == Wait(RECEIVE_TIMEOUT)
            machine.hear(Complete("x", "CD" * 32), 1.0)
        assert machine.step(1.0) == Check("cd" * 32)
        assert not machine.cancel()
        machine.matched()
        assert machine.step(1.0) == Over()


def test_the_hash_of_the_offer_counts_if_complete_has_none() -> None:
    machine = Receiving(an_offer(1), 0.0)
    machine.asked(0.0)
    receive(machine, 0)
    machine.hear(Complete("x"), 0.0)
    assert machine.step(0.0) == Check(SHA)


def test_the_first_copy_wins_and_nonsense_is_not_wanted() -> None:
    machine = Receiving(an_offer(2), 0.0)
    assert machine.wants(Chunk("x", 1, 2, ""))
    machine.take(1, 0.0)
    assert not machine.wants(Chunk("x", 1, 2, ""))
    assert not machine.wants(Chunk("x", 2, 2, ""))
    assert not machine.wants(Chunk("x", 0, 3, ""))
    assert machine.chunks_here == 1


def test_a_receiver_gives_up_after_120_seconds() -> None:
    machine = Receiving(an_offer(2), 0.0)
    machine.asked(0.0)
    receive(machine, 0)
    assert machine.step(120.0) == Over()
    assert (machine.state, machine.reason) == ("failed", "timeout: 1 of 2 chunks are missing after 120 s")


def test_what_is_missing_is_asked_for() -> None:
    machine = Receiving(an_offer(5), 0.0)
    assert machine.step(0.0) == SendAccept(Accept("0123456789abcdef", resume=True))
    machine.asked(0.0)
    receive(machine, 0, 1, 3, now=1.0)
    assert machine.step(1.0) == Wait(11.0)
    machine.reconnected()
    assert machine.step(2.0) == SendAccept(Accept("0123456789abcdef", resume=True, have="0-1,3"))
    machine.asked(2.0)
    machine.hear(Complete("x"), 3.0)
    assert machine.step(3.0) == Wait(4.0)  # not more often than every two seconds
    assert isinstance(machine.step(4.0), SendAccept)


def test_a_sender_of_another_make_is_asked_once() -> None:
    machine = Receiving(an_offer(5, resume=False), 0.0)
    machine.asked(0.0)
    machine.reconnected()
    assert machine.step(50.0) == Wait(120.0)


def test_the_sender_takes_it_back() -> None:
    machine = Receiving(an_offer(), 0.0)
    machine.hear(Cancel("x"), 0.0)
    assert (machine.state, machine.reason) == ("cancelled", "cancelled by the sender")


# -- both, and a line that loses messages -----------------------------------------------------------------


class Transfers(RuleBasedStateMachine):
    """Whatever is lost, duplicated or late: what is checked is complete, and once the line holds it arrives."""

    @initialize(chunks=st.integers(1, 12), resume=st.booleans())
    def begin(self, chunks: int, resume: bool) -> None:
        self.now = 0.0
        offer = an_offer(chunks, resume=resume)
        self.sender = Sending(offer, 0.0)
        self.receiver = Receiving(offer, 0.0, timeout=10_000.0)
        self.to_sender: deque[Known] = deque()
        self.to_receiver: deque[Known] = deque()
        self.here: set[int] = set()
        self.checked = 0
        self.lossless = True

    def _sender_step(self) -> None:
        step = self.sender.step(self.now)
        if isinstance(step, SendChunk):
            self.to_receiver.append(Chunk("x", step.idx, self.sender.offer.chunks, ""))
            self.sender.taken(step.idx, self.now)
        elif isinstance(step, SendComplete):
            self.to_receiver.append(Complete("x", SHA))
            self.sender.completed(self.now)

    def _receiver_step(self) -> None:
        step = self.receiver.step(self.now)
        if isinstance(step, SendAccept):
            self.to_sender.append(step.message)
            self.receiver.asked(self.now)
        elif isinstance(step, Check):
            assert step.sha256 == SHA
            assert self.here == set(range(self.receiver.offer.chunks))
            self.checked += 1
            self.receiver.matched()
            self.to_sender.append(Ack("x", ok=True))

    def _hear(self) -> None:
        if self.to_sender:
            self.sender.hear(self.to_sender.popleft(), self.now)
        if self.to_receiver:
            message = self.to_receiver.popleft()
            if isinstance(message, Chunk):
                if self.receiver.wants(message):
                    self.here.add(message.idx)
                    self.receiver.take(message.idx, self.now)
            else:
                if isinstance(message, Complete) and self.receiver.state == "received":
                    self.to_sender.append(Ack("x", ok=True))  # as the client repeats it
                self.receiver.hear(message, self.now)

    @rule()
    def work(self) -> None:
        self._sender_step()
        self._receiver_step()
        self._hear()

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def repeat(self) -> None:
        for line in (self.to_sender, self.to_receiver):
            if line:
                line.append(line[0])

    @precondition(lambda self: self.receiver.offer.resume)
    @rule()
    def cut(self) -> None:
        """Everything under way is lost."""
        self.lossless = False
        self.to_sender.clear()
        self.to_receiver.clear()
        self.receiver.reconnected()

    @invariant()
    def an_end_is_an_end(self) -> None:
        if hasattr(self, "sender"):
            assert self.checked <= 1
            if self.sender.state == "delivered":
                assert self.receiver.state == "received"

    def teardown(self) -> None:
        if not hasattr(self, "sender") or self.sender.is_over:
            return
        for _ in range(400):  # the line holds from now on
            self.work()
            self.now += 0.5
        if self.sender.reason == "":
            assert (self.sender.state, self.receiver.state) == ("delivered", "received")
        else:
            assert self.sender.state == "failed"  # of a standstill, or asked too often


TestTransfers = Transfers.TestCase
TestTransfers.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


# -- the tables ----------------------------------------------------------------------------------------


def test_no_end_leads_anywhere() -> None:
    assert {"delivered", "rejected", "expired", "failed", "cancelled"} == SENDER_ENDS
    assert {"received", "failed", "cancelled"} == RECEIVER_ENDS


def test_the_diagrams_in_the_docs_are_the_tables() -> None:
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
    diagrams = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", page, re.DOTALL)
    drawn = [set(re.findall(r"^ +(\w+) --> (\w+): ([\w ]+)$", diagram, re.MULTILINE)) for diagram in diagrams]
    assert drawn == [
        {(state, to, event) for (state, event), to in table.items()} for table in (SENDER, RECEIVER)
    ]
