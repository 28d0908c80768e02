"""What becomes of a host's file when our server is put into it, and what to add by hand."""

import json
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

from moothall.errors import UsageError
from moothall.hosts import jsonc, toml
from moothall.hosts.table import SERVER, Host


def installed(host: Host, text: str, entry: Mapping[str, Any], where: str) -> str:
    """The new text of the file at `where`. Raises UsageError when the file is broken, or must be edited by hand."""
    try:
        if host.form == "toml":
            return toml.put(text, (host.key, SERVER), entry)
        return jsonc.put(text, {host.key: {SERVER: entry}})
    except jsonc.BrokenText as error:
        kind = "TOML" if host.form == "toml" else "JSON"
        raise UsageError(
            f"{where} is not valid {kind} ({error}), so nothing was changed: repair it, then run this again"
        ) from None
    except jsonc.Unsafe as error:
        raise UsageError(
            f"{where} was left as it is: {error}. Edit it yourself; --print shows what to add"
        ) from None


def by_hand(host: Host, entry: Mapping[str, Any]) -> str:
    """The lines to add to the host's file."""
    if host.form == "toml":
        return toml.shown((host.key, SERVER), entry)
    return json.dumps({host.key: {SERVER: entry}}, indent=2, ensure_ascii=False) + "\n"


def difference(before: str, after: str, where: str) -> str:
    """What changes, as `diff -u` shows it. Empty when nothing does."""
    return "".join(
        line if line.endswith("\n") else f"{line}\n"
        for line in unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), where, where, n=2
        )
    )
