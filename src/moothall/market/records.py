"""What the market keeps: one struct per kind of row. Decisions make new ones; nothing changes one in place.

All times are whole milliseconds since the Unix epoch. A `key` is the 32 raw bytes of an Ed25519 public key:
ids are renderings of it, and no row depends on how long they are shown. None can be part of a cycle, and there
are thousands in memory, so the garbage collector need not look at them.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from moothall.market.reputation_vector import UNRATED, ReputationVector

Number = int | float
Scalar = int | float | str | bool  # what JSON has besides null, arrays and objects
Status = Literal["pending", "accepted", "rejected", "completed", "disputed", "expired"]


class Proposal(Struct, kw_only=True, frozen=True, gc=False):
    """A deal, from the offer to its end (agentchat wire 11.1). An optional value that was falsy is None."""

    id: str
    proposer: bytes
    recipient: bytes
    from_: str  # "@id" of the proposer, as shown
    to: str  # as sent, because it was signed
    task: str
    amount: Scalar | None = None
    currency: Scalar | None = None
    payment_code: Scalar | None = None
    terms: Any = None
    capability: str | None = None
    expires: int | None = None  # absolute
    expires_asked: Number | None = None  # the number of seconds, as signed
    status: Status = "pending"
    created_at: int
    updated_at: int
    sig: str
    proposer_stake: int = 0
    acceptor_stake: int = 0
    frozen_by: str | None = None  # the court case that holds this deal
    unrevealed_by: tuple[bytes, ...] = ()  # parties that went to court and did not reveal their nonce
    response_sig: str | None = None  # of ACCEPT or REJECT
    response_payment_code: Scalar | None = None
    reject_reason: Scalar | None = None
    completed_at: int | None = None
    completed_by: str | None = None
    completion_proof: Scalar | None = None
    completion_sig: str | None = None
    disputed_at: int | None = None
    disputed_by: str | None = None
    dispute_reason: str | None = None
    dispute_sig: str | None = None
    # What was signed, by the type of the operation in a receipt, if that cannot be written again from the fields.
    signed_texts: dict[str, bytes] | UnsetType = UNSET


class SkillStanding(Struct, kw_only=True, frozen=True, gc=False):
    """A rating within one capability (agentchat wire 12.8)."""

    rating: int = 1200
    transactions: int = 0
    updated: int | None = None


class Curbs(Struct, kw_only=True, frozen=True, omit_defaults=True, gc=False):
    """What the rules against farming remember of one key (see `curbs`)."""

    conceded: int = 0  # points that it lost to others as a newcomer
    newcomer_wins: int = 0  # disputes and verdicts won against newcomers, of the latest window
    wins_since: int = 0  # when that window began
    drained_at: int = 0  # when what it gained lately no longer counts


class Standing(Struct, kw_only=True, frozen=True, gc=False):
    """How one key stands (seed 001, reputation)."""

    key: bytes
    rating: int = 1200
    transactions: int = 0
    updated: int | None = None
    escrowed: int = 0  # the sum of its own stakes in open escrows
    skills: dict[str, SkillStanding] = field(default_factory=dict)
    curbs: Curbs = Curbs()
    mesh: ReputationVector = UNRATED  # what FEEDBACK of the mesh says of it


class EscrowResult(Struct, kw_only=True, frozen=True, omit_defaults=True, gc=False):
    """Where the stakes of a deal went."""

    proposer_stake: int
    acceptor_stake: int
    settlement: Literal["returned", "transferred", "burned"]
    transferred_to: str | None = None  # an address
    transferred_amount: int | UnsetType = UNSET
    burned_amount: int | UnsetType = UNSET


Book = Literal["elo", "credits"]


class Posting(Struct, frozen=True, gc=False):
    account: str
    amount: int


class Entry(Struct, kw_only=True, frozen=True, gc=False):
    """One movement within one book. Its postings sum to zero. (book, deal, operation) happens once."""

    book: Book
    deal: str
    operation: str
    postings: tuple[Posting, ...]
    at: int

    def __post_init__(self) -> None:
        if total := sum([posting.amount for posting in self.postings]):
            raise ValueError(
                f"{self.book} {self.deal} {self.operation}: an entry must sum to zero, not to {total}"
            )


class AuditRow(Struct, kw_only=True, frozen=True, gc=False):
    """`data` is JSON: the signed operation and what it changed, enough to replay the ratings."""

    at: int
    operation: str
    deal: str
    actor: bytes | None  # None: the clock
    data: bytes


class Receipt(Struct, kw_only=True, frozen=True, gc=False):
    """`body` is JSON: the COMPLETE message, `stored_at`, and the signed operations with their public keys."""

    proposal_id: str
    at: int
    body: bytes


class Advertised(Struct, kw_only=True, frozen=True, gc=False):
    """What an agent offers in its latest ADVERTISE (mesh wire 5)."""

    skills: list[dict[str, Any]]  # one for each capability
    about: dict[str, Any]  # the other members
    name: str  # of the agent, as its BEACON has it
    at: int
    timestamp: int  # of the envelope, in microseconds: an older one does not replace it
    envelope: bytes  # as it came; its signature covers what is offered, and not the name


class Registration(Struct, kw_only=True, frozen=True, gc=False):
    """What one agent offers. There are two sources, and neither replaces the other: `skills` are those of its
    latest REGISTER_SKILLS (agentchat wire 14), and `advertised` is its latest ADVERTISE on the mesh."""

    key: bytes
    agent_id: str  # without "@"
    skills: list[dict[str, Any]]
    registered_at: int
    sig: str
    advertised: Advertised | None = None

    def listed(self) -> list[tuple[dict[str, Any], int]]:
        """The skills that a search finds, and when the agent offered each. A capability of both sources is listed
        as it was registered: that has a description, and a rate of its own."""
        listed = [(skill, self.registered_at) for skill in self.skills]
        if self.advertised is not None:
            registered = {skill["capability"].lower() for skill in self.skills}
            listed += [
                (skill, self.advertised.at)
                for skill in self.advertised.skills
                if skill["capability"].lower() not in registered
            ]
        return listed


class Offer(Struct, frozen=True, gc=False):
    """One skill that an agent offers, as far as a search looks at it."""

    key: bytes
    position: int  # in the agent's list
    name: str  # of the capability, as the agent writes it
    registered_at: int


class Happening(Struct, frozen=True, gc=False):
    """Something that integrations may want to hear of: it becomes a HookEvent if one does."""

    name: str
    deal: Proposal
    at: int
    facts: dict[str, Any]


class HookEvent(Struct, kw_only=True, frozen=True, gc=False):
    """Something to tell integrations. `id` follows from what happened, so that it can be told once."""

    id: str
    name: str
    deal: str
    at: int
    body: bytes


class Revoked(Struct, frozen=True, gc=False):
    """This key's registration is gone from the directory."""

    key: bytes


class RatingPoint(Struct, kw_only=True, frozen=True, gc=False):
    """One step of an agent's rating over time."""

    key: bytes
    at: int
    rating: int
    why: str


Change = Proposal | Standing | Entry | AuditRow | Receipt | Registration | Happening | Revoked | RatingPoint
