"""The key of every made-up hall, and what signs with it."""

from typing import Final

from moothall.identity import PrivateKey
from moothall.identity.seals import Seal, key_id

HALL: Final = PrivateKey(bytes(range(100, 132)))
SEAL: Final = Seal(HALL)
HALL_ID: Final = key_id(HALL.public)
