"""What agents tell all others: ADVERTISE, DISCOVER, BEACON and BOUNTY (mesh wire 5)."""

import re
from typing import Annotated, Any, Final, Self

from msgspec import Meta, Struct, field, structs

from moothall.wire.mesh.envelope import AGENT_ID_BYTES
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.jsonobjects import convert, read_object, write_object

MAX_CAPABILITIES: Final = 32  # those after them do not count
MAX_DOWNPAYMENT_BPS: Final = 5000
BEACON_SECONDS: Final = 30  # from one BEACON of an agent to its next (mesh wire 7)
MAX_NAME: Final = 64  # bytes that are read of the name in a BEACON
NAME_DIGITS: Final = 8  # of an id, in the name of an agent that chose none
MAX_TASK_SUMMARY: Final = 200  # characters

_CAPABILITY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class Geo(Struct, frozen=True, omit_defaults=True):
    country: Annotated[str, Meta(pattern=r"^[A-Za-z]{2,8}\Z")]
    city: str | None = None


class Advertise(Struct, frozen=True, kw_only=True):
    """What an agent offers. `extra` has the members that only applications know."""

    capabilities: tuple[str, ...] = ()
    geo: Geo | None = None
    price_range_usd: tuple[float, float] | None = None
    downpayment_bps: Annotated[int, Meta(ge=0)] | None = None
    token_address: str | None = None
    min_token_hold: int | float | None = None
    capability_proofs: tuple[dict[str, Any], ...] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Raises ValueError for capabilities that receivers would not see."""
        if len(self.capabilities) > MAX_CAPABILITIES or not all(
            map(_CAPABILITY.fullmatch, self.capabilities)
        ):
            raise ValueError(
                f"an ADVERTISE names at most {MAX_CAPABILITIES} capabilities,"
                " each of 1 to 64 letters, digits, - or _"
            )
        members = structs.asdict(self)
        extra = members.pop("extra")
        if members.keys() & extra.keys():
            raise ValueError("`extra` has a member with the name of a known one")
        if self.geo is not None:
            members["geo"] = {
                name: value for name, value in structs.asdict(self.geo).items() if value is not None
            }
        return write_object(members | extra)

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Capabilities that are not names are left out. Raises PayloadParseError."""
        members = read_object(payload)
        if members is None:
            raise PayloadParseError("not a JSON object")
        extra = {name: value for name, value in members.items() if name not in _KNOWN}
        known = {name: value for name, value in members.items() if name in _KNOWN}
        offer = convert(known, cls)
        return structs.replace(
            offer,
            capabilities=tuple(filter(_CAPABILITY.fullmatch, offer.capabilities[:MAX_CAPABILITIES])),
            downpayment_bps=None
            if offer.downpayment_bps is None
            else min(offer.downpayment_bps, MAX_DOWNPAYMENT_BPS),
            extra=extra,
        )


_KNOWN: Final = frozenset(each.name for each in structs.fields(Advertise)) - {"extra"}


class Discover(Struct, frozen=True):
    """A search for agents with a capability."""

    query: str

    def encode(self) -> bytes:
        return write_object({"query": self.query})

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises PayloadParseError."""
        return convert(read_object(payload), cls)


class Beacon(Struct, frozen=True):
    """The agent is there. Its id is in the payload twice, as agent and as key (mesh wire 3.3)."""

    agent_id: bytes
    name: str = ""

    def encode(self) -> bytes:
        return self.agent_id * 2 + self.name.encode()

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Of the name, printable ASCII in its first 64 bytes counts. Raises PayloadParseError."""
        agent_id = payload[:AGENT_ID_BYTES]
        start = 2 * AGENT_ID_BYTES
        if len(payload) < start or payload[AGENT_ID_BYTES:start] != agent_id:
            raise PayloadParseError("a BEACON starts with the agent id, twice")
        name = payload[start : start + MAX_NAME]
        return cls(agent_id, bytes(byte for byte in name if 0x20 <= byte < 0x7F).decode())


def default_name(agent_id: bytes) -> str:
    """The name of an agent that chose none (mesh wire 1)."""
    return agent_id.hex()[:NAME_DIGITS]


class Bounty(Struct, frozen=True, kw_only=True):
    """An open call for work."""

    required_capability: Annotated[str, Meta(min_length=1)]
    max_budget_usd: Annotated[float, Meta(gt=0)]
    deadline_secs: Annotated[int, Meta(ge=0)]
    task_summary: str
    conversation_id: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]

    def encode(self) -> bytes:
        return write_object(structs.asdict(self))

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Of the summary, 200 characters count. Raises PayloadParseError."""
        bounty = convert(read_object(payload), cls)
        return structs.replace(bounty, task_summary=bounty.task_summary[:MAX_TASK_SUMMARY])
