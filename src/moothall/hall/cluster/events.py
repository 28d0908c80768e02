"""What records of a channel's log say, and what nodes submit to the home of a channel.

A record has what the home did, and other nodes do the same. They have the same members, and tell their own agents
what the home told its own. Types and fields are only added, fields at the end and with a default.
"""

from typing import Final

import msgspec

from moothall.errors import InternalError, Refusal
from moothall.hall.cluster.remote import AgentRecord
from moothall.wire.agentchat.client import Number
from moothall.wire.bus import pack


class _Part(msgspec.Struct, array_like=True, frozen=True):
    pass


# -- records ---------------------------------------------------------------------------------------


class Said(_Part, tag="said", frozen=True):
    """A line that stays in the history, as JSON."""

    text: bytes
    author: str  # its id; "" for @server
    has_echo: bool  # the author gets it, too
    by_agent: bool
    asks: str = ""  # its author wants delivery receipts, from this status on


class Told(_Part, tag="told", frozen=True):
    """WebSocket frames for the watchers of the channel."""

    frames: bytes
    but: str = ""  # the id of an agent that does not get them


class Entered(_Part, tag="entered", frozen=True):
    agent: AgentRecord


class Left(_Part, tag="left", frozen=True):
    id: str


class Invited(_Part, tag="invited", frozen=True):
    id: str


class Shown(_Part, tag="shown", frozen=True):
    """The agent gets the members and the history, in answer to this `ref`."""

    id: str
    ref: str | None
    arrival: int = 0  # of the connection that asked; 0: any


class Replied(_Part, tag="replied", frozen=True):
    """WebSocket frames for the agent whose command this was."""

    id: str
    frames: bytes
    arrival: int = 0  # of the connection that gave it; 0: any


class Unsaid(_Part, tag="unsaid", frozen=True):
    """The last line of the history was taken out of it."""


class Claimed(_Part, tag="claimed", frozen=True):
    """An agent has the floor for this message. `age` is how long it has had it, in seconds."""

    msg_id: str
    holder: str
    started_at: Number  # as the agent gave it
    is_human: bool
    address: str | None
    age: float = 0.0


class Unclaimed(_Part, tag="unclaimed", frozen=True):
    msg_id: str


class Missing(_Part, tag="missing", frozen=True):
    """Lines may be missing: members are told of a gap."""

    reason: str


class Swarm(_Part, tag="swarm", frozen=True):
    """A packet to `swarm:` and the name of the channel, for members on other nodes than that of its author."""

    node: str  # of the author, which has told its own members
    text: bytes  # the packet as a line, as JSON; b"": members on the keep wire alone get it
    packet: bytes  # as its author signed it; b"": the line has it
    told: list[str]  # ids of agents that get it by their skill or their name


Event = (
    Said | Told | Entered | Left | Invited | Shown | Replied | Unsaid | Claimed | Unclaimed | Missing | Swarm
)


# -- submissions -----------------------------------------------------------------------------------


class Ordered(_Part, tag="ordered", frozen=True):
    """A command of an agent about the channel, as JSON."""

    agent: AgentRecord
    ref: str | None
    text: bytes


class Say(_Part, tag="say", frozen=True):
    """A line of an agent, as JSON."""

    id: str
    text: bytes
    asks: str = ""


class Announce(_Part, tag="announce", frozen=True):
    """A line of @server, as JSON."""

    text: bytes
    buffered: bool = True


class Arrive(_Part, tag="arrive", frozen=True):
    """The agent enters without having asked; `is_visitor`: it is one of another wire."""

    agent: AgentRecord
    is_visitor: bool = False


class Depart(_Part, tag="depart", frozen=True):
    """The agent has left the hall, or must leave the channel."""

    id: str
    is_visitor: bool = False
    is_named: bool = False  # the notice has its name
    arrival: int = 0  # this connection of the agent, and no later one; 0: any


class Discard(_Part, tag="discard", frozen=True):
    """The channel is to make way for another one, if it is empty."""


Submission = Ordered | Say | Announce | Arrive | Depart | Discard | Swarm


class Answered(_Part, frozen=True):
    """What came of a submission that changed nothing."""

    code: str = ""  # of an error
    message: str = ""
    frames: bytes = b""  # for the agent whose command it was


# -- state -----------------------------------------------------------------------------------------


class Own(_Part, frozen=True):
    """What a node brings to a home."""

    members: list[AgentRecord]
    claims: list[Claimed]


class State(_Part, frozen=True):
    members: list[AgentRecord]
    invited: list[str]
    lines: list[bytes]  # the history, as JSON
    claims: list[Claimed]


encode: Final = pack
decode_events: Final = msgspec.msgpack.Decoder(list[Event]).decode
decode_submission: Final = msgspec.msgpack.Decoder(Submission).decode
decode_answer: Final = msgspec.msgpack.Decoder(Answered).decode
decode_own: Final = msgspec.msgpack.Decoder(Own).decode
decode_state: Final = msgspec.msgpack.Decoder(State).decode


def refused(refusal: Refusal) -> bytes:
    return encode(Answered(refusal.code, refusal.message))


def refusal_of(answer: Answered) -> Refusal:
    """The error that the home answered with. A later version may have errors that this one does not know."""
    return Refusal.by_code.get(answer.code, InternalError)(answer.message)
