"""Taking turns, the doing of it: wait, claim, speak, and stop at once when another one was earlier.

A `Turn` is an `async with` block. Entering waits and claims; inside the block the agent answers; if the floor
is lost meanwhile, the block is cancelled wherever it waits, as `asyncio.timeout` does it, and ends in FloorLost.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Protocol, Self

from moothall.client.floor import Asked, Board, Claim, FloorPolicy, is_exempt
from moothall.errors import ClientError, FloorLost, FloorTaken, Refusal
from moothall.wire.agentchat.names import bare_id

_current: Final[ContextVar["Turn | None"]] = ContextVar("moothall_turn", default=None)


def current_turn(msg_id: str | None) -> "Turn | None":
    """The turn under which the running code answers this message."""
    turn = _current.get()
    return turn if turn is not None and turn.asked.msg_id == msg_id else None


class Speaker(Protocol):
    """What a turn needs of the agent whose turn it is."""

    def names(self) -> tuple[str, str]:
        """Its id, without @, and its name."""

    async def claim(self, msg_id: str, channel: str, started_at: float | None = None) -> bool:
        """Tell the others; False when another one has the floor."""

    def in_background(self, work: Coroutine[Any, Any, object]) -> "asyncio.Task[object]":
        """Run it as a task that ends with the agent."""


class Turns:
    """Everything one agent has claimed, or waits to claim."""

    def __init__(self, speaker: Speaker, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self.speaker = speaker
        self.clock = clock
        self.random = random
        self.board = Board()
        self._open: dict[tuple[str, str], list[Turn]] = {}

    def take(self, asked: Asked, policy: FloorPolicy) -> "Turn":
        return Turn(self, asked, policy)

    def opened(self, turn: "Turn") -> None:
        self._open.setdefault(turn.key, []).append(turn)

    def closed(self, turn: "Turn") -> None:
        turns = self._open.get(turn.key, [])
        if turn in turns:
            turns.remove(turn)
        if not turns:
            self._open.pop(turn.key, None)

    # -- what is heard in a channel ----------------------------------------------------------------

    def heard_claim(self, channel: str, msg_id: str, holder: str, started_at: float) -> None:
        claim = Claim(started_at, bare_id(holder))
        if claim.holder == self.speaker.names()[0]:
            return
        self.board.claim(channel, msg_id, claim)
        for turn in list(self._open.get((channel, msg_id), ())):
            turn.contest(claim)

    def heard_yield(self, channel: str, msg_id: str, speaker: str | None) -> None:
        if speaker is not None and bare_id(speaker) == self.speaker.names()[0]:
            return  # the reference answers a repeated claim of the holder's own like this (agentchat wire 10)
        for turn in list(self._open.get((channel, msg_id), ())):
            turn.lose(speaker)

    def heard_answer(self, channel: str, msg_id: str) -> None:
        self.board.answer(channel, msg_id)
        for turn in list(self._open.get((channel, msg_id), ())):
            turn.answered()

    def heard_departure(self, channel: str, agent: str) -> None:
        self.board.depart(channel, bare_id(agent))


class Turn:
    """One agent's answer to one message."""

    def __init__(self, turns: Turns, asked: Asked, policy: FloorPolicy) -> None:
        self.asked = asked
        self._turns = turns
        self._policy = policy
        self._task: asyncio.Task[Any] | None = None  # who speaks
        self._cancelling = 0
        self._taken: asyncio.Future[None] | None = None  # while waiting
        self._claim: Claim | None = None
        self._granted: asyncio.Task[object] | None = None
        self._settled_at = 0.0
        self._spoken = False
        self._over = False
        self._lost = False
        self._winner: str | None = None
        self._token: Token[Turn | None] | None = None

    @property
    def key(self) -> tuple[str, str]:
        return (self.asked.channel or "", self.asked.msg_id or "")

    # -- the block ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._token is not None:
            raise RuntimeError("a turn is taken once")
        names = self._turns.speaker.names()
        if not is_exempt(self.asked, names, self._policy.answer_humans):
            self._turns.opened(self)
            try:
                await self._listen()
            except BaseException:
                self._turns.closed(self)
                raise
            self._start(names[0])
        self._token = _current.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)
        if self._task is None:
            return
        self._over = True
        self._turns.closed(self)
        if self._lost:
            await self._give_way(error)

    async def _listen(self) -> None:
        """Wait, and stop waiting when somebody else speaks up."""
        if not self._turns.board.is_taken(*self.key):
            self._taken = asyncio.get_running_loop().create_future()
            await asyncio.wait(
                (self._taken,), timeout=self._policy.delay(self.asked.content, self._turns.random)
            )
            if not self._taken.done():
                self._taken = None
                return
        winner = self._turns.board.holder(*self.key)
        raise FloorTaken(f"@{winner} is answering already" if winner else "somebody has answered already")

    def _start(self, own_id: str) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # this runs inside a coroutine
        self._task = task
        self._cancelling = task.cancelling()
        self._claim = Claim(int(self._turns.clock() * 1000), own_id)
        self._granted = self._turns.speaker.in_background(self._tell(self._claim))

    async def _tell(self, claim: Claim) -> None:
        channel, msg_id = self.key
        try:
            if not await self._turns.speaker.claim(msg_id, channel, claim.started_at / 1000):
                self.lose(self._turns.board.holder(channel, msg_id))
        except (ClientError, Refusal):
            # Claiming is a courtesy (seed 003, invariants): without it the answer is as good as before.
            pass
        self._settled_at = asyncio.get_running_loop().time() + self._policy.settle

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

    def contest(self, claim: Claim) -> None:
        """Another agent claims the same message."""
        if self._claim is None:
            self.answered()
        elif claim < self._claim:
            self.lose(claim.holder)

    def answered(self) -> None:
        """Whoever still waits need not start. Who speaks already goes on: it started earlier, or is told."""
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)

    def lose(self, winner: str | None) -> None:
        if self._task is None or self._lost or self._spoken or self._over:
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
        if remaining > 0:
            await asyncio.sleep(remaining)
        self.check()

    def check(self) -> None:
        if self._lost:
            raise self._loss()

    def speak(self) -> None:
        """The answer is about to leave; from here on there is nothing to give way with."""
        self.check()
        self._spoken = True

    def unspeak(self) -> None:
        """It did not leave after all."""
        self._spoken = False

    def _loss(self) -> FloorLost:
        winner = f"@{bare_id(self._winner)}" if self._winner else "another agent"
        return FloorLost(f"{winner} started to answer earlier")
