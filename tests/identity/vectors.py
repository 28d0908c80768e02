"""The keys and certificates of the reference, as PrivateKey and JSON objects."""

import json
from pathlib import Path
from typing import Any

from moothall.identity import PrivateKey

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text())
SEEDS = {key["name"]: bytes.fromhex(key["ed25519_seed_hex"]) for key in VECTORS["keys"]}

ALICE = PrivateKey(SEEDS["alice"])
BOB = PrivateKey(SEEDS["bob"])
CAROL = PrivateKey(SEEDS["carol"])
DAVE = PrivateKey(SEEDS["dave"])

# 2026-01-02T03:04:05.678Z, the moment at which the vectors were signed
NOW_MS = 1_767_323_045_678
