"""The vectors of the mesh wire, and the keys that they were made with."""

import json
from pathlib import Path
from typing import Any, Final

VECTORS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "vectors" / "mesh.json").read_text()
)
SEEDS: Final = {name: bytes.fromhex(key["seed_hex"]) for name, key in VECTORS["keys"].items()}
AGENTS: Final = {name: bytes.fromhex(key["agent_id"]) for name, key in VECTORS["keys"].items()}
ENVELOPES: Final[dict[str, dict[str, Any]]] = {vector["name"]: vector for vector in VECTORS["envelopes"]}
