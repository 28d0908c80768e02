"""Check receipts and the files of cases, without a hall."""

from collections.abc import Collection, Mapping

from moothall.court import verify
from moothall.identity import PublicKey
from moothall.identity.seals import key_id, read_hall
from moothall.known_halls import KnownHalls
from moothall.market import receipts
from moothall.market.proof import Proof as Proof


def verify_receipt(body: bytes, hall: PublicKey | str | None = None) -> Proof:
    """Check a receipt, as `Receipt.body` holds it.

    `hall` is the hall whose word counts: its public key, its PEM, hex or base64 text, or its key id. Without it,
    the word of each hall counts that this user's agents have met. The result `holds` if nothing contradicts itself
    and one of these halls signed the receipt. Raises InvalidKey if `hall` is not a key, and UsageError if the
    file of known halls is damaged.

        for receipt in await agent.receipts():
            print(receipt.proposal_id, verify_receipt(receipt.body).problems)
    """
    return receipts.verify_receipt(body, _key_ids(hall))


def verify_case(case: object, hall: PublicKey | str | None = None) -> Proof:
    """Check the file of a case, as `await dispute.case()` gives it; otherwise like `verify_receipt`."""
    return verify.verify_case(case, _key_ids(hall))


def known_halls() -> Mapping[str, str]:
    """The key ids of the halls that this user's agents have met, with the address of each."""
    pins = KnownHalls().read()
    return {key_id(PublicKey(bytes.fromhex(pin.key))): place for place, pin in pins.items()}


def _key_ids(hall: PublicKey | str | None) -> Collection[str]:
    if hall is None:
        return known_halls()
    return (key_id(hall) if isinstance(hall, PublicKey) else read_hall(hall),)
