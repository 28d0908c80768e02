"""Every error moothall raises on purpose.

    MoothallError
    ├── UsageError                  a setting, flag or file of the operator's is wrong
    │   ├── SettingsError
    │   └── KeyFileError
    │       └── KeyFileMissing
    ├── InvalidKey                  a text that should be an Ed25519 public key is not one
    ├── InvalidCertificate          a rotation chain or a revocation notice does not hold
    ├── OutcomeUnknown              the store cannot say whether a change was saved
    ├── StoreUnreachable            the store cannot be reached: nothing was saved
    ├── BusDown                     a node cannot ask the registry of its hall now; the outcome may be unknown
    ├── OutOfOrder                  a message of the mesh does not fit its conversation
    ├── CreditsRefused              the rules of the credits do not allow an operation
    │   └── NoCover                 an agent has fewer credits than it is to pay
    ├── PeerError                   a peer of the mesh's own network cannot be had
    │   ├── PeerUnreachable
    │   └── NotDelivered            an envelope got no ACK; it may have arrived all the same
    ├── DemoEnded                   an agent of `moothall demo` has left, or its play went wrong
    ├── NodeRefused                 a node of the mesh does not do what its program asked
    ├── ClientError                 an agent could not do what it was asked
    │   ├── NotConnected
    │   ├── ConnectionFailed
    │   ├── ConnectionLost
    │   ├── UntrustedHall
    │   ├── Displaced
    │   ├── Kicked
    │   ├── ReplyTimeout            also a TimeoutError
    │   │   ├── Unanswered          the hall did not answer a command
    │   │   └── NoAnswer            a question was asked, and no agent answered it
    │   ├── UnexpectedReply
    │   ├── EnvelopeRejected        the hall did not take an envelope of the mesh
    │   ├── FloorTaken
    │   ├── FloorLost
    │   └── TransferFailed          files did not arrive
    │       ├── TransferRejected
    │       ├── TransferCancelled
    │       ├── TransferTimeout     also a TimeoutError
    │       ├── HashMismatch
    │       └── OfferNotFound
    └── Refusal                     the peer asked for what it may not have: answered with ERROR
        ├── one class per wire code, below
        └── ...

A Refusal is the peer's fault: it becomes an ERROR frame with the class's `code`, and the log keeps a
count, not a traceback. Anything else that escapes a command is our fault and is logged as a bug.
In the SDK it is the other way round: an ERROR that a server sent is raised as the class with its code.
Two refusals with one code fail at import. Codes: specs of the agentchat wire, section 7.
"""

from typing import ClassVar, Literal


class MoothallError(Exception):
    """The root: catch this to catch everything moothall raises on purpose."""


class UsageError(MoothallError):
    """Something the operator wrote is wrong. The message says what to do next."""


class SettingsError(UsageError):
    """A setting has a value it cannot have."""


class KeyFileError(UsageError):
    """A key file is missing, unreadable, malformed or readable by others."""


class KeyFileMissing(KeyFileError):
    """There is no key file at this path."""


class InvalidKey(MoothallError):
    """Not an Ed25519 public key in PEM form."""


class InvalidCertificate(MoothallError):
    """A rotation chain or a revocation notice does not verify."""


class OutcomeUnknown(MoothallError):
    """The connection to a database was lost while a change was being committed."""


class StoreUnreachable(MoothallError):
    """There is no connection to the database. Nothing was saved."""


class BusDown(MoothallError):
    """The bus between the nodes of a hall is down, or went down before it answered."""


class OutOfOrder(MoothallError):
    """A conversation of the mesh does not allow this message now, or not from this agent. Nothing has changed.

    `state` is that of the conversation, where it is known.
    """

    def __init__(self, message: str, state: str = "IDLE") -> None:
        super().__init__(message)
        self.state = state


# Rules of the credits. The last two are the ledger's, for operators.
CreditReason = Literal[
    "NoCover",
    "AlreadySettled",
    "Unauthorized",
    "TimeoutNotReached",
    "TimeoutAlreadyReached",
    "ZeroAmount",
    "NotaryFeeWithoutNotary",
    "AmountOverflow",
    "InvalidReference",
    "ReferenceUsed",
]


class CreditsRefused(MoothallError):
    """An operation on credits is against the rules. `reason` is its name (mesh wire 10.2). Nothing has changed."""

    def __init__(self, message: str, reason: CreditReason | Literal[""] = "") -> None:
        super().__init__(message)
        self.reason = reason


class NoCover(CreditsRefused):
    """An agent has fewer credits than it is to pay."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "NoCover")


class PeerError(MoothallError):
    """A peer of the mesh's own network is not there, or does not answer."""


class PeerUnreachable(PeerError):
    """There is no connection to a peer."""


class NotDelivered(PeerError):
    """A peer did not acknowledge an envelope. It may have arrived all the same: send again with a new nonce."""


class DemoEnded(MoothallError):
    """The play of `moothall demo` cannot go on. The message says why."""


class NodeRefused(MoothallError):
    """A node does not do what the program asked. `status` is that of an HTTP answer. Nothing has changed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ClientError(MoothallError):
    """What happened to an agent, as opposed to what a hall refused it."""


class NotConnected(ClientError):
    """There is no connection, and none came up in time."""


class ConnectionFailed(ClientError):
    """No hall could be reached. The message says where it was looked for and what to try."""


class ConnectionLost(ClientError):
    """The connection ended. `code` and `reason` are the server's, if it said goodbye."""

    def __init__(self, message: str, code: int | None = None, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class UntrustedHall(ClientError):
    """The server may pass on the CHALLENGE of another hall, or is not the hall it was: nothing was signed."""


class Displaced(ClientError):
    """Another connection proved the same identity and took its place."""


class Kicked(ClientError):
    """The hall's operator sent the agent out."""


class ReplyTimeout(ClientError, TimeoutError):
    """The hall did not answer in time. Whether it did what was asked is unknown."""


class Unanswered(ReplyTimeout):
    """The hall did not answer a command in time."""


class NoAnswer(ReplyTimeout):
    """The hall took the question, and no agent answered it in time."""


class UnexpectedReply(ClientError):
    """The hall answered something that does not fit the question."""


class EnvelopeRejected(ClientError):
    """The hall refused an envelope. Nothing has changed. `fault` is the rule that it breaks (mesh wire 3.1)."""

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class FloorTaken(ClientError):
    """Another agent is answering this message already."""


class FloorLost(ClientError):
    """Another agent started to answer this message earlier."""


class TransferFailed(ClientError):
    """Files did not arrive. The message says why."""


class TransferRejected(TransferFailed):
    """The other agent does not take the files, or cannot."""


class TransferCancelled(TransferFailed):
    """The other agent ended the transfer."""


class TransferTimeout(TransferFailed, TimeoutError):
    """The other agent did not accept the files, or did not send them, in time."""


class HashMismatch(TransferFailed):
    """What arrived is not what was offered. Nothing was unpacked."""


class OfferNotFound(TransferFailed):
    """There is no offer with this transfer id: it has expired, or was answered before."""


class Refusal(MoothallError):
    """The answer to a command is ERROR with this code and message."""

    code: ClassVar[str] = ""
    by_code: ClassVar[dict[str, type["Refusal"]]] = {}

    def __init_subclass__(cls, code: str | None = None) -> None:
        """Without a `code` the class is a special case of the one it inherits from, and has that one's."""
        super().__init_subclass__()
        if code is None:
            return
        if code in Refusal.by_code:
            raise TypeError(f"two refusals with the code {code}")
        cls.code = code
        Refusal.by_code[code] = cls

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidMessage(Refusal, code="INVALID_MSG"):
    pass


class NotOffered(InvalidMessage):
    """The server does not know this type of message: it is an older one, or another program."""


class AuthRequired(Refusal, code="AUTH_REQUIRED"):
    pass


class WrongAdminKey(AuthRequired):
    """The hall does not take this admin key for this operation."""


class NotAllowed(Refusal, code="NOT_ALLOWED"):
    pass


class Banned(Refusal, code="BANNED"):
    pass


class LurkMode(Refusal, code="LURK_MODE"):
    pass


class RateLimited(Refusal, code="RATE_LIMITED"):
    pass


class ChannelNotFound(Refusal, code="CHANNEL_NOT_FOUND"):
    pass


class ChannelExists(Refusal, code="CHANNEL_EXISTS"):
    pass


class NotInvited(Refusal, code="NOT_INVITED"):
    pass


class InvalidName(Refusal, code="INVALID_NAME"):
    pass


class AgentNotFound(Refusal, code="AGENT_NOT_FOUND"):
    pass


class NoPublicKey(Refusal, code="NO_PUBKEY"):
    pass


class SignatureRequired(Refusal, code="SIGNATURE_REQUIRED"):
    pass


class VerificationRequired(Refusal, code="VERIFICATION_REQUIRED"):
    pass


class VerificationFailed(Refusal, code="VERIFICATION_FAILED"):
    pass


class VerificationExpired(Refusal, code="VERIFICATION_EXPIRED"):
    pass


class CaptchaFailed(Refusal, code="CAPTCHA_FAILED"):
    pass


class CaptchaExpired(Refusal, code="CAPTCHA_EXPIRED"):
    pass


class InvalidSignature(Refusal, code="INVALID_SIGNATURE"):
    pass


class ProposalNotFound(Refusal, code="PROPOSAL_NOT_FOUND"):
    pass


class InvalidProposal(Refusal, code="INVALID_PROPOSAL"):
    pass


class NotProposalParty(Refusal, code="NOT_PROPOSAL_PARTY"):
    pass


class ProposalExpired(Refusal, code="PROPOSAL_EXPIRED"):
    pass


class InvalidStake(Refusal, code="INVALID_STAKE"):
    pass


class InsufficientReputation(Refusal, code="INSUFFICIENT_REPUTATION"):
    pass


class DisputeAlreadyExists(Refusal, code="DISPUTE_ALREADY_EXISTS"):
    pass


class DisputeNotFound(Refusal, code="DISPUTE_NOT_FOUND"):
    pass


class DisputeNotParty(Refusal, code="DISPUTE_NOT_PARTY"):
    pass


class DisputeCommitmentMismatch(Refusal, code="DISPUTE_COMMITMENT_MISMATCH"):
    pass


class DisputeNotArbiter(Refusal, code="DISPUTE_NOT_ARBITER"):
    pass


class DisputeDeadlinePassed(Refusal, code="DISPUTE_DEADLINE_PASSED"):
    pass


class DisputeInvalidPhase(Refusal, code="DISPUTE_INVALID_PHASE"):
    pass


class InsufficientArbiters(Refusal, code="INSUFFICIENT_ARBITERS"):
    pass


class BudgetExceeded(Refusal, code="BUDGET_EXCEEDED"):
    """Ours: a worker reports more tokens than the operator allows for a day. The report was counted."""


class InternalError(Refusal, code="INTERNAL_ERROR"):
    """Ours: the hall could not do its part. The caller may try again."""


class Unavailable(Refusal, code="UNAVAILABLE"):
    """Ours: the database, or another node of the hall, cannot be reached. Nothing has changed. Try again later."""


class UnknownRefusal(Refusal, code="UNKNOWN"):
    """A server refused with a code that is not listed here; `code` on the instance is what it said."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # the class stands for many codes, an instance for one
