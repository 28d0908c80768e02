"""Orders of the parties of a conversation: CANCEL and CONSENT, signed texts that are not envelopes.

An order runs inside a transaction, like a step (`conversing`). The audit trail keeps the text with its signature,
because the log has envelopes only.
"""

from moothall.hall.mesh.frames import Cancel, Consent
from moothall.market import conversing
from moothall.market.audit_data import AuditData
from moothall.market.conversing import Dealt
from moothall.market.credits import Authority, deal_name
from moothall.market.desk_books import DeskBooks
from moothall.market.records import AuditRow
from moothall.market.storable import kept_json
from moothall.wire.mesh.keccak import keccak256


def carry_out(books: DeskBooks, key: bytes, order: Cancel | Consent, text: bytes, now: int) -> Dealt:
    """`text` is what was signed: postings name its hash. Raises OutOfOrder or CreditsRefused."""
    conversation_id = bytes.fromhex(order.conversation_id)
    authority = Authority(keccak256(text), key, order.nonce)
    decide = conversing.cancel if isinstance(order, Cancel) else conversing.consent
    dealt = decide(books, conversation_id, key, authority, now=now)
    data = kept_json(AuditData(message={"order": text.decode(), "sig": order.signature}))
    books.save(
        AuditRow(
            at=now, operation=f"mesh_{order.word}", deal=deal_name(conversation_id), actor=key, data=data
        )
    )
    return dealt
