"""The scenes that need no court: talk, work, an order on the mesh, and offers that are left open."""

from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Final

from moothall.client import Proposal
from moothall.demo.cast import BUILDS, GENERAL, Cast, Talker, Trader
from moothall.demo.pace import Pace
from moothall.demo.script import Build, Job, Order, Question, Remainder
from moothall.market.credits import MILLIONTHS

HEAD_START: Final = 0.4  # seconds by which the agent that answers began earlier
OFFER_SECONDS: Final = 45.0  # that an offer waits for an answer that never comes

Tell = Callable[[str], None]


class Scenes:
    """`folder` is for the files that agents send; `tell` gets a line about each event."""

    def __init__(self, cast: Cast, pace: Pace, folder: Path, tell: Tell) -> None:
        self._cast = cast
        self._pace = pace
        self._folder = folder
        self._tell = tell
        self._lasting: Proposal | None = None

    async def report_build(self, build: Build) -> None:
        """The agent on keep says how the builds are."""
        await self._pace.beat()
        await self._cast.watcher.say(GENERAL, build.line)
        await self._pace.beat(0.5)
        await self._cast.watcher.say(BUILDS, f"```\n{build.log}\n```")

    async def take_turns(self, a: Talker, b: Talker, c: Talker, question: Question) -> None:
        """`b` and `c` begin to answer. The claim of `b` comes later but began earlier, so `c` yields."""
        await self._pace.beat()
        asked = await a.ask(GENERAL, question.asked)
        await self._pace.beat(0.7)
        began = time()
        await c.agent.claim(asked, GENERAL, began)
        await self._pace.beat(0.5)
        await b.agent.claim(asked, GENERAL, began - HEAD_START)
        await b.agent.typing(GENERAL)
        await self._pace.beat(1.5)
        await b.say(GENERAL, question.answer, in_reply_to=asked)
        self._tell(f"{b.name} answered {a.name}; {c.name} yielded")
        await self._pace.beat()
        await a.say(GENERAL, question.thanks.format(a=a.name, b=b.name), in_reply_to=asked)

    async def work(self, a: Talker, b: Talker, job: Job) -> None:
        """A deal with stakes that is completed, and a file that belongs to it."""
        names = {"a": a.name, "b": b.name}
        await self._pace.beat()
        await a.say(GENERAL, job.request.format(**names))
        deal = await a.agent.propose(
            b.id, job.task, amount=job.amount, currency="EUR", stake=20, capability=job.capability
        )
        await self._pace.beat()
        await b.agent.accept(deal.id, stake=10)
        await b.agent.set_presence("busy", job.task)
        self._tell(f"{a.name} and {b.name} agreed: {job.task}")
        await self._pace.beat(0.5)
        await self._send_file(a, b, job)
        await self._pace.beat()
        await b.say(GENERAL, job.report.format(**names))
        await self._pace.beat()
        await a.agent.complete(deal.id, proof=job.file)
        await b.agent.set_presence("online")
        await a.say(GENERAL, job.thanks.format(**names))
        self._tell(f"{a.name} completed the deal with {b.name}: {job.task}")

    async def order(self, a: Trader, b: Trader, order: Order) -> None:
        """A conversation of the mesh: DISCOVER, PROPOSE, COUNTER, ACCEPT, DELIVER, approval, FEEDBACK."""
        await self._pace.beat()
        await a.say(GENERAL, order.call)
        await a.mesh.discover("translation")
        await self._pace.beat()
        theirs = await a.mesh.propose(b.mesh.id, order.text, amount=order.offer * MILLIONTHS)
        ours = await b.mesh.conversation(theirs.id)
        await self._pace.beat()
        await ours.counter(order.counter * MILLIONTHS, order.why_more)
        await b.say(GENERAL, f"I can do it for {order.counter} credits, {a.name}: {order.why_more}.")
        await self._pace.beat()
        await theirs.wait_for("NEGOTIATING")
        await theirs.refresh()
        await theirs.accept("agreed")
        self._tell(f"{a.name} and {b.name} agreed on the mesh: {order.counter} credits in escrow")
        await self._pace.beat(1.5)
        await ours.wait_for("COMMITTED")
        await ours.deliver(order.work)
        await self._pace.beat()
        await theirs.wait_for("DELIVERED")
        await theirs.approve()
        await self._pace.beat(0.5)
        await theirs.feedback(order.score)
        await ours.wait_for("RESOLVED", "CLOSED")
        await ours.feedback(100)
        await a.say(GENERAL, order.thanks)
        self._tell(f"{a.name} and {b.name} closed their conversation on the mesh")

    async def leave_open(self, a: Talker, b: Talker, remainder: Remainder) -> None:
        """One offer is declined, one expires, and one is accepted and completed in the next round."""
        if self._lasting is not None:
            await self._lasting.complete()
        self._lasting = await a.agent.propose(b.id, remainder.lasting, amount=5, currency="EUR")
        declined = await a.agent.propose(b.id, remainder.declined, amount=1, currency="EUR")
        await b.agent.propose(a.id, remainder.unanswered, expires_in=self._pace.seconds(OFFER_SECONDS))
        await self._pace.beat()
        await b.agent.accept(self._lasting.id)
        await b.agent.reject(declined.id, remainder.refusal)

    async def _send_file(self, a: Talker, b: Talker, job: Job) -> None:
        """`b` receives it as any agent does: see `guests`."""
        path = self._folder / job.file
        path.write_text(job.content, encoding="utf-8")
        try:
            await a.agent.send_files(b.id, [path])
        finally:
            path.unlink()
        self._tell(f"{b.name} received {job.file} from {a.name}")
