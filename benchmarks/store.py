"""`python -m benchmarks.store`: what durability costs. No network and no signatures: units of work, committed.

A deal is three units: PROPOSAL, ACCEPT with stakes on both sides, COMPLETE. They are measured from one pair of
agents alone, which waits for the disk every time, and from many pairs at once, which share its commits.
"""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

import structlog
import uvloop

from moothall.identity import PrivateKey
from moothall.identity.seals import Seal
from moothall.market import agentchat, clerk
from moothall.market.books import Books
from moothall.market.rules import MarketRules
from moothall.market.signed import Signed
from moothall.store.files import DataDirectory
from moothall.store.opening import open_store
from moothall.store.units import Engine
from moothall.wire.agentchat import client

RULES: Final = MarketRules()
SEAL: Final = Seal(PrivateKey(bytes(32)))
SYNCS: Final = 200
STARTED: Final = 1_767_323_045_678

Work = Callable[[Books], Any]


@dataclass(frozen=True, slots=True)
class Pair:
    proposer: PrivateKey
    recipient: PrivateKey

    def deal(self, serial: int) -> list[Work]:
        """Orders as the market has them after it checked the signature, which is not measured here."""
        deal = f"prop_{self.proposer.public.fingerprint}_{serial}"
        to = f"@{self.recipient.public.agent_id()}"
        proposal = client.Proposal(to=to, task="Review the pull request", amount=5, sig="s", elo_stake=20)
        accept = client.Accept(proposal_id=deal, sig="s", elo_stake=10)
        complete = client.Complete(proposal_id=deal, proof="https://example.org/review", sig="s")
        offer = Signed(agentchat.propose(proposal), self.proposer.public.raw, "s", proposal)
        acceptance = Signed(agentchat.accept(accept), self.recipient.public.raw, "s", accept)
        completion = Signed(agentchat.complete(complete), self.recipient.public.raw, "s", complete)
        now = STARTED + serial
        return [
            lambda books: clerk.propose(
                books,
                offer,
                proposal_id=deal,
                address=f"@{self.proposer.public.agent_id()}",
                connected=self.recipient.public.raw,
                now=now,
                rules=RULES,
            ),
            lambda books: clerk.accept(books, acceptance, now=now, rules=RULES),
            lambda books: clerk.complete(books, completion, now=now, rules=RULES, seal=SEAL),
        ]


async def run(store: Engine, work: Work) -> None:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    store.submit(work, answer.set_result, answer.set_exception)
    await answer


async def deal_until(store: Engine, pair: Pair, end: float) -> int:
    units = 0
    while perf_counter() < end:
        for work in pair.deal(units):
            await run(store, work)
            units += 1
    return units


async def measure(pairs: int, seconds: float, url: str, folder: Path) -> str:
    store = open_store(DataDirectory(folder), url, structlog.get_logger())
    everybody = [Pair(PrivateKey(os.urandom(32)), PrivateKey(os.urandom(32))) for _ in range(pairs)]
    began, cpu = perf_counter(), process_time()
    units = sum(await asyncio.gather(*(deal_until(store, pair, began + seconds) for pair in everybody)))
    took, cpu = perf_counter() - began, process_time() - cpu
    statistics = store.statistics()
    store.close()
    return (
        f"{pairs:>4} pairs  {units / took:>8,.0f} units/s  {units / took / 3:>7,.0f} deals/s"
        f"  {cpu / units * 1e6:>5.0f} us CPU a unit  {statistics.units / statistics.commits:>5.1f} units a commit"
        f"  {statistics.commit_seconds / statistics.commits * 1e3:>6.2f} ms a commit"
    )


def fsync_time(folder: Path) -> float:
    """Of a page added to a file, as SQLite adds one to its log."""
    took = []
    descriptor = os.open(folder / "fsync", os.O_RDWR | os.O_CREAT)
    for _ in range(SYNCS):
        os.write(descriptor, bytes(4096))
        began = perf_counter()
        os.fsync(descriptor)
        took.append(perf_counter() - began)
    os.close(descriptor)
    (folder / "fsync").unlink()
    return median(took)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    parser.add_argument(
        "--store", default="", metavar="URL", help="an empty PostgreSQL database; else SQLite"
    )
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured; else the temporary folder")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(f"fsync of 4 KB: {fsync_time(Path(folder)) * 1e3:.2f} ms (median of {SYNCS})")
        for pairs in (1, options.pairs):
            print(uvloop.run(measure(pairs, options.seconds, options.store, Path(folder) / f"pairs-{pairs}")))


if __name__ == "__main__":
    main()
