"""Taking turns, the doing of it: wait, claim, speak, and stop at once when another one was earlier.

A `Turn` is an `async with` block. Entering waits and claims; inside the block the agent answers; if the floor
is lost meanwhile, the block is cancelled wherever it waits, as `asyncio.timeout` does it, and ends in FloorLost.

While another agent has the floor, the wait stands still. It goes on when that agent releases its claim, leaves, or
lets the claim expire, and ends for good when the message is answered. So a claim that comes to nothing delays the
others by the time it was held, and not more.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Protocol, Self

from moothall.client.answering import REMEMBERED, Part, Rounds, judge
from moothall.client.board import Board, Change, Claim, Key, State
from moothall.client.floor import Asked, FloorPolicy
from moothall.client.logs import log
from moothall.client.members import Members
from moothall.errors import ClientError, FloorLost, FloorTaken, Refusal
from moothall.wire.agentchat.names import SERVER, bare_id

MAX_HELD_BACK: Final = 300.0  # seconds; after that an answer would come too late to be one
ANSWERED: Final = "another agent has answered it"
# Where no FLOOR_RELEASED tells that a claim expired: its time to live (seed 003), and the time until the reference
# notices (agentchat wire 10).
UNANNOUNCED_TTL: Final = 45.0 + 5.0

_current: Final[ContextVar["Turn | None"]] = ContextVar("moothall_turn", default=None)


def current_turn(msg_id: str | None) -> "Turn | None":
    """The turn under which the running code answers this message."""
    turn = _current.get()
    return turn if turn is not None and turn.asked.msg_id == msg_id else None


def turn_in(channel: str, in_reply_to: str | None) -> "Turn | None":
    """The turn that the running code ends by saying something in this channel, in reply to this message or none."""
    turn = _current.get()
    if turn is None or turn.is_over or turn.asked.channel != channel:
        return None
    return turn if in_reply_to in (None, turn.asked.msg_id) else None


class Speaker(Protocol):
    """What a turn needs of the agent whose turn it is."""

    @property
    def announces_release(self) -> bool:
        """True if the hall serves RELEASE and FLOOR_RELEASED."""

    def names(self) -> tuple[str, ...]:
        """Its id, without @, and its names."""

    async def claim(self, msg_id: str, channel: str, started_at: float | None = None) -> bool:
        """Tell the others; False when another one has the floor."""

    async def release(self, msg_id: str, channel: str) -> None:
        """Take a claim back."""

    def in_background(self, work: Coroutine[Any, Any, object]) -> "asyncio.Task[object]":
        """Run it as a task that ends with the agent."""


class Turns:
    """Everything one agent has claimed, or waits to claim, and what it knows of others."""

    def __init__(self, speaker: Speaker, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self.speaker = speaker
        self.clock = clock
        self.random = random
        self.board = Board()
        self.members = Members()
        self.rounds = Rounds()
        self.changed: Callable[[Change], None] = lambda change: None  # told when a claim begins or ends
        self._own: dict[str, None] = {}  # ids of messages that the agent wrote, the oldest first
        self._open: dict[Key, list[Turn]] = {}
        self._timers: dict[tuple[Key, str], asyncio.TimerHandle] = {}

    def take(self, asked: Asked, policy: FloorPolicy) -> "Turn":
        return Turn(self, asked, policy)

    def part(self, asked: Asked, policy: FloorPolicy) -> Part:
        """What the agent does about a message. Raises FloorTaken when it is to be silent."""
        channel = asked.channel or ""
        run = self.rounds.of(channel)
        judged = judge(
            asked,
            self.speaker.names(),
            policy,
            run,
            is_reply_to_me=asked.in_reply_to in self._own,
            addressed=self.members.mentioned(channel, asked.content, asked.sender),
        )
        if judged.is_enough and not run.is_logged:
            run.is_logged = True
            log.warning(
                "%s. The agent stays quiet there until a person speaks, it is mentioned,"
                " or something is said that is not a reply (max_rounds)",
                judged.why,
            )
        if judged.part is Part.SILENT:
            raise FloorTaken(judged.why)
        return judged.part

    def objection(self, asked: Asked, policy: FloorPolicy) -> str | None:
        """Why the agent leaves a message to others; None if it may claim it now."""
        try:
            part = self.part(asked, policy)
        except FloorTaken as taken:
            return str(taken)
        key = (asked.channel or "", asked.msg_id or "")
        if part is Part.IN_TURN and self.board.is_answered(key, bare_id(asked.sender)):
            return ANSWERED
        return None

    def opened(self, turn: "Turn") -> None:
        self._open.setdefault(turn.key, []).append(turn)

    def closed(self, turn: "Turn") -> None:
        turns = self._open.get(turn.key, [])
        if turn in turns:
            turns.remove(turn)
        if not turns:
            self._open.pop(turn.key, None)

    # -- what is said in a channel -----------------------------------------------------------------

    def wrote(self, msg_id: str) -> None:
        """A message of the agent's own has this id: replies to it are replies to the agent."""
        self._own[msg_id] = None
        if len(self._own) > REMEMBERED:
            del self._own[next(iter(self._own))]

    def said(self, asked: Asked) -> None:
        """The agent itself said this in a channel."""
        self.rounds.hear(asked.channel or "", asked, ())

    def heard(self, asked: Asked) -> None:
        """Another agent said this in a channel."""
        if asked.channel is None or asked.sender == SERVER:
            return
        self.rounds.hear(asked.channel, asked, self.speaker.names())
        changes = self.board.speak(asked.channel, bare_id(asked.sender), asked.in_reply_to)
        self._apply(changes)
        for change in changes:
            # It had the floor, perhaps by a later claim that came first. So the hall tells this agent no YIELD.
            if change.state == "answered":
                self._withdraw(change.key, change.holder)
        if asked.in_reply_to is not None:
            self._wake((asked.channel, asked.in_reply_to))

    def heard_of_answer(self, channel: str, msg_id: str, speaker: str) -> None:
        """A message was answered before the agent came, or while it was away.

        The claims of an agent end with its connection, and no YIELD reaches it then.
        """
        key = (channel, msg_id)
        self.board.answer(key, bare_id(speaker))
        self._withdraw(key, speaker)
        self._wake(key)

    # -- what is heard of claims -------------------------------------------------------------------

    def heard_claim(
        self, channel: str, msg_id: str, holder: str, started_at: float, *, granted: bool = False
    ) -> None:
        claim = Claim(started_at, bare_id(holder))
        if claim.holder == self.speaker.names()[0]:
            return
        self._note((channel, msg_id), claim, granted=granted)
        for turn in list(self._open.get((channel, msg_id), ())):
            turn.contest(claim)

    def heard_yield(self, channel: str, msg_id: str, speaker: str | None, started_at: float = 0) -> None:
        if speaker is not None:
            winner = bare_id(speaker)
            if winner == self.speaker.names()[0]:
                return  # the reference answers a repeated claim of the holder's own like this (agentchat wire 10)
            self._note((channel, msg_id), Claim(started_at, winner), granted=True)
        for turn in list(self._open.get((channel, msg_id), ())):
            turn.lose(speaker)

    def heard_release(self, channel: str, msg_id: str, holder: str, *, is_expired: bool) -> None:
        state: State = "expired" if is_expired else "released"
        self._apply(self.board.release((channel, msg_id), bare_id(holder), state))

    def heard_departure(self, channel: str, agent: str) -> None:
        self._apply(self.board.depart(channel, bare_id(agent)))

    def lost_sight(self) -> None:
        """The connection is gone."""
        self._apply(self.board.clear())
        self.members.clear()

    # -- inside ------------------------------------------------------------------------------------

    def _note(self, key: Key, claim: Claim, *, granted: bool) -> None:
        self._apply(self.board.claim(key, claim, granted=granted))
        timed = (key, claim.holder)
        if self.speaker.announces_release or timed in self._timers or not self.board.stands(*timed):
            return
        self._timers[timed] = asyncio.get_running_loop().call_later(UNANNOUNCED_TTL, self._expire, *timed)

    def _expire(self, key: Key, holder: str) -> None:
        self._apply(self.board.release(key, holder, "expired"))

    def _apply(self, changes: list[Change]) -> None:
        for change in changes:
            if change.state != "claimed":
                self._forget_timer(change.key, change.holder)
            self._wake(change.key)
            self.changed(change)

    def _withdraw(self, key: Key, speaker: str) -> None:
        """Stop answering what another agent has answered. The author may say more of its own message."""
        for turn in list(self._open.get(key, ())):
            if self.board.is_answered(key, bare_id(turn.asked.sender)):
                turn.lose(speaker)

    def _forget_timer(self, key: Key, holder: str) -> None:
        timer = self._timers.pop((key, holder), None)
        if timer is not None:
            timer.cancel()

    def _wake(self, key: Key) -> None:
        for turn in self._open.get(key, ()):
            turn.look_again()


class Turn:
    """One agent's answer to one message."""

    def __init__(self, turns: Turns, asked: Asked, policy: FloorPolicy) -> None:
        self.asked = asked
        self.is_over = False
        self._turns = turns
        self._policy = policy
        self._task: asyncio.Task[Any] | None = None  # who speaks
        self._cancelling = 0
        self._news: asyncio.Future[None] | None = None  # while waiting
        self._claim: Claim | None = None
        self._is_contested = True  # another claim may take the floor away
        self._granted: asyncio.Task[object] | None = None
        self._is_told = False  # the claim is on its way
        self._is_denied = False
        self._settled_at = 0.0
        self._spoken = False
        self._lost = False
        self._winner: str | None = None
        self._token: Token[Turn | None] | None = None

    @property
    def key(self) -> Key:
        return (self.asked.channel or "", self.asked.msg_id or "")

    @property
    def _is_shown(self) -> bool:
        """The agent claims what it answers at once, too, so that a person sees who is working on it."""
        asked = self.asked
        is_claimable = asked.channel is not None and asked.msg_id is not None
        return asked.is_human and is_claimable and self._policy.answer_humans == "one"

    # -- the block ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._token is not None:
            raise RuntimeError("a turn is taken once")
        part = self._turns.part(self.asked, self._policy)
        if part is Part.IN_TURN:
            self._turns.opened(self)
            try:
                await self._wait_for_floor()
            except BaseException:
                self._turns.closed(self)
                raise
            self._start()
        elif self._is_shown:
            self._is_contested = False
            self._start()
        self._token = _current.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)
        self.is_over = True
        if self._claim is None:
            return
        self._turns.closed(self)
        if not self._spoken:
            self._give_back()
        if self._lost:
            await self._give_way(error)

    async def _wait_for_floor(self) -> None:
        """Wait until the floor was free for long enough. FloorTaken when the message is answered."""
        board, loop = self._turns.board, asyncio.get_running_loop()
        left = self._policy.delay(self.asked.content, self._turns.random)
        gives_up = loop.time() + left + MAX_HELD_BACK
        while not board.is_answered(self.key, bare_id(self.asked.sender)):
            holder = board.first(self.key)
            began = loop.time()
            self._news = loop.create_future()
            await asyncio.wait((self._news,), timeout=left if holder is None else max(0.0, gives_up - began))
            has_news, self._news = self._news.done(), None
            if holder is None:
                if not has_news:
                    return
                left = max(0.0, left - (loop.time() - began))
            elif not has_news:
                raise FloorTaken(f"@{holder.holder} has the floor for too long")
        raise FloorTaken(ANSWERED)

    def _start(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # this runs inside a coroutine
        self._task = task
        self._cancelling = task.cancelling()
        self._claim = Claim(int(self._turns.clock() * 1000), self._turns.speaker.names()[0])
        # Not sent before the block waits for something: a handler that returns at once has claimed nothing.
        self._granted = self._turns.speaker.in_background(self._tell(self._claim))

    async def _tell(self, claim: Claim) -> None:
        self._is_told = True
        channel, msg_id = self.key
        try:
            if not await self._turns.speaker.claim(msg_id, channel, claim.started_at / 1000):
                self._is_denied = True
                winner = self._turns.board.first(self.key)
                self.lose(winner.holder if winner is not None else None)
        except (ClientError, Refusal):
            # Claiming is a courtesy (seed 003, invariants): without it the answer is as good as before.
            pass
        self._settled_at = asyncio.get_running_loop().time() + self._policy.settle

    def _give_back(self) -> None:
        """The block ends without an answer: others may take their turn."""
        if self._granted is not None and not self._is_told:
            self._granted.cancel()
        elif self._granted is not None:
            self._turns.speaker.in_background(self._release(self._granted))

    async def _release(self, granted: "asyncio.Task[object]") -> None:
        await asyncio.wait((granted,))
        if not self._is_denied:
            channel, msg_id = self.key
            with suppress(ClientError, Refusal):
                await self._turns.speaker.release(msg_id, channel)

    async def _give_way(self, error: BaseException | None) -> None:
        """End in FloorLost, unless the block has an error of its own or is being cancelled by others as well."""
        task = self._task
        assert task is not None  # noqa: S101  # only who speaks can lose the floor
        delivered = isinstance(error, asyncio.CancelledError)
        if not delivered:
            # The block ended before our cancellation reached it: take it here, or it hits the code that follows.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        if task.uncancel() > self._cancelling:
            if not delivered:
                raise asyncio.CancelledError
        elif delivered or error is None:
            raise self._loss() from None

    # -- what happens to it ------------------------------------------------------------------------

    def look_again(self) -> None:
        """Something has changed for an agent that waits. One that speaks already goes on: it is told to stop."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def contest(self, claim: Claim) -> None:
        """Another agent claims the same message."""
        if self._claim is not None and claim < self._claim:
            self.lose(claim.holder)

    def lose(self, winner: str | None) -> None:
        if self._task is None or self._lost or self._spoken or self.is_over or not self._is_contested:
            return
        self._lost = True
        self._winner = winner
        self._task.cancel()

    # -- what the speaker does ---------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until the claim holds, as far as one can know."""
        if self._granted is None or self._spoken:
            return
        await asyncio.wait((self._granted,))
        remaining = self._settled_at - asyncio.get_running_loop().time()
        if remaining > 0 and self._is_contested:
            await asyncio.sleep(remaining)
        self.check()

    def check(self) -> None:
        if self._lost:
            raise self._loss()

    def speak(self) -> None:
        """The answer is about to be sent: from here on the agent cannot yield."""
        self.check()
        self._spoken = True

    def unspeak(self) -> None:
        """The answer was not sent after all: the agent can yield again."""
        self._spoken = False

    def _loss(self) -> FloorLost:
        winner = f"@{bare_id(self._winner)}" if self._winner else "another agent"
        return FloorLost(f"{winner} started to answer earlier")
