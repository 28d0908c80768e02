"""What commands read from a file, or from standard input."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall.errors import InvalidKey, UsageError
from moothall.wire import canonical

if TYPE_CHECKING:
    from moothall.identity import PublicKey

STANDARD_INPUT: Final = "-"
MAX_JSON: Final = 16 * 1024 * 1024  # bytes; the largest case that a hall can export has a quarter of that


def read_content(word: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if word == STANDARD_INPUT else Path(word).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"{word}: {error.strerror}") from None
    except RuntimeError:  # of `~name`
        raise UsageError(f"{word}: there is no such home directory") from None


def read_json(word: str) -> Any:
    content = read_content(word)
    if len(content) > MAX_JSON:
        raise UsageError(f"{word} has more than {MAX_JSON} bytes, so it is not read")
    return parse_json(content, word)


def parse_json(content: bytes, word: str) -> Any:
    """`word` is what the user calls it."""
    try:
        return canonical.read_json(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{word} is not JSON: {error}") from None


def read_objects(word: str, what: str, example: str) -> list[dict[str, Any]]:
    """A list of JSON objects; `what` and `example` are for the error when it is something else."""
    found = read_json(word)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UsageError(f"{word} is not a list of {what} like {example}")
    return found


def read_public_key(word: str) -> "PublicKey":
    """From a PEM text, also as `identity show` prints it, or from the JSON of a key file."""
    from moothall.identity import PublicKey, keyfile

    text = read_content(word).decode(errors="replace")
    try:
        content: Any = json.loads(text)
    except ValueError:
        content = None
    try:
        if isinstance(content, dict):
            return keyfile.public_key(content)
        return PublicKey.from_pem(text[max(0, text.find("-----BEGIN")) :])
    except InvalidKey as error:
        raise UsageError(f"{word} does not hold a public key: {error}") from None
