"""The vectors of the mesh wire, and the keys that they were made with."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from moothall.identity.signatures import sign
from moothall.wire.mesh.envelope import Envelope, decode, signing_bytes
from moothall.wire.mesh.keccak import keccak256

VECTORS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "vectors" / "mesh.json").read_text()
)
SEEDS: Final = {name: bytes.fromhex(key["seed_hex"]) for name, key in VECTORS["keys"].items()}
AGENTS: Final = {name: bytes.fromhex(key["agent_id"]) for name, key in VECTORS["keys"].items()}
ENVELOPES: Final[dict[str, dict[str, Any]]] = {vector["name"]: vector for vector in VECTORS["envelopes"]}


def signer(name: str) -> Callable[[bytes], bytes]:
    """What the agent A, B or N of the vectors signs with."""
    return partial(sign, SEEDS[name])


def vector_envelope(name: str) -> Envelope:
    """The envelope of the vectors with this message type."""
    return decode(bytes.fromhex(ENVELOPES[name]["envelope_cbor_hex"]))


def altered(envelope: Envelope, by: str = "A", **fields: Any) -> Envelope:
    """The envelope with other fields, signed anew."""
    changed = structs.replace(envelope, **fields)
    return structs.replace(changed, signature=sign(SEEDS[by], signing_bytes(changed)))


def with_payload(envelope: Envelope, payload: bytes, by: str = "A") -> Envelope:
    return altered(envelope, by, payload=payload, payload_hash=keccak256(payload), payload_len=len(payload))
