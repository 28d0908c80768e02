"""Keep: signed packets, routed from one connection to another, beside what their signatures alone cost.

    python -m benchmarks.keep SECONDS

is the yardstick: one Ed25519 verification per packet, the least that a packet can cost, again and again, measured
like a server, on each processor that it may use. The rest of this module says what is measured beside it.
"""

import sys
from typing import Final

import msgspec

from benchmarks.workloads import P99, Bound, Contender, Quantity, Workload
from benchmarks.yardstick import verify_everywhere
from moothall.wire.keep.codec import signing_bytes
from moothall.wire.keep.packet import Packet

SENDERS: Final = 16
DISTINCT: Final = 1000  # packets of the yardstick, so that no cache makes them cheaper than a server's

CPU_PER_PACKET: Final = Quantity("CPU us per packet", lambda run: run.server_cpu_us_per_delivery)
WALL_PER_PACKET: Final = Quantity("wall us per packet", lambda run: 1e6 / run.deliveries_per_second)

_VERIFICATION: Final = Contender("1 verification", None, ("benchmarks.keep",))
_ONE: Final = ("keep", "--in-flight", "32")
_MANY: Final = ("keep", "--senders", str(SENDERS), "--in-flight", "8")
_PAIRS: Final = (*_MANY, "--receivers", str(SENDERS), "--stopped")
_ONE_SENDER: Final = Contender("1 sender", "keep", _ONE)
_MANY_SENDERS: Final = Contender(f"{SENDERS} senders", "keep", _MANY)

KEEP: Final = (
    Workload(
        "keep",
        "signed keep packets from A to B, beside what their signatures alone cost",
        CPU_PER_PACKET,
        (_VERIFICATION, _ONE_SENDER, _MANY_SENDERS),
        # 95 % of the rate at which libsodium alone verifies on one core; the aim is 97 %.
        tuple(
            Bound(contender.label, _VERIFICATION.label, must=1 / 0.95, aim=1 / 0.97)
            for contender in (_ONE_SENDER, _MANY_SENDERS)
        ),
    ),
    Workload(
        "keep-two-cores",
        f"packets of {SENDERS} senders, the server on one core and on both, one of which the generator needs too",
        WALL_PER_PACKET,
        (
            Contender("1 verifier", None, _VERIFICATION.arguments),
            Contender("2 verifiers", None, _VERIFICATION.arguments, both_cores=True),
            Contender("one core", "keep", _MANY),
            Contender("both cores", "keep", _MANY, both_cores=True),
        ),
        # What a second core is worth is for the verifiers to say: two threads of one core are not two cores.
        (Bound("both cores", "2 verifiers", must=1 / 0.70, aim=1 / 0.85),),
    ),
    Workload(
        "keep-stopped",
        f"packets of {SENDERS} pairs, alone and while one more receiver has stopped reading",
        P99,
        (
            Contender("the others alone", "keep", (*_PAIRS, "0")),
            Contender("one stopped", "keep", (*_PAIRS, "1")),
        ),
        (Bound("one stopped", "the others alone", must=2.0, aim=1.1),),
        at_least_seconds=5.0,  # what the kernel and the hall hold for a receiver has to run full first
    ),
)


# -- the yardstick -------------------------------------------------------------------------------------


def _signed_bytes(number: int) -> bytes:
    """As long as what the generator signs (generator/keep.c)."""
    return signing_bytes(
        Packet(
            id=f"{number:08x}-70f0-4a11-8b3c-{number:012x}",
            src="bot:sender-0",
            dst="bot:receiver-0",
            body="The parser is done. " * 5,
            ttl=60,
        )
    )


if __name__ == "__main__":
    packets = [_signed_bytes(number) for number in range(DISTINCT)]
    sys.stdout.buffer.write(msgspec.json.encode(verify_everywhere(float(sys.argv[1]), packets, each=1)))
