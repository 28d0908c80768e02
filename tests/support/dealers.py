"""Agents that deal over the wire until the hall dies under them, and remember what they asked and were told."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any

from websockets.exceptions import ConnectionClosed

from moothall.identity import PrivateKey
from tests.support.agentchat import AgentChat, Closed, Message, Refused
from tests.support.deals import signed

PROPOSER_STAKE = 5
ACCEPTOR_STAKE = 7

ENDS = ("COMPLETE", "DISPUTE", "REJECT", "COMPLETE")


@dataclass(frozen=True, slots=True)
class Told:
    """One step that the hall acknowledged."""

    deal: str
    kind: str
    answer: Message


@dataclass(slots=True)
class Diary:
    """What all dealers together know. A step that was asked for and not told of may have happened, or not."""

    asked: set[tuple[str, str]] = field(default_factory=set)  # (deal, kind), PROPOSALs by their task
    told: list[Told] = field(default_factory=list)
    refused: set[tuple[str, str]] = field(default_factory=set)  # "nothing has changed", said the hall
    serials: Iterator[int] = field(default_factory=count)
    strike_at: int = 0  # so many acknowledged steps
    strike: Callable[[], None] | None = None

    def note(self, told: Told) -> None:
        """Strikes before anything else is read: an answer that came too early has had no time to come true."""
        self.told.append(told)
        if self.strike is not None and len(self.told) >= self.strike_at:
            self.strike()
            self.strike = None

    def strike_after(self, steps: int, strike: Callable[[], None]) -> None:
        self.strike_at = len(self.told) + steps
        self.strike = strike


class GivenUp(Exception):
    """A step of a deal did not succeed, and the deal stays as it is."""


class Dealer(AgentChat):
    """Takes as the answer to a command what carries the command's `ref`, and lets everything else pass."""

    _serial = 0

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self._reading.add_done_callback(lambda _: self._give_up())

    async def do(self, kind: str, **fields: Any) -> Message:
        """The hall's answer; Closed when it died first."""
        self._serial += 1
        ref = str(self._serial)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[ref] = answer
        if self._reading.done():
            self._give_up()
        else:
            try:
                await self.send(type=kind, ref=ref, **fields)
            except ConnectionClosed:
                self._answers.pop(ref, None)
                raise Closed("the hall is gone") from None
        message = await answer
        if message["type"] == "ERROR":
            raise Refused(message)
        return message

    async def act(self, kind: str, **fields: Any) -> Message:
        assert self.key is not None
        return await self.do(kind, **signed(self.key, kind, **fields))

    async def _take(self, message: Message) -> None:
        answer = self._answers.pop(message.get("ref", ""), None)
        if answer is not None:
            answer.set_result(message)
        elif not self.agent_id:
            await super()._take(message)

    def _give_up(self) -> None:
        for answer in self._answers.values():
            answer.set_exception(Closed("the hall is gone"))
            answer.exception()  # read, also if the one that asked could not send its question
        self._answers.clear()


class Ring:
    """Each agent proposes to the next, so that every standing is in the hands of two pairs at once."""

    def __init__(self, keys: list[PrivateKey]) -> None:
        self.diary = Diary()
        self.dealers: list[Dealer] = []
        self._keys = keys

    async def come_in(self, *urls: str) -> None:
        """Neighbours to different nodes, if there are several."""
        self.dealers = [
            await Dealer.connect(url, f"dealer-{number}", key)
            for number, (key, url) in enumerate(zip(self._keys, cycle(urls), strict=False))
        ]

    async def deal(self) -> None:
        """Until the hall is gone, or `stop` is called."""
        self._stopped = False
        pairs = zip(self.dealers, [*self.dealers[1:], self.dealers[0]], strict=True)
        await asyncio.gather(*(self._deal(one, other) for one, other in pairs))

    def stop(self) -> None:
        """Begin no further deals."""
        self._stopped = True

    async def go(self) -> None:
        await asyncio.gather(*(dealer.close() for dealer in self.dealers))

    async def _deal(self, one: Dealer, other: Dealer) -> None:
        try:
            while not self._stopped:
                with suppress(GivenUp):
                    await self._whole_deal(one, other, next(self.diary.serials))
        except Closed:
            pass

    async def _whole_deal(self, one: Dealer, other: Dealer, serial: int) -> None:
        task = f"task {serial}"
        offer = await self._ask(one, task, "PROPOSAL", to=other.agent_id, task=task, elo_stake=PROPOSER_STAKE)
        deal = offer["proposal_id"]
        self.diary.note(Told(deal, "PROPOSAL", offer))
        end = ENDS[serial % len(ENDS)]
        if end == "REJECT":
            await self._step(other, deal, "REJECT", reason="busy")
            return
        await self._step(other, deal, "ACCEPT", elo_stake=ACCEPTOR_STAKE)
        by = one if serial % 2 else other
        if end == "COMPLETE":
            await self._step(by, deal, "COMPLETE", proof=f"proof {serial}")
        else:
            await self._step(by, deal, "DISPUTE", reason=f"reason {serial}")

    async def _step(self, by: Dealer, deal: str, kind: str, **fields: Any) -> None:
        answer = await self._ask(by, deal, kind, proposal_id=deal, **fields)
        self.diary.note(Told(deal, kind, answer))

    async def _ask(self, by: Dealer, what: str, kind: str, **fields: Any) -> Message:
        self.diary.asked.add((what, kind))
        try:
            return await by.act(kind, **fields)
        except Refused as refused:
            if refused.code == "UNAVAILABLE":
                self.diary.refused.add((what, kind))
            elif not refused.message.startswith("Outcome unknown"):
                raise
            raise GivenUp from None
