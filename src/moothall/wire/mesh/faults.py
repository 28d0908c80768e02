"""Why an envelope is refused. The names are those of the reference's log, for logs, metrics and tests (mesh
wire 3.1).

No fault is ever told to a peer of the network; what agents of a hall are told is the hall's choice.
"""

from enum import StrEnum


class Fault(StrEnum):
    ENVELOPE_TOO_LARGE = "EnvelopeTooLarge"
    CBOR_DECODE = "CborDecode"
    UNKNOWN_MSG_TYPE = "UnknownMsgType"
    UNSUPPORTED_VERSION = "UnsupportedVersion"
    INVALID_SIGNATURE = "InvalidSignature"
    NONCE_REPLAY = "NonceReplay"
    TIMESTAMP_OUT_OF_TOLERANCE = "TimestampOutOfTolerance"
    PAYLOAD_HASH_MISMATCH = "PayloadHashMismatch"
    PAYLOAD_LENGTH_MISMATCH = "PayloadLengthMismatch"
    # The reference does not check these (mesh wire 3.3, 3.4).
    BEACON_KEY_MISMATCH = "BeaconKeyMismatch"
    WRONG_ROUTE = "WrongRoute"


class EnvelopeRefused(ValueError):
    """An envelope breaks a rule. `fault` is the first one that it breaks; the text says how."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


class PayloadParseError(ValueError):
    """A payload is not what its type says. Its envelope is valid all the same (mesh wire 4)."""
