"""The mesh: what an envelope from agent to agent costs a hall, beside what its signature alone costs.

    python -m benchmarks.envelopes SECONDS

is the yardstick: one Ed25519 verification per envelope, the least that an envelope can cost, again and again,
measured like a server. The rest of this module says what is measured beside it, with the agents of mesh_agents.py.
"""

import sys
from typing import Final

import msgspec

from benchmarks.mesh_agents import Key, proposes
from benchmarks.workloads import Bound, Contender, Quantity, Workload
from benchmarks.yardstick import verify_for
from moothall.wire.mesh.envelope import decode, signing_bytes

DISTINCT: Final = 1000  # envelopes of the yardstick, so that no cache makes them cheaper than a hall's

CPU_PER_ENVELOPE: Final = Quantity("CPU us per envelope", lambda run: run.server_cpu_us_per_delivery)

_VERIFICATION: Final = Contender("1 verification", None, ("benchmarks.envelopes",))


def _sending(kind: str, senders: int, in_flight: int) -> Contender:
    label = f"{kind}, {senders} sender{'s' if senders > 1 else ''}"
    arguments = (kind, "--senders", str(senders), "--in-flight", str(in_flight))
    return Contender(label, "mesh", arguments, generator="benchmarks.mesh_agents")


_SENDING: Final = (_sending("PROPOSE", 16, 8), _sending("PROPOSE", 1, 32), _sending("BROADCAST", 1, 32))

ENVELOPES: Final = (
    Workload(
        "mesh",
        "envelopes over /mesh, beside what their signatures alone cost",
        CPU_PER_ENVELOPE,
        (_VERIFICATION, *_SENDING),
        # 75 % of the rate at which one core verifies; the aim is 85 %.
        tuple(
            Bound(contender.label, _VERIFICATION.label, must=1 / 0.75, aim=1 / 0.85) for contender in _SENDING
        ),
    ),
)


if __name__ == "__main__":
    messages = [signing_bytes(decode(raw)) for raw in proposes(Key(), Key(), DISTINCT)]
    sys.stdout.buffer.write(msgspec.json.encode(verify_for(float(sys.argv[1]), messages, each=1)))
