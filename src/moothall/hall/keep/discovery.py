"""What `discover:` is answered with: compact JSON, exactly as the reference writes it (keep wire 8).

A list that does not fit into a packet ends early; the reference would leave such a question unanswered.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from moothall.hall.keep.listing import Listing, json_text
from moothall.hall.keep.scars import Scar, Scars
from moothall.wire.keep.codec import encode
from moothall.wire.keep.packet import MAX_PACKET, OFFER, Packet

SERVER: Final = "server"  # who packets of the hall's own are from

# A reply's length bytes can grow with what is put into it.
_SLACK: Final = 8


class Answer(NamedTuple):
    body: str
    left_out: int = 0  # entries that did not fit


def reply(request_id: str, body: str) -> bytes:
    """A packet of the hall's own: unsigned, with the id of the request (keep wire 7)."""
    return encode(Packet(typ=OFFER, id=request_id, src=SERVER, body=body))


def room(request_id: str) -> int:
    """The bytes of the largest body that fits into the reply to this request."""
    return MAX_PACKET - len(reply(request_id, "")) - _SLACK


def info(*, agents_online: int, uptime: float, version: str) -> Answer:
    return Answer(json_text({"agents_online": agents_online, "uptime_sec": int(uptime), "version": version}))


def agents(identities: Listing, limit: int) -> Answer:
    return _fitted(limit, '{"agents":[', identities.texts, len(identities), "]}")


def stats(scars: Scars, total_packets: int, limit: int) -> Answer:
    senders, counts = scars.senders, scars.counts
    pairs = (f"{text}:{counts[src]}" for src, text in zip(senders, senders.texts, strict=True))
    tail = f'}},"total_packets":{total_packets}}}'
    return _fitted(limit, '{"scar_exchanges":{', pairs, len(senders), tail)


def scars(scars: Scars, limit: int) -> Answer:
    """Ours: sizes and hashes of the latest memory commits, by identity."""
    senders, recent = scars.senders, scars.recent
    pairs = (
        f"{text}:[{','.join(map(_commit, recent[src]))}]"
        for src, text in zip(senders, senders.texts, strict=True)
    )
    return _fitted(limit, '{"scars":{', pairs, len(senders), "}}")


def hall(*, channel: str, name: str, pk: bytes, limit: int) -> Answer:
    """Ours: the key with which the hall signs what it brings over from other wires. If that is all that fits, it is
    all that is told."""
    known = {"channel": channel, "name": name, "pk": pk.hex()}
    body = json_text(known)
    if len(body.encode()) <= limit:
        return Answer(body)
    return Answer(json_text({"pk": pk.hex()}), len(known) - 1)


def _commit(scar: Scar) -> str:
    return f'{{"sha256":"{scar.sha256}","size":{scar.size}}}'


def _fitted(limit: int, head: str, entries: Iterable[str], count: int, tail: str) -> Answer:
    """As many entries as fit; what does not is not even made, so no answer takes long however much there is."""
    left = limit - len(head) - len(tail)
    fitting: list[str] = []
    for entry in entries:
        left -= (len(entry) if entry.isascii() else len(entry.encode())) + 1
        if left < 0:
            break
        fitting.append(entry)
    return Answer(f"{head}{','.join(fitting)}{tail}", count - len(fitting))
