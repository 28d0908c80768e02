"""What `moothall doctor` checks on this machine: versions, settings, files, secrets, limits."""

import os
import platform
import resource
import shlex
import stat
import tomllib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from moothall import __version__
from moothall.cli import _chosen
from moothall.cli._context_file import ContextFile, name_in_use
from moothall.cli._findings import Finding, fail, ok, warn
from moothall.compiled import build
from moothall.errors import KeyFileError, SettingsError, UsageError
from moothall.extras import install_command
from moothall.hall.redaction import Redactor
from moothall.identity import keyfile
from moothall.settings import Settings, load
from moothall.settings.fields import described
from moothall.settings.sources import CONFIG_FILE, PREFIX
from moothall.wire.authority import DEFAULT_URL

# What each extra of the package brings, by the module that shows it is there.
EXTRAS: Final = {
    "mcp": "mcp",
    "node": "uvicorn",
    "anthropic": "anthropic",
    "openai": "openai",
    "tui": "textual",
    "postgres": "psycopg",
    "cluster": "nats",
    "simulate": "numpy",
}
ENOUGH_FILES: Final = 4096  # a connection takes one
ENV_FILE: Final = ".env"

_OTHERS_READ: Final = stat.S_IRGRP | stat.S_IROTH
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def versions() -> list[Finding]:
    installed = [extra for extra, module in EXTRAS.items() if find_spec(module)]
    missing = [extra for extra in EXTRAS if extra not in installed]
    parts = [f"with {', '.join(installed)}"] if installed else []
    if missing:
        parts.append(f"without {', '.join(missing)} ({install_command(','.join(missing))})")
    return [
        ok("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ok("moothall", f"{__version__} ({build()}) {', '.join(parts)}"),
    ]


def settings(environment: Mapping[str, str] | None = None) -> tuple[Settings, list[Finding]]:
    """The settings a hall would start with here; the defaults if it would not start."""
    try:
        chosen = load(environment=environment)
    except SettingsError as error:
        return Settings(), [fail("settings", str(error), "`moothall serve` will not start like this")]
    if chosen.ignored:
        names = ", ".join(chosen.ignored)
        return chosen.settings, [
            warn("settings", f"{names}: no such setting", "`moothall config` lists them")
        ]
    changed = sum(origin != "default" for origin in chosen.origins.values())
    return chosen.settings, [ok("settings", f"valid, {changed} of {len(chosen.origins)} not the default")]


def context() -> list[Finding]:
    """Nothing if none is in use."""
    try:
        contexts = ContextFile().read()
        name = name_in_use(contexts)
        if name is None:
            return []
        url, identity = contexts.named(name)
    except UsageError as error:
        return [fail("context", str(error), "")]
    return [ok("context", f"{name}: {url or 'no hall'}, {identity or 'no key file'}")]


def choices(url: str | None, identity: Path | None) -> list[Finding]:
    """Which hall, key file and name commands use from here, and what decided each."""
    try:
        hall, key, name = _chosen.url(url), _chosen.named_key_file(identity), _chosen.name(None)
    except UsageError:
        return []  # the check of the context says why
    parts = (
        f"hall {hall.value or DEFAULT_URL} ({hall.origin})",
        f"key file {key.value or 'none'} ({key.origin})",
        f"name {name.value or 'of the key file'} ({name.origin})",
    )
    return [ok("commands use", ", ".join(parts))]


def key_files(home: Path, identity: Path | None = None) -> list[Finding]:
    folder = home / ".agentchat"
    paths = [
        folder / keyfile.DEFAULT_PATH.name,
        *sorted(folder.glob("*.old")),  # keys that were rotated away still sign
        *sorted((folder / "identities").glob("*.json")),
    ]
    found = [_check_key_file(path) for path in paths if os.path.lexists(path)]
    if identity is not None:
        found.append(_check_key_file(identity.expanduser()))
    return found or [ok("key file", "none; `moothall identity new` makes one to be verified with")]


def _check_key_file(path: Path) -> Finding:
    try:
        identity = keyfile.load(path)
        owner, folder = path.stat().st_uid, path.parent.stat()
    except (KeyFileError, OSError) as error:
        return fail("key file", str(error), "")
    if owner != os.geteuid():
        return warn(
            "key file", f"{path} belongs to another user", f"sudo chown $USER {shlex.quote(str(path))}"
        )
    if folder.st_mode & _OTHERS_WRITE and not folder.st_mode & stat.S_ISVTX:
        remedy = f"chmod go-w {shlex.quote(str(path.parent))}"
        return fail("key file", f"others can replace {path}", remedy)
    return ok("key file", f"{path} is @{identity.public.agent_id()}, closed to others")


def environment_secrets(environment: Mapping[str, str] | None = None) -> list[Finding]:
    """By name, never by value."""
    names = sorted(_secret_names(os.environ if environment is None else environment))
    if not names:
        return [ok("environment", "no secrets in it")]
    advice = "every program started from here, agents too, can read them: unset those it does not need"
    if own := [name for name in names if name.startswith(PREFIX) or name in _ADMIN_VARIABLES]:
        advice += f"; instead of {own[0]}, name a file with {PREFIX}ADMIN_KEY_FILE"
    return [warn("environment", f"secrets: {', '.join(names)}", advice)]


def secret_files(folder: Path) -> list[Finding]:
    """Files of settings that hold a secret must be closed to others."""
    checked = [
        finding
        for path, names in (
            (folder / CONFIG_FILE, _secrets_in_config(folder / CONFIG_FILE)),
            (folder / ENV_FILE, _secrets_in_env_file(folder / ENV_FILE)),
        )
        if names
        for finding in _check_secret_file(path, names)
    ]
    return checked or [ok("secret files", f"no secrets in {CONFIG_FILE} or {ENV_FILE} here")]


def _check_secret_file(path: Path, names: list[str]) -> Iterator[Finding]:
    listed = ", ".join(sorted(names))
    if path.stat().st_mode & _OTHERS_READ:
        yield fail(
            "secret files", f"others can read {listed} in {path}", f"chmod 600 {shlex.quote(str(path))}"
        )
    else:
        yield ok("secret files", f"{listed} in {path}, closed to others")


_SECRET_SETTINGS: Final = frozenset(entry.name for entry in described() if entry.metadata["secret"])
_ADMIN_VARIABLES: Final = frozenset(
    variable.name
    for entry in described()
    if entry.metadata["secret"]
    for variable in entry.metadata["known_as"]
)


def _secret_names(variables: Mapping[str, str]) -> list[str]:
    """Those whose values a hall would hide if an agent pasted them."""
    return [name for name, value in variables.items() if Redactor({name: value}).redact(value)[1]]


def _secrets_in_config(path: Path) -> list[str]:
    try:
        table = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError:
        return []
    return [name for name in table if name.replace("-", "_") in _SECRET_SETTINGS]


def _secrets_in_env_file(path: Path) -> list[str]:
    variables = {}
    for line in _text(path).splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            variables[name.strip()] = value.strip().strip("\"'")
    return _secret_names(variables)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # not there, or closed to us: nothing we could tell about it


def data_directory(path: Path) -> list[Finding]:
    where = path.absolute()
    if where.exists():
        if where.is_dir() and os.access(where, os.R_OK | os.W_OK | os.X_OK):
            return [ok("data folder", f"{where} is writable")]
        return [
            fail(
                "data folder", f"{where} is not a folder this user can write to", "choose another --data-dir"
            )
        ]
    parent = next(parent for parent in where.parents if parent.exists())
    if os.access(parent, os.W_OK | os.X_OK):
        return [ok("data folder", f"{where} will be made by `moothall serve`")]
    return [warn("data folder", f"{where} cannot be made here", "start a hall elsewhere, or with --data-dir")]


def open_files() -> list[Finding]:
    """`moothall serve` takes as many as the hard limit allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= ENOUGH_FILES:
        return [ok("open files", "no limit" if hard == resource.RLIM_INFINITY else f"at most {hard}")]
    advice = f"have the administrator allow {16 * ENOUGH_FILES}: LimitNOFILE= of systemd, or limits.conf"
    return [warn("open files", f"at most {hard}, one per agent of a hall", advice)]


def containers() -> list[Finding]:
    """Whether agents of a crew can run in containers. A machine for people or for a hall need not be able to."""
    from moothall.worker.crew import podman_program
    from moothall.worker.crew.plan import FILE, Crew

    try:
        podman_program.find(Crew("doctor", Path(FILE).absolute(), ()))
    except UsageError as error:
        return [ok("containers", f"not for agents of a crew here: {error}")]
    return [ok("containers", "podman runs agents of a crew")]
