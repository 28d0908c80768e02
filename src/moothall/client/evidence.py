"""What a party shows the arbiters."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, Self

import msgspec

from moothall.client.signed import as_json
from moothall.errors import UsageError


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """One piece of evidence, with the names that other clients use (agentchat wire 13.5).

    `kind` is commit, test_result, message_log, receipt, file, screenshot, attestation, other, or your own word.
    """

    kind: str
    value: str
    label: str | None = None
    url: str | None = None

    @classmethod
    def commit(cls, commit: str, *, label: str | None = None, url: str | None = None) -> Self:
        """Return an item that names a `commit`, perhaps with a `label` and the `url` where it can be seen."""
        return cls("commit", commit, label, url)

    @classmethod
    def message(cls, text: str, *, label: str | None = None) -> Self:
        """Return an item that quotes what was said: the `text`, perhaps with a `label`."""
        return cls("message_log", text, label)

    @classmethod
    def file(cls, path: str | Path, *, label: str | None = None, url: str | None = None) -> Self:
        """Return an item with a file's name, size and hash, never its content: who has the file can show that it
        is this one.

        `path` is the file; `label` and `url` go with it. Raises UsageError when it cannot be read.
        """
        place = Path(path).expanduser()
        try:
            with place.open("rb") as content:
                digest = file_digest(content, "sha256").hexdigest()
            size = place.stat().st_size
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        return cls("file", f"sha256:{digest}", label or f"{place.name} ({size} bytes)", url)

    def fields(self) -> dict[str, str]:
        """Return what is sent: the fields that are not None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one party showed. Each item is as it was sent, with the hash that the hall gave it."""

    items: tuple[Mapping[str, Any], ...]
    statement: str
    sig: str


def evidence_items(items: Iterable[EvidenceItem | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As the hall will read them, so that what is signed is what is sent."""
    listed = []
    for item in items:
        if not isinstance(item, EvidenceItem | Mapping):
            raise UsageError(f"a piece of evidence is an EvidenceItem or a dict, not {item!r}")
        listed.append(item.fields() if isinstance(item, EvidenceItem) else dict(item))
    found: list[dict[str, Any]] = as_json(listed, "evidence")
    _require_numbers(listed)
    return found


def _require_numbers(items: list[dict[str, Any]]) -> None:
    """Refuse NaN: it would become null, and evidence cannot be corrected once it is shown."""
    try:
        json.dumps(msgspec.to_builtins(items, str_keys=True), allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"evidence cannot be written as JSON: {error}") from None
