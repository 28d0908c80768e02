"""Where the agent of a model goes, and as whom: what its user has set, and what the model asks for.

The user's word comes from flags, the environment or a context, and is taken as it is. A model may have been
talked into something. So an address that a model names is one on this machine, unless the user has said that
others are fine too. And a model makes new key files in the user's own folder for them only.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from moothall.errors import SettingsError, UsageError
from moothall.identity.keyfile import AGENT_NAME, Identity
from moothall.tools import folders
from moothall.wire.authority import DEFAULT_URL, authority_of, hall_url

PUBLIC_VARIABLE: Final = "AGENTCHAT_PUBLIC"
SETTLE_VARIABLE: Final = "AGENTCHAT_SETTLE_MS"
IDLE_VARIABLE: Final = "AGENTCHAT_IDLE_TIMEOUT_MS"
ADMIN_KEY_VARIABLE: Final = "AGENTCHAT_ADMIN_KEY"
BUDGET_VARIABLE: Final = "MOOTHALL_BUDGET_FILE"

SETTLE_MS: Final = 1500  # agentchat wire 19.1
IDLE_MS: Final = 300_000
DEFAULT_CHANNELS: Final = ("#general", "#discovery", "#bounties")
IDENTITIES: Final = Path("~/.agentchat/identities")
HOME: Final = Path("~/.agentchat")

_TRUE: Final = frozenset(("1", "true", "yes", "on"))
_DIGITS: Final = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Options:
    """What the user has set."""

    url: str = DEFAULT_URL
    identity: Path | Identity | None = None  # a key file, or the key itself: then no file has it
    name: str | None = None
    channels: tuple[str, ...] = DEFAULT_CHANNELS
    folder: Path | None = None  # files may be sent from here
    settle: float = SETTLE_MS / 1000  # seconds
    idle: float = IDLE_MS / 1000  # seconds; 0: stay connected
    is_public: bool = False  # a model may choose a hall on another machine
    admin_key: str | None = field(default=None, repr=False)
    budget_file: Path | None = None  # where a worker's guard writes what the session has used

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str],
        *,
        url: str | None = None,
        identity: Path | Identity | None = None,
        name: str | None = None,
        folder: Path | None = None,
    ) -> "Options":
        """With what flags or a context say, and the rest from the environment. Raises UsageError."""
        return cls(
            url=hall_url(url or DEFAULT_URL),
            identity=identity,
            name=None if name is None else checked_name(name),
            folder=folders.project_folder(Path.cwd()) if folder is None else folder.expanduser().resolve(),
            settle=_seconds(environ, SETTLE_VARIABLE, SETTLE_MS),
            idle=_seconds(environ, IDLE_VARIABLE, IDLE_MS),
            is_public=environ.get(PUBLIC_VARIABLE, "").lower() in _TRUE,
            admin_key=environ.get(ADMIN_KEY_VARIABLE) or None,
            budget_file=Path(file).absolute() if (file := environ.get(BUDGET_VARIABLE)) else None,
        )

    def chosen_url(self, asked: str | None) -> str:
        """The hall to connect to. Raises UsageError for an address that a model may not choose."""
        if asked is None:
            return self.url
        url = hall_url(asked)
        place = authority_of(url)
        if url != self.url and not self.is_public and not (place is not None and place.is_local):
            raise UsageError(
                f"{asked} is not on this machine, and the user has not allowed that. Leave `server_url` out to use"
                f" {self.url}, or ask the user to set {PUBLIC_VARIABLE}=true for this MCP server."
            )
        return url

    def chosen_key(self, asked: str | None, name: str | None) -> Path | Identity | None:
        """The key to connect with: the file asked for, the user's, one for the name, or none.

        Raises UsageError if a file is asked for and the agent has a key that is in no file.
        """
        if isinstance(self.identity, Identity):
            if asked is not None:
                raise UsageError("This agent has one key, which is in no file. Leave `identity_path` out.")
            return self.identity
        if asked is not None:
            return Path(asked).expanduser().absolute()
        if self.identity is not None:
            return self.identity
        chosen = name or self.name
        return None if chosen is None else (IDENTITIES / f"{checked_name(chosen)}.json").expanduser()


def may_create(path: Path) -> bool:
    """True for a key file that a model may have made: in the user's own folder for such files."""
    return path.resolve().is_relative_to(HOME.expanduser().resolve())


def checked_name(name: str) -> str:
    if AGENT_NAME.match(name) is None:
        raise UsageError(f"{name[:80]!r} cannot be the name of an agent: 1 to 32 letters, digits, - or _")
    return name


def _seconds(environ: Mapping[str, str], variable: str, default: int) -> float:
    text = environ.get(variable, "").strip()
    if not text:
        return default / 1000
    if _DIGITS.fullmatch(text) is None:
        raise SettingsError(f"{variable} is a whole number of milliseconds, not {text[:40]!r}")
    return int(text) / 1000
