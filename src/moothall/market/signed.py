"""Commands of market and court, and the signatures under them. Decisions take only commands that were checked.

The wire says what was signed: a text, or the signing bytes of an envelope. So each wire can make the same deal.
"""

from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from moothall.errors import Refusal
from moothall.identity import PublicKey
from moothall.identity.signatures import verify


class SignedCommand(Struct, frozen=True, gc=False):
    """What every command of market and court is."""

    may_be_unsigned: ClassVar[bool] = False


AnyCommand = TypeVar("AnyCommand", bound=SignedCommand)
AnyCommand_co = TypeVar("AnyCommand_co", bound=SignedCommand, covariant=True)


class Sent(Struct, Generic[AnyCommand_co], frozen=True, gc=False):
    """A command as it came. Nothing is proven yet.

    command    what the agent wants
    key        the key that the agent has proven to this hall
    text       the bytes that were signed, exactly
    signature  64 bytes; None: what came is not a signature
    sig        the signature as its wire writes it: it is kept, and told to others, in this form. None: none came
    message    the message as the audit trail keeps it
    foreign    True if `text` cannot be written again from the fields of a receipt: then the receipt has to hold it
    """

    command: AnyCommand_co
    key: PublicKey
    text: bytes
    signature: bytes | None
    sig: str | None
    message: Any
    foreign: bool = False


class Signed(Struct, Generic[AnyCommand_co], frozen=True, gc=False):
    """A command that the owner of `key` gave. Made by `check_signature` only.

    `sig` is empty if the command came without one, which some may. `text` is what was signed, if receipts have to
    hold it.
    """

    command: AnyCommand_co
    key: bytes
    sig: str
    message: Any = None
    text: bytes | None = None


def check_signature(sent: Sent[AnyCommand], code: str) -> Signed[AnyCommand]:
    """The command with its proof, or the refusal with this code (seed 000, verification failure)."""
    if sent.sig is None and sent.command.may_be_unsigned:
        return Signed(sent.command, sent.key.raw, "", sent.message)
    if sent.sig is None or sent.signature is None or not verify(sent.key.raw, sent.text, sent.signature):
        raise Refusal.by_code[code]("The signature does not match the message and your key")
    return Signed(sent.command, sent.key.raw, sent.sig, sent.message, sent.text if sent.foreign else None)
