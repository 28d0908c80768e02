"""Whether the log of the mesh holds together: a part of `moothall store check`."""

from collections.abc import Iterator

import msgspec

from moothall.identity.seals import MESH_EPOCH, NoSeal, sealed_by
from moothall.market.epoch_ends import read_record
from moothall.market.epoch_log import ClosedEpoch
from moothall.store.dialect import Connection, Row
from moothall.store.reading_mesh_log import closed_epochs
from moothall.wire.mesh import merkle
from moothall.wire.mesh.envelope import NO_CONVERSATION, NO_RECIPIENT, decode
from moothall.wire.mesh.faults import EnvelopeRefused
from moothall.wire.mesh.keccak import keccak256

_LOG = (
    "SELECT epoch, number, hash, leaf, sender, msg_type, conversation_id, envelope FROM mesh_log"
    " ORDER BY epoch, number"
)


def log_problems(connection: Connection) -> Iterator[str]:
    """One sentence each. The log is read once, an envelope at a time."""
    closed = {each.epoch: each for each in closed_epochs(connection)}
    for each in closed.values():
        yield from _record_problems(each)
    epoch, tree = -1, merkle.Tree()
    for row in connection.stream(_LOG):
        if row[0] != epoch:
            yield from _tree_problems(closed.pop(epoch, None), tree)
            epoch, tree = row[0], merkle.Tree()
        tree.add(row[3])
        yield from _row_problems(row)
    yield from _tree_problems(closed.pop(epoch, None), tree)
    for each in closed.values():
        if each.envelopes:
            yield f"mesh log: epoch {each.epoch} had {each.envelopes} envelopes, and they are not there"


def _row_problems(row: Row) -> Iterator[str]:
    _, number, digest, leaf, sender, msg_type, conversation, raw = row
    try:
        envelope = decode(raw)
    except EnvelopeRefused as refused:
        yield f"mesh log: number {number} is not an envelope: {refused}"
        return
    said = (keccak256(raw), merkle.leaf(raw), envelope.sender, int(envelope.msg_type))
    named = {None if envelope.conversation_id == NO_CONVERSATION else envelope.conversation_id}
    if envelope.recipient == NO_RECIPIENT:
        named.add(None)  # a message to a topic need not belong to the conversation that it names
    if said != (digest, leaf, sender, msg_type) or conversation not in named:
        yield f"mesh log: the columns of number {number} do not say what the envelope says"


def _tree_problems(closed: ClosedEpoch | None, tree: merkle.Tree) -> Iterator[str]:
    if closed is not None and (closed.envelopes, closed.root) != (tree.size, tree.root()):
        yield (
            f"mesh log: epoch {closed.epoch} ended with {closed.envelopes} envelopes and the root"
            f" {closed.root.hex()[:16]}..., and now has {tree.size} and {tree.root().hex()[:16]}..."
        )


def _record_problems(closed: ClosedEpoch) -> Iterator[str]:
    try:
        sealed = read_record(closed).sealed
        sealed_by(MESH_EPOCH, sealed)
    except (msgspec.MsgspecError, NoSeal) as error:
        yield f"mesh log: the record of epoch {closed.epoch} is not what a hall signed: {error}"
        return
    said = (sealed.get("epoch"), sealed.get("envelopes"), sealed.get("root"), sealed.get("closed"))
    if said != (closed.epoch, closed.envelopes, closed.root.hex(), True):
        yield f"mesh log: the columns of epoch {closed.epoch} do not say what its record says"
