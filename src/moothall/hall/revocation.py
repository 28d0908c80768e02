"""A key's owner brings the notice that ends it (agentchat wire 3.7; the message REVOKE_KEY is ours).

A notice is signed by the key it revokes, so it proves itself: it is taken from any connection, identified or not,
and whoever finds one may bring it. It holds at once, and is answered when it is on disk. Nobody comes in with
that key any more. Its deals stay, for the other party to end.
"""

import json
from collections.abc import Callable
from typing import Final

from moothall.errors import InvalidCertificate, InvalidMessage, NotAllowed, Refusal
from moothall.hall.hall import Hall
from moothall.hall.revoked import NOTICE_FIELDS, REVOKED_FILE, encode_revoked
from moothall.hall.session import Session
from moothall.identity import PublicKey
from moothall.identity.certificates import verify_revocation
from moothall.wire.agentchat.client import RevokeKey
from moothall.wire.agentchat.server import KeyRevoked
from moothall.wire.websocket import NORMAL

MAX_NOTICE: Final = 4096  # characters of what is kept of one

# Keys cost nothing. Notices for keys that were never here are taken up to this many, so that nobody fills the disk;
# one for a key that this hall knows is always taken.
MAX_STRANGERS: Final = 10_000


def revoke(hall: Hall, session: Session, message: RevokeKey) -> PublicKey:
    """From now on nobody comes in with this key. Not on disk yet: see `saving`."""
    notice = {name: message.notice[name] for name in NOTICE_FIELDS if name in message.notice}
    try:
        key = verify_revocation(notice)
    except InvalidCertificate as error:
        hall.note("revocation_refused", ip=session.ip)
        raise Refusal.by_code[hall.settings.signature_code](f"The notice does not hold: {error}") from None
    if len(json.dumps(notice)) > MAX_NOTICE:
        raise InvalidMessage(f"A notice has at most {MAX_NOTICE} characters")
    if key.raw not in hall.revoked and len(hall.revoked) >= MAX_STRANGERS and not _is_known(hall, key):
        raise NotAllowed("This hall takes no more notices for keys that it never saw")
    hall.revoked.add(key, notice)
    hall.note("key_revoked", ip=session.ip, agent=key.fingerprint)
    agent = hall.by_key.get(key.raw)
    if agent is not None and agent.session is not session:
        hall.tell(agent, _notice(hall, key))
        hall.close(agent.session, NORMAL, "Key revoked")
    for bearer in [other for other in hall.agents.values() if other.claimed_key == key]:
        hall.close(bearer.session, NORMAL, "Key revoked")
    return key


def saving(hall: Hall) -> Callable[[], None]:
    """What brings the list to the disk, to be called where it may wait. Strangers can bring the same notice
    again and again, and many at once: a list that is there already is not written again."""
    revoked = hall.revoked

    def save() -> None:
        notices = revoked.notices()
        if len(notices) > revoked.on_disk:
            hall.shelf.write(REVOKED_FILE, encode_revoked(notices))
            revoked.on_disk = len(notices)

    return save


def confirm(hall: Hall, session: Session, key: PublicKey) -> None:
    hall.reply(session, _notice(hall, key))
    if session.agent is not None and session.agent.key == key:
        hall.close(session, NORMAL, "Key revoked")


def _notice(hall: Hall, key: PublicKey) -> KeyRevoked:
    address = f"@{key.agent_id(hall.settings.id_length)}"
    return KeyRevoked(ts=hall.timestamp(), agent_id=address, fingerprint=key.fingerprint)


def _is_known(hall: Hall, key: PublicKey) -> bool:
    agent_id = key.agent_id(hall.settings.id_length)
    return hall.keyring.knows(agent_id, key.raw)
