"""The keys and tokens of a crew on the host: made once, and handed to each start of an agent."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from moothall.errors import UsageError
from moothall.identity import Identity, PrivateKey, load_or_create
from moothall.worker import state_file
from moothall.worker.crew.places import MemberPlaces
from moothall.worker.crew.plan import Crew
from moothall.worker.lifeline import MAX_TOKEN

TOKEN: Final = "oauth-token"  # its file in the folder of secrets  # noqa: S105


def make(places: MemberPlaces) -> None:
    """Give the agent a key of its own, if it has none. Raises MoothallError."""
    created = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    load_or_create(places.identity, lambda: Identity(PrivateKey(os.urandom(32)), places.name, created))


def put_token(crew: Crew, places: MemberPlaces) -> Path:
    """Put the model's token where the supervisor reads and deletes it. Return the file. Raises UsageError."""
    file = places.secrets / TOKEN
    if crew.token is not None:
        state_file.write(file, read_token(crew.token))
    return file


def read_token(file: Path) -> bytes:
    """The token in a file of the user. Raises UsageError."""
    try:
        with file.open("rb") as content:
            token = content.read(MAX_TOKEN + 1)
    except OSError as error:
        raise UsageError(f"the token file {file} cannot be read: {error.strerror}") from None
    if not token.strip() or len(token) > MAX_TOKEN:
        raise UsageError(f"the token file {file} is empty, or too long for a token")
    return token
