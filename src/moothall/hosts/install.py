"""What becomes of a host's file when our server is put into it, and what to add by hand."""

import json
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any, Final

from moothall.errors import UsageError
from moothall.hosts import jsonc, toml
from moothall.hosts.table import SERVER, Host

LONGEST_LINE: Final = 200  # characters of a difference


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
    """What changes, as `diff -U0` shows it. Empty when nothing does.

    Lines around a change are left out, and long ones are cut: the settings of other servers may hold secrets.
    """
    lines = unified_diff(before.splitlines(), after.splitlines(), where, where, n=0, lineterm="")
    return "".join(f"{line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + '…'}\n" for line in lines)
