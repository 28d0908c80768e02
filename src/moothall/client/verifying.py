"""Check receipts and the files of cases, without a hall."""

from collections.abc import Collection

from moothall.court import verify
from moothall.identity import PublicKey
from moothall.identity.seals import key_id, read_hall
from moothall.market import receipts
from moothall.market.proof import Proof as Proof


def verify_receipt(body: bytes, hall: PublicKey | str) -> Proof:
    """Check a receipt, as `Receipt.body` holds it.

    `hall` is the hall whose word counts: its public key, its PEM, hex or base64 text, or its key id. The result
    `holds` if nothing contradicts itself and this hall signed the receipt. Raises InvalidKey if `hall` is no key.

        for receipt in await agent.receipts():
            print(receipt.proposal_id, verify_receipt(receipt.body, hall_key).problems)
    """
    return receipts.verify_receipt(body, _key_ids(hall))


def verify_case(case: object, hall: PublicKey | str) -> Proof:
    """Check the file of a case, as `await dispute.case()` gives it; otherwise like `verify_receipt`."""
    return verify.verify_case(case, _key_ids(hall))


def _key_ids(hall: PublicKey | str) -> Collection[str]:
    return (key_id(hall) if isinstance(hall, PublicKey) else read_hall(hall),)
