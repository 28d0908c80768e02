"""The message types of the mesh, and the way that each of them takes (mesh wire 4).

Thirteen are the specification's: three to all, eight from agent to agent, two to a topic. BROADCAST and BOUNTY
were added to the network later.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class MsgType(IntEnum):
    ADVERTISE = 0x01
    DISCOVER = 0x02
    PROPOSE = 0x03
    COUNTER = 0x04
    ACCEPT = 0x05
    REJECT = 0x06
    DELIVER = 0x07
    NOTARIZE_BID = 0x08
    NOTARIZE_ASSIGN = 0x09
    VERDICT = 0x0A
    FEEDBACK = 0x0B
    DISPUTE = 0x0C
    BEACON = 0x0D
    BROADCAST = 0x0E
    BOUNTY = 0x0F


MSG_TYPES: Final[Mapping[int, MsgType]] = {int(each): each for each in MsgType}
# `name` and the members of an enum are found by code of `enum`, which takes as long as a small function of ours. So
# names are also here, and modules that every envelope passes keep the members that they compare with.
NAMES: Final[Mapping[MsgType, str]] = {each: each.name for each in MsgType}

BROADCAST_TOPIC: Final = "/0x01/v1/broadcast"
NOTARY_TOPIC: Final = "/0x01/v1/notary"
REPUTATION_TOPIC: Final = "/0x01/v1/reputation"
NAMED_TOPIC: Final = "/0x01/v1/t/"  # and the name; for BROADCAST only

# Types that are not here are bilateral, but for BROADCAST.
TOPICS: Final[Mapping[MsgType, str]] = {
    MsgType.ADVERTISE: BROADCAST_TOPIC,
    MsgType.DISCOVER: BROADCAST_TOPIC,
    MsgType.BEACON: BROADCAST_TOPIC,
    MsgType.BOUNTY: BROADCAST_TOPIC,
    MsgType.NOTARIZE_BID: NOTARY_TOPIC,
    MsgType.FEEDBACK: REPUTATION_TOPIC,
}

BILATERAL: Final = frozenset(MsgType) - frozenset(TOPICS) - {MsgType.BROADCAST}
