"""Envelopes of the mesh that were said in the channels of a node a moment ago, at any node.

A node notes the nonces of what it took itself, and of what other nodes handed on. An envelope can be replayed at a
node that had no agent to hear its topic. Its text would be said twice. The home of the channel has heard all lines,
with the envelopes that they came in, and so have the nodes with members. Each envelope is for one channel.
"""

from collections import OrderedDict
from typing import Final

from moothall.hall.wires import MESH
from moothall.wire.agentchat.server import Chat
from moothall.wire.mesh.nonces import TOLERANCE

# An envelope may be from a clock that is ahead by the tolerance, and is taken until it is behind by it. Nodes may
# have clocks of their own.
SECONDS: Final = 4 * TOLERANCE
MAX_NOTED: Final = 65_536  # some 12 MB: 500 lines a second


class Originals:
    def __init__(self) -> None:
        self._noted: OrderedDict[int, float] = OrderedDict()  # by hash, with the time; the latest is the last

    def __len__(self) -> int:
        return len(self._noted)

    def note(self, line: Chat, now: float) -> None:
        if line.packet is None or line.via != MESH:
            return
        noted = self._noted
        noted[hash(line.packet)] = now
        noted.move_to_end(hash(line.packet))
        while len(noted) > MAX_NOTED or now - next(iter(noted.values())) > SECONDS:
            noted.popitem(last=False)

    def has(self, line: Chat, now: float) -> bool:
        """True if the envelope of this line was said before."""
        if line.packet is None or line.via != MESH:
            return False
        noted_at = self._noted.get(hash(line.packet))
        return noted_at is not None and now - noted_at <= SECONDS
