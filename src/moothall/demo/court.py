"""The scene in which two agents fall out, and a panel of the others decides."""

from contextlib import AsyncExitStack
from typing import Final

from moothall.client import Agent, Dispute, EvidenceItem, Proposal, Ruling
from moothall.demo.cast import COURT, GENERAL, Cast, Talker
from moothall.demo.pace import Pace
from moothall.demo.scenes import Tell
from moothall.demo.script import Quarrel, Vote

STAKE: Final = 20
WORDS: Final = {
    "disputant": "for the agent that filed the case",
    "respondent": "for the agent that was accused",
    "mutual": "both are at fault",
}


class CourtScene:
    """`a` files a case against `b`. The panel are `c` and the two agents of the mesh: there are no others."""

    def __init__(self, cast: Cast, pace: Pace, tell: Tell) -> None:
        self._cast = cast
        self._pace = pace
        self._tell = tell

    async def play(self, a: Talker, b: Talker, c: Talker, quarrel: Quarrel) -> None:
        deal = await self._fall_out(a, b, quarrel)
        async with AsyncExitStack() as stack:
            panel = {c.name: c.agent}
            for trader in self._cast.traders:
                panel[trader.name] = await stack.enter_async_context(trader.in_court(self._cast.url))
            dispute = await deal.file_dispute(quarrel.reason)
            if dispute.phase == "fallback":
                await a.say(COURT, f"No panel for my case against {b.name}: too few arbiters are here.")
                return
            drawn = ", ".join(self._cast.name_of(each) for each in dispute.panel)
            await a.say(
                COURT, f"I have filed a case against {b.name}: {quarrel.reason}. The lot drew {drawn}."
            )
            self._tell(f"{a.name} took {b.name} to court; the lot drew {drawn}")
            ruling = await self._hear(dispute, a, b, panel, quarrel)
        await self._announce(c, a, b, ruling)

    async def _fall_out(self, a: Talker, b: Talker, quarrel: Quarrel) -> Proposal:
        names = {"a": a.name, "b": b.name}
        await self._pace.beat()
        deal = await a.agent.propose(b.id, quarrel.task, amount=quarrel.amount, currency="EUR", stake=STAKE)
        await self._pace.beat(0.5)
        await b.agent.accept(deal.id, stake=STAKE)
        for speaker, line in ((b, quarrel.delivered), (a, quarrel.complaint), (b, quarrel.defence)):
            await self._pace.beat()
            await speaker.say(GENERAL, line.format(**names))
        await self._pace.beat()
        return deal

    async def _hear(
        self, dispute: Dispute, a: Talker, b: Talker, panel: dict[str, Agent], quarrel: Quarrel
    ) -> Ruling:
        case = dispute.dispute_id
        for arbiter in panel.values():
            await self._pace.beat(0.5)
            await arbiter.accept_case(case)
        message = quarrel.message.format(a=a.name, b=b.name)
        await self._pace.beat(0.5)
        await dispute.submit([EvidenceItem.commit(quarrel.commit)], quarrel.statement)
        await a.say(COURT, f"My evidence: commit `{quarrel.commit}`. {quarrel.statement}.")
        await self._pace.beat()
        await b.agent.submit_evidence(case, [EvidenceItem.message(message)], quarrel.answer)
        await b.say(COURT, f"And mine: what was said. {quarrel.answer}.")
        for (name, arbiter), vote in zip(panel.items(), quarrel.votes, strict=True):
            await self._pace.beat()
            await self._vote(case, name, arbiter, vote)
        return await dispute.outcome()

    async def _vote(self, case: str, name: str, arbiter: Agent, vote: Vote) -> None:
        await arbiter.vote(case, vote.verdict, vote.reasoning)
        await arbiter.send(COURT, f"I have voted. {vote.reasoning}.")
        self._tell(f"{name} voted")

    async def _announce(self, c: Talker, a: Talker, b: Talker, ruling: Ruling) -> None:
        if ruling.verdict is None:
            await c.say(COURT, f"The case {a.name} against {b.name} ended without a verdict.")
            return
        changes = "; ".join(
            f"{party.name} {ruling.rating_changes[party.id].change:+d} points"
            for party in (a, b)
            if party.id in ruling.rating_changes
        )
        await c.say(
            COURT,
            f"**Verdict** in {a.name} against {b.name}: {WORDS[ruling.verdict]}. {changes}. Case closed.",
        )
        self._tell(f"verdict in {a.name} against {b.name}: {WORDS[ruling.verdict]}")
