"""Deals: what a hall makes of a core when every step is signed, verified and on the disk before it is answered.

    python -m benchmarks.deals SECONDS

is the yardstick: three Ed25519 verifications, the least that a deal (PROPOSAL, ACCEPT, COMPLETE) can cost, again
and again, measured like a server. The rest of this module says what is measured beside it.
"""

import sys
from typing import Final

import msgspec

from benchmarks.workloads import P99, Bound, Contender, Quantity, Workload
from benchmarks.yardstick import verify_for

STEPS: Final = 3  # of a deal, each with its signature
PAIRS: Final = 64
TALKERS: Final = ("--talkers", "4")

CPU_PER_DEAL: Final = Quantity("CPU us per deal", lambda run: run.server_cpu_us_per_delivery)
WALL_PER_DEAL: Final = Quantity("wall us per deal", lambda run: 1e6 / run.deliveries_per_second)

_VERIFICATIONS: Final = Contender("3 verifications", None, ("benchmarks.deals",))


def _dealing(label: str, server: str, pairs: int) -> Contender:
    return Contender(label, server, ("deals", "--verified", "--pairs", str(pairs)))


def _chatting(pairs: int) -> tuple[str, ...]:
    return ("chat", "--verified", "--pairs", str(pairs), *TALKERS)


DEALS: Final = (
    Workload(
        "deals",
        f"deals of {PAIRS} pairs, beside what their signatures alone cost",
        CPU_PER_DEAL,
        (_VERIFICATIONS, _dealing("moothall", "moothall", PAIRS)),
        # In wall time, a fifth of the rate at which one core verifies is five times the time.
        (
            Bound("moothall", _VERIFICATIONS.label, must=3.0, aim=2.5),
            Bound("moothall", _VERIFICATIONS.label, must=5.0, aim=2.0, quantity=WALL_PER_DEAL),
        ),
    ),
    Workload(
        "deals-shared",
        f"deals of one pair and of {PAIRS}, which share commits, where an fsync takes 4 ms",
        WALL_PER_DEAL,
        (
            _dealing("one pair", "moothall-slow-disk", 1),
            _dealing(f"{PAIRS} pairs", "moothall-slow-disk", PAIRS),
        ),
        (Bound(f"{PAIRS} pairs", "one pair", must=1 / 8),),
    ),
    Workload(
        "deals-chat",
        f"chat at 400 messages a second, alone and while {PAIRS} pairs deal as fast as they can",
        P99,
        (
            Contender("chat alone", "moothall", _chatting(0)),
            Contender("beside deals", "moothall", _chatting(PAIRS)),
        ),
        (Bound("beside deals", "chat alone", must=2.0),),
        at_least_seconds=5.0,  # a p99 needs a few thousand messages
    ),
)


if __name__ == "__main__":
    acceptance = b"ACCEPT|prop_mb3k2f1a_0123456789abcdef||10"
    sys.stdout.buffer.write(msgspec.json.encode(verify_for(float(sys.argv[1]), [acceptance], each=STEPS)))
