"""The folders of a crew on the host: `$MOOTHALL_CREWS/<crew>/`, by default `~/.agentchat/crews/<crew>/`.

They are for their owner alone. What an agent may write is below `agents/NAME/` and `workspaces/NAME/`. Its key and
the token of the model are not there.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moothall.daemon.folder import Folder
from moothall.errors import UsageError

VARIABLE: Final = "MOOTHALL_CREWS"
CREWS: Final = "~/.agentchat/crews"
KILL_SWITCH: Final = "~/.agentchat/KILL"  # while it exists, agents that are not protected stay stopped

_OWNER_ONLY_FOLDER: Final = 0o700


@dataclass(frozen=True, slots=True)
class MemberPlaces:
    """What belongs to one agent. The keeper makes these folders before the agent starts."""

    name: str
    root: Path  # the folder of the crew

    @property
    def state(self) -> Path:
        """Its state folder (agentchat wire 19.3)."""
        return self.root / "agents" / self.name

    @property
    def workspace(self) -> Path:
        """The current directory of the model's program."""
        return self.root / "workspaces" / self.name

    @property
    def secrets(self) -> Path:
        """What its supervisor reads once and deletes: /run/secrets in a container."""
        return self.root / "secrets" / self.name

    @property
    def run(self) -> Path:
        """Its sockets, /run/moothall in a container, and the record of its process."""
        return self.root / "run" / self.name

    @property
    def identity(self) -> Path:
        """Its key file. It never enters a container as it is."""
        return self.root / "identities" / f"{self.name}.json"

    @property
    def folders(self) -> tuple[Path, ...]:
        return self.state, self.workspace, self.secrets, self.run

    def make(self) -> None:
        """Create what is missing. Raises OSError."""
        for folder in (*self.folders, self.identity.parent):
            for each in (folder.parent, folder):
                each.mkdir(mode=_OWNER_ONLY_FOLDER, exist_ok=True)

    def give_to(self, user: int) -> None:
        """Make this user the owner of what the agent may write. It may have run as another one. Raises OSError."""
        for folder in (self.state, self.workspace):
            if folder.stat().st_uid != user:
                _give(folder, user)


def _give(folder: Path, user: int) -> None:
    """With all that is in it. No link is followed: an agent can put links into its folders."""
    for _, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, user, user, dir_fd=descriptor, follow_symlinks=False)
    os.chown(folder, user, user)


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of one crew."""

    root: Path

    @property
    def record(self) -> Path:
        """What was started, and what is wanted. Its one writer is the keeper."""
        return self.root / "crew.json"

    @property
    def hall(self) -> Path:
        """The data of the crew's own hall."""
        return self.root / "hall"

    @property
    def log(self) -> Path:
        return self.root / "keeper.log"

    @property
    def socket(self) -> Path:
        """Where the keeper takes orders."""
        return self.root / "keeper.sock"

    @property
    def lock(self) -> Path:
        """Held by the keeper. The kernel drops it when the keeper ends."""
        return self.root / "keeper.lock"

    def member(self, name: str) -> MemberPlaces:
        return MemberPlaces(name, self.root)

    def never_up(self) -> UsageError:
        """The error for a crew without a record."""
        return UsageError(f"the crew {self.root.name} was never up: run `moothall worker up`")

    def make(self) -> None:
        """Create the folder. Raises UsageError if other users can change it."""
        Folder(self.root).make()


def crews_folder(environment: Mapping[str, str]) -> Path:
    """The folder that has one folder for each crew. Raises UsageError for a user without a home."""
    try:
        return Path(environment.get(VARIABLE) or CREWS).expanduser().absolute()
    except RuntimeError:
        raise UsageError(f"this user has no home folder: set {VARIABLE} to a folder for crews") from None


def places_of(crew: str, environment: Mapping[str, str]) -> Places:
    """The folder of a crew, whether it exists or not. Raises UsageError."""
    return Places(crews_folder(environment) / crew)
