"""One channel on one node, as the home of the channel, or as a node that goes on alone.

A new home first hears from all nodes with members how much of the log they have, and borrows what it lacks. A node
has gone apart if no home knows its last records. It takes the state of the home, and all members are told of a gap.

While a node does not reach the others, it goes on alone.
"""

from typing import Final, TypeVar

from moothall.hall.cluster.log import (
    Answer,
    Expect,
    Follow,
    Happened,
    Lend,
    Lent,
    Missed,
    Record,
    Snapshot,
    Submit,
    Tip,
    Unfollow,
)
from moothall.hall.cluster.replicas import RESEND_SECONDS, Replica, Role, Sender
from moothall.wire.bus import Origin

ELECTION_SECONDS: Final = 1.0  # that a new home waits for nodes that do not answer
MAX_ANSWERS: Final = 64  # of one node, that are kept in case they were lost
# Of an answer that is kept. A state has all of them. What has a longer one is a list, and is asked for again.
LONG_ANSWER: Final = 4096  # bytes
MAX_EPOCHS: Final = 16  # of which a home knows the end
Kept = TypeVar("Kept", bytes, None)
TIPS: Final = 3  # how often followers are told the last number, because the message may be lost


class ChannelLog(Replica):
    @property
    def is_at_rest(self) -> bool:
        """True of a home that no other node follows, and that waits for nothing."""
        return self.role is Role.HOME and not (self.followers or self._pending or self._tips)

    # -- as the home -------------------------------------------------------------------------------

    def take_over(self, epoch: int, former: str | None) -> None:
        """This node is home in this epoch. `former` is the node that was it before, if another one was."""
        if self.role in (Role.ELECTED, Role.HOME) and self.epoch == epoch:
            return
        if self.role is Role.RESIGNING and self.epoch == epoch:
            self.stay()
            return
        self._was_given_up = False
        self._stop_deciding()
        self.home, self.epoch = None, epoch
        self._early.clear()
        if self._stop is None:
            self._stop = self._outlook.listen(self.name)
        self.role = Role.ELECTED
        self._apart = self._apart or self._is_broken
        self._elected_at = self._outlook.now()
        self._awaited = {node for node in self.room.member_nodes() if self._is_other(node)}
        if former is not None and self._is_other(former):
            self._awaited.add(former)
        foretold, self._foretold = self._foretold, {}
        self._asking = {node: follow for node, follow in foretold.items() if follow.epoch == epoch}
        self._awaited -= self._asking.keys()
        self._look_at_answers()

    def _is_other(self, node: str) -> bool:
        return node != self._outlook.me.node and self._outlook.is_alive(node)

    def _look_at_answers(self) -> None:
        """Borrow what another node has more of the log, then begin."""
        if self.role is not Role.ELECTED or self._awaited or self._borrowing is not None:
            return
        best = self._best()
        if best is None:
            self._begin()
            return
        self._borrowing = best
        self._borrowed_at = self._outlook.now()
        self._ask_lender()

    def _ask_lender(self) -> None:
        if self._borrowing is None:
            return
        message = Lend(self.name, self.epoch, self._known_epoch, self._ring.last, self._apart)
        self._outlook.send(self._borrowing, message)

    def _best(self) -> str | None:
        """The node that has most of the log, if it has more than this one. One that went apart has none of it."""
        most = (0, 0) if self._apart else (self._known_epoch, self._ring.last)
        found = None
        for node, follow in self._asking.items():
            has = (follow.last_epoch, follow.number)
            if not follow.apart and self._outlook.is_alive(node) and has > most:
                most, found = has, node
        return found

    def lent(self, origin: Origin, message: Lent) -> None:
        if self.role is not Role.ELECTED or origin.node != self._borrowing or message.epoch != self.epoch:
            return
        self._borrowing = None
        own = None
        if message.records is None:
            own = self.room.own() if self.has_replica or self._apart else None
            try:
                self._install(message)
            except Exception as error:  # noqa: BLE001  # whatever it is, the election goes on without this state
                self._outlook.failed(self.name, error)
                self._asking.pop(origin.node, None)
                self._break()
        else:
            self._ends = dict(message.ends)
            for record in message.records:
                self._take(record)
            own = self.room.own() if self.room.has_lost else None
        self.room.has_lost = False
        self._known_epoch = message.last_epoch
        if own is not None:
            me = self._outlook.me.node
            self._asking[me] = Follow(self.name, self.epoch, 0, 0, own, apart=True)
        self._look_at_answers()

    def _begin(self) -> None:
        # Only dead nodes may know the last records, or those of an epoch in between.
        has_missed = (
            self._apart
            or self._is_unsure
            or 0 < self._known_epoch < self.epoch - 1
            or any(self._is_lost(epoch, number) for epoch, number in self._late.items())
        )
        self._late.clear()
        self._is_unsure = False
        if self._apart:
            self._ends.clear()  # its last records are not those that others have under the same numbers
        else:
            self._ends[self._known_epoch] = self._ring.last
        while len(self._ends) > MAX_EPOCHS:
            del self._ends[next(iter(self._ends))]
        self._losses = set(self._ends) if has_missed else set()
        self._known_epoch = self.epoch
        self._apart = self._is_broken = False  # what this node has is the state from now on
        asking, self._asking = self._asking, {}
        self.role = Role.HOME
        self.home = self._outlook.me.node
        self.room.became_home()
        own = asking.pop(self.home, None)
        if own is not None or has_missed:
            brought = own.own if own is not None else self.room.own()
            self._append_own(self.room.reconcile(self.home, brought))
        for node in sorted(self.room.member_nodes() - {self.home}):
            if not self._outlook.is_alive(node):
                self.node_gone(node)
            elif node not in asking:
                # It has said nothing, so it has no members. If it was only slow, it brings them along later.
                self._silent.add(node)
                self.node_gone(node)
        for node, follow in asking.items():
            if self._outlook.is_alive(node):
                try:
                    self._admit(node, follow)
                except Exception as error:  # noqa: BLE001  # whatever it is, the other nodes wait to be admitted
                    self._outlook.failed(self.name, error)
        self._drain()

    def stay(self) -> None:
        """It did not resign after all, unless another node has become home meanwhile."""
        if self.role is not Role.RESIGNING:
            return
        self.role = Role.HOME
        self.home = self._outlook.me.node
        for node in sorted(self.room.member_nodes()):
            if not self._outlook.is_alive(node):  # its life ended meanwhile
                self.node_gone(node)
        late, self._late = self._late, {}
        for epoch, number in late.items():
            self._know_of_loss(epoch, number)
        self._drain()

    def _drain(self) -> None:
        """Decide what was submitted while another node was to do it, or while a record was applied.

        One after the other, so that answers keep the order.
        """
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._pending and self.decides and not self._is_applying:
                mark = next(iter(self._pending))
                pending = self._pending.pop(mark)
                was_done = self._ring.has(mark)  # and its record did not come here
                answer = None if was_done else self._decide(mark, pending.body, self._outlook.me.node)
                pending.done(answer)
        finally:
            self._is_draining = False

    def _decide(self, mark: str, body: bytes, node: str) -> bytes:
        if self._ring.has(mark):
            return b""
        decision = self.room.decide(body, node)
        if decision.record is not None:
            self.append(mark, decision.record)
        return decision.answer

    def append(self, mark: str, body: bytes) -> None:
        """It happens now: for this node, and for all that follow."""
        if self.role is Role.ALONE:
            self._apart = True
        record = Record(self._ring.last + 1, mark, body)
        self._ring.add(record)
        if self.followers and self.role is Role.HOME:
            self._outlook.publish(self.name, Happened(self.name, self.epoch, record))
            self._tips = TIPS
        self._is_applying = True
        try:
            self.room.apply(body, again=mark in self._told)
        finally:
            self._is_applying = False
        self._drain()

    def skip(self) -> None:
        """Something happened that no other node has to know."""
        if self.role is Role.ALONE:
            self._apart = True
        self._ring.skip()

    def submitted(self, origin: Origin, message: Submit) -> None:
        if self.role is not Role.HOME or message.epoch != self.epoch:
            return  # it is sent again when its node knows which one is home
        sender = self._sender(origin)
        if message.serial <= sender.taken:
            self._answer_again(origin.node, sender, message)
            return
        if message.serial > sender.taken + 1:
            self._outlook.send(origin.node, Expect(self.name, self.epoch, sender.taken + 1))
            return
        sender.taken = message.serial
        before = self._ring.last
        answer = self._decide(message.mark, message.body, origin.node)
        if self._ring.last == before or answer or origin.node not in self.followers:
            if len(answer) <= LONG_ANSWER or self._ring.last != before:
                _keep(sender.answers, message.mark, answer)
            else:
                _keep(sender.long, message.mark, None)
            self._outlook.send(origin.node, Answer(self.name, message.mark, answer))

    def _sender(self, origin: Origin) -> Sender:
        sender = self._senders.get(origin.node)
        if sender is None or sender.life != origin.life:
            sender = self._senders[origin.node] = Sender(origin.life)
        return sender

    def _answer_again(self, node: str, sender: Sender, message: Submit) -> None:
        mark = message.mark
        answer = sender.answers.get(mark)
        if answer is not None:
            self._outlook.send(node, Answer(self.name, mark, answer))
        elif mark in sender.long:  # it has changed nothing
            self._outlook.send(node, Answer(self.name, mark, self._decide(mark, message.body, node)))
        elif self._ring.has(mark):
            self._outlook.send(node, Tip(self.name, self.epoch, self._ring.last))
        else:
            self._outlook.send(node, Answer(self.name, mark, b""))

    def followed(self, origin: Origin, message: Follow) -> None:
        self.room.check_own(message.own)  # here, because an election looks at it later, on behalf of all
        if message.epoch > self.epoch:
            # The other node knows before this one that this one is home
            self._foretold[origin.node] = message
        if message.epoch != self.epoch:
            return
        if self.role is Role.ELECTED:
            self._asking[origin.node] = message
            self._awaited.discard(origin.node)
            self._look_at_answers()
        elif self.role is Role.HOME:
            self._sender(origin)
            self._admit(origin.node, message)

    def _admit(self, node: str, follow: Follow) -> None:
        knows = self._knows(follow, self.epoch)
        missed = self._ring.after(follow.number) if knows else None
        state = self.room.state() if missed is None else b""
        size = len(state) if missed is None else sum(len(record.body) for record in missed)
        if not self._outlook.may_tell(size):
            return  # it asks again
        sender = self._senders.get(node)
        taken, answers = (sender.taken, sender.answers) if sender is not None else (0, {})
        self.followers.add(node)
        if missed is None:
            number, marks = self._ring.last, self._ring.marks
            snapshot = Snapshot(self.name, self.epoch, number, marks, state, taken, self._ends, answers)
            self._outlook.send(node, snapshot)
        else:
            self._outlook.send(node, Missed(self.name, self.epoch, missed, taken, self._ends, answers))
        was_apart = follow.apart or (follow.last_epoch and not knows) or node in self._silent
        has = (follow.last_epoch, follow.number)
        if was_apart and self._brought.get(node) != has:  # or it asks again, because the answer takes long
            self._silent.discard(node)
            self._brought[node] = has
            self._append_own(self.room.reconcile(node, follow.own))

    def _append_own(self, body: bytes) -> None:
        self.append(f"{self._outlook.me.node}/{self.epoch}/{self._ring.last}", body)

    def unfollowed(self, origin: Origin, message: Unfollow) -> None:
        self.followers.discard(origin.node)

    def happened(self, origin: Origin, message: Happened) -> None:
        if message.epoch >= self.epoch:
            super().happened(origin, message)
        elif self._is_lost(message.epoch, message.record.number):
            self._know_of_loss(message.epoch, message.record.number)

    def _is_lost(self, epoch: int, number: int) -> bool:
        """True if a former home has said more than this node knows of its epoch."""
        return number > (self._ring.last if epoch == self._known_epoch else self._ends.get(epoch, number))

    def _know_of_loss(self, epoch: int, number: int) -> None:
        """The home of this epoch died, and what it said last comes late: perhaps the next home begins without it.

        That home tells all members, once. The others report to it, because it may not have heard.
        """
        if self.role is Role.HOME:
            if epoch not in self._losses:
                self._losses.add(epoch)
                self._append_own(self.room.reconcile(self._outlook.me.node, self.room.own()))
        elif self.role is not Role.NOTHING:
            self._late[epoch] = max(self._late.get(epoch, 0), number)
            if self.role is Role.REPLICA:
                self._ask_home()

    def node_gone(self, node: str) -> None:
        """The life of a node is over."""
        self.followers.discard(node)
        self._senders.pop(node, None)
        self._brought.pop(node, None)
        if self.role is Role.ELECTED:
            self._awaited.discard(node)
            if self._borrowing == node:
                self._borrowing = None
            self._asking.pop(node, None)
            self._look_at_answers()
        elif self.role is Role.HOME:
            record = self.room.without(node)
            if record is not None:
                self._append_own(record)

    def resign(self) -> None:
        """Decide nothing until it is known whether another node has become home."""
        self.role = Role.RESIGNING
        self.home = None

    # -- time, and other nodes out of reach ----------------------------------------------------------

    def tick(self) -> None:
        """Now and then, while the others can be reached: ask again for what may have been lost."""
        now = self._outlook.now()
        if self.role is Role.ELECTED:
            self._hurry(now)
        elif self.role is Role.HOME:
            self._tip()
        elif self.role is Role.SYNCING and now - self._asked_at >= RESEND_SECONDS / 2:
            self._ask_home()
        elif self.role is Role.REPLICA and (self._early or self._late):
            self._early.clear()
            self._ask_home()
        elif self.role is Role.REPLICA and now - self._asked_at >= RESEND_SECONDS:
            self._bring_again()
        self._resend(now)

    def _tip(self) -> None:
        """Tell followers the last number, after something was said and nothing more is: a later record would show
        what they have missed. It goes to each node, where the tips of all channels share a packet.
        """
        if self._ring.last != self._seen_last:
            self._seen_last = self._ring.last
        elif self._tips > 0:
            self._tips -= 1
            for node in sorted(self.followers):
                self._outlook.send(node, Tip(self.name, self.epoch, self._ring.last))

    def _hurry(self, now: float) -> None:
        """Begin without nodes that do not answer."""
        if self._borrowing is not None and now - self._borrowed_at < ELECTION_SECONDS:
            self._ask_lender()
            return
        if self._borrowing is not None:
            self._asking.pop(self._borrowing, None)
            self._borrowing = None
        if now - self._elected_at >= ELECTION_SECONDS:
            self._awaited.clear()
        self._look_at_answers()

    def _resend(self, now: float) -> None:
        first = next(iter(self._pending.values()), None)
        if first is not None and self.home is not None and now - first.sent_at >= RESEND_SECONDS:
            self._send_all()

    def speak_up(self) -> None:
        """The others can be reached again: followers may have missed the end of the log."""
        self._tips = TIPS
        if self.role not in (Role.HOME, Role.RESIGNING):
            self._is_unsure = self.has_replica
        if self.role is Role.REPLICA:
            self._ask_home()

    def go_alone(self) -> None:
        """The home cannot be reached: go on for the agents of this node. A home goes on as it is."""
        if self.role in (Role.HOME, Role.ALONE):
            return
        if self.role is Role.NOTHING and not self.room.is_wanted:
            return
        if self.role is Role.RESIGNING:
            self.stay()
            return
        self._awaited.clear()
        self._asking.clear()
        self._borrowing = None
        self._early.clear()
        self.role = Role.ALONE
        self.home = None
        self.room.became_home()
        self._drain()


def _keep(answers: dict[str, Kept], mark: str, answer: Kept) -> None:
    answers[mark] = answer
    if len(answers) > MAX_ANSWERS:
        del answers[next(iter(answers))]
