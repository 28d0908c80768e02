"""`moothall mcp install`: put our MCP server into the file in which a host lists its servers."""

import os
import stat
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from moothall.cli import _chosen
from moothall.cli._addresses import hall_url
from moothall.cli._connecting import IdentityFile, Name
from moothall.cli._exits import tell
from moothall.errors import UsageError
from moothall.extras import install_command
from moothall.hosts.install import by_hand, difference, installed
from moothall.hosts.table import HOSTS, Host, Platform, entry, host_named, user_file
from moothall.identity.keyfile import put_file
from moothall.tui.printable import printable
from moothall.wire.authority import URL_VARIABLES

MAX_FILE: Final = 64 * 1024 * 1024  # some hosts keep their history in the same file
KEPT: Final = ".before-moothall"
NEW_FILE: Final = 0o600

HostArgument = Annotated[
    str,
    typer.Argument(
        metavar="HOST",
        help=f"{', '.join(HOSTS)}.",
        autocompletion=lambda incomplete: [name for name in HOSTS if name.startswith(incomplete)],
    ),
]


def install(
    host: HostArgument,
    show: Annotated[bool, typer.Option("--print", help="Print what to add by hand; read no file.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Change the file.")] = False,
    project: Annotated[
        bool, typer.Option("--project", help="The file of the project in this folder, not your own.")
    ] = False,
    url: Annotated[
        str | None, typer.Option("--url", "-u", metavar="URL", help="The hall that its agent goes to.")
    ] = None,
    name: Name = None,
    identity: IdentityFile = None,
) -> None:
    """Tell a host, such as an editor, how to start `moothall mcp`.

    Shows how its file would change, and changes it with --write. All else in the file stays as it is, comments
    too, and a copy is kept beside it. The options, and the variables that stand for them, are written into the
    file. Contexts are not, because the server reads them itself.

    \b
    moothall mcp install claude-code
    moothall mcp install cursor --write -i ~/.agentchat/identity.json
    moothall mcp install codex --print -u wss://hall.example.org
    """
    if show and write:
        raise UsageError("--print and --write exclude each other: choose one")
    environment = _environment(url, name, identity)
    row = host_named(host)
    wanted = entry(row, *_command(shared=project), environment)
    if show:
        typer.echo(by_hand(row, wanted), nl=False)
        return
    path = _project_file(host, row) if project else _user_file(row)
    before = _read(path)
    after = installed(row, before or "", wanted, str(path))
    if after == (before or ""):
        tell(f"{path} has it already; nothing to change")
        return
    typer.echo(printable(difference(before or "", after, str(path))), nl=False)
    if not write:
        tell(f"nothing was changed; --write changes {path}")
        return
    kept = _write(path, before, after)
    copy = f", and what it was is in {kept.name}" if kept else ""
    tell(f"wrote {path}{copy}. To use it in {row.title}, {row.next_step}")
    if find_spec("mcp") is None:
        tell(
            f"warning: the server needs the extra mcp, which is not installed; run: {install_command('mcp')}"
        )


def _command(*, shared: bool) -> tuple[str, list[str]]:
    """How to start the server. A file that a team shares names no path of one machine; others name it in full,
    because hosts that were not started from a shell have another PATH."""
    if shared:
        return "moothall", ["mcp"]
    program = Path(sys.executable).with_name("moothall")
    if program.exists():
        return str(program), ["mcp"]
    return sys.executable, ["-m", "moothall", "mcp"]


def _environment(url: str | None, name: str | None, identity: Path | None) -> dict[str, str]:
    """What was named for this command. A host does not inherit the variables of this shell."""
    hall, key, called = _chosen.url(url), _chosen.key_file(identity), _chosen.name(name)
    variables: dict[str, str] = {}
    if hall.value and _is_named(hall.origin):
        variables[URL_VARIABLES[0]] = _without_secrets(hall_url(hall.value))
    if key.value is not None and _is_named(key.origin):
        variables[_chosen.IDENTITY_VARIABLE] = str(key.value.expanduser().absolute())
    if called.value:
        variables[_chosen.NAME_VARIABLE] = called.value
    return variables


def _is_named(origin: str) -> bool:
    return origin == _chosen.BY_OPTION or origin.startswith("$")


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query:
        raise UsageError(
            "the address has a password or a query, and other programs read the host's file: leave them out"
        )
    return url


def _user_file(host: Host) -> Path:
    try:
        home = str(Path.home())
    except RuntimeError:
        raise UsageError("this user has no home folder: use --project, or --print") from None
    platform: Platform = "linux"
    if sys.platform in ("darwin", "win32"):
        platform = sys.platform
    return Path(user_file(host, platform, home, os.environ))


def _project_file(name: str, host: Host) -> Path:
    if host.project is None:
        raise UsageError(f"{name} has no file for a project: leave --project out")
    return Path.cwd() / host.project


def _read(path: Path) -> str | None:
    """The text of the file, None if there is none. Raises UsageError when it cannot be text of a host."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
                raise UsageError(f"{path} is not a file of settings, so nothing was changed")
            return file.read().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8, so nothing was changed: save it as UTF-8 first") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _write(path: Path, before: str | None, after: str) -> Path | None:
    """Replace the file in one step, unless it has changed since it was read. Returns the copy of what it was."""
    try:
        target = path.resolve()  # a link to a folder of dotfiles stays a link
        target.parent.mkdir(parents=True, exist_ok=True)
        if _read(target) != before:
            raise UsageError(f"{path} has changed meanwhile: run this again")
        mode = NEW_FILE if before is None else stat.S_IMODE(target.stat().st_mode)
        kept = None if before is None else _keep(before.encode(), target, mode)
        put_file(after.encode(), target, overwrite=True, mode=mode)
    except UnicodeEncodeError:
        raise UsageError("a path or a name is not UTF-8; the file of a host has to be") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return kept


def _keep(content: bytes, path: Path, mode: int) -> Path:
    """Copies of earlier versions stay, the first one without a number."""
    number = 1
    while True:
        place = path.with_name(f"{path.name}{KEPT}" + (f".{number}" if number > 1 else ""))
        try:
            put_file(content, place, overwrite=False, mode=mode)
        except FileExistsError:
            number += 1
        else:
            return place
