"""Which names of an archive may become files. Pure: no folder is looked at here.

An archive comes from another agent, and its names are that agent's choice. A name that could lead out of the
folder, stand for a device, deceive a reader, or be the same file as another name is refused. The rules are those
of all common systems at once, so that what one system may keep, another may receive.
"""

import re
import unicodedata
from typing import Final

MAX_PART: Final = 255  # bytes of one part of a path: what common file systems take
MAX_PATH: Final = 1024  # bytes
MAX_DEPTH: Final = 32  # parts

TEMPORARY: Final = ".moothall-"  # what the folders begin with in which transfers are unpacked

# Windows opens these as devices, in any folder, in any case and with any ending.
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", "clock$", "conin$", "conout$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"}
)
_has_drive: Final = re.compile(r"[A-Za-z]:").match
# Controls that change the direction of text: `gpj.exe` with one of them in front looks like `exe.jpg`.
_has_bidi: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]").search
_has_control: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]").search
_has_surrogate: Final = re.compile("[\ud800-\udfff]").search


def fault(path: str) -> str | None:
    """Why this path must not become a file. None: it may."""
    if not path:
        return "it has no name"
    if len(path) > MAX_PATH:
        return f"its path is longer than {MAX_PATH} bytes"
    if _has_surrogate(path):
        return "its name is not Unicode text"
    if "\x00" in path:
        return "its name has a NUL character"
    if _has_control(path):
        return "its name has a control character or a line break"
    if _has_bidi(path):
        return "its name changes the direction of text"
    if len(path.encode()) > MAX_PATH:
        return f"its path is longer than {MAX_PATH} bytes"
    if path.startswith("/"):
        return "its path is absolute"
    if _has_drive(path):
        return "its path begins with a drive letter"
    if "\\" in path:
        return "its path has a backslash"
    parts = path.split("/")
    if len(parts) > MAX_DEPTH:
        return f"its path has more than {MAX_DEPTH} parts"
    return next((reason for reason in map(_part_fault, parts) if reason is not None), None)


def _part_fault(part: str) -> str | None:
    if part == "..":
        return "its path leads out of the folder"
    if part in ("", "."):
        return "its path has an empty part"
    if part[-1] in ". ":
        return "a part of its path ends with a dot or a space"
    if len(part.encode()) > MAX_PART:
        return f"a part of its path is longer than {MAX_PART} bytes"
    if part.partition(".")[0].rstrip(" ").lower() in _DEVICES:
        return "its name is that of a device"
    if part.lower().startswith(TEMPORARY):
        return "its name is reserved"
    return None


class Names:
    """The names that were used so far. Two that differ in case only would be one file on many systems."""

    def __init__(self) -> None:
        self._spellings: dict[str, str] = {}  # of files and folders
        self._files: set[str] = set()

    def clash(self, path: str) -> str | None:
        """Why this path cannot stand beside those before it. None: it can, and is used now."""
        key = _folded(path)
        if key in self._files:
            return "its name occurs twice, or differs from another in case only"
        if key in self._spellings:
            return "its name is also that of a folder"
        folders = [path[: match.start()] for match in re.finditer("/", path)]
        for folder in folders:
            folded = _folded(folder)
            if folded in self._files:
                return "its folder has the name of a file"
            if self._spellings.get(folded, folder) != folder:
                return "its folder differs from another in case only"
        self._files.add(key)
        self._spellings[key] = path
        self._spellings.update((_folded(folder), folder) for folder in folders)
        return None


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
