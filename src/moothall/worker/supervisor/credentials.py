"""Where the secrets of an agent come from: the token of its model and its own key (agentchat wire 19.3).

Each comes from a file. Without a token file, the variable that the user has set counts:
`lifeline.leave_environment` has put its value into a pipe. The secrets stay in the memory of the supervisor, which
hands them to each runner through a pipe.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from moothall.errors import UsageError
from moothall.worker import lifeline, sealing
from moothall.worker.lifeline import Secrets
from moothall.worker.supervisor import secret_files

TOKEN_FILE: Final = secret_files.FOLDER / secret_files.TOKEN
IDENTITY_FILE: Final = secret_files.FOLDER / secret_files.IDENTITY
TOKEN_VARIABLE: Final = "CLAUDE_CODE_OAUTH_TOKEN"  # noqa: S105  # its name
BY_PROXY: Final = "proxy-managed"  # in the place of a key: a proxy on the host adds the real one

_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))
_FIRST_PROCESS: Final = Path("/proc/1/cgroup")
_CONTAINER_WORDS: Final = ("docker", "libpod", "containerd", "kubepods", "lxc")


class Sources(NamedTuple):
    """The files, those of them that the host is about to fill, and whether a token is needed."""

    token_file: Path = TOKEN_FILE
    identity_file: Path = IDENTITY_FILE
    expected: frozenset[str] = frozenset()
    needs_token: bool = False

    def awaited(self, environment: Mapping[str, str]) -> list[Path]:
        """The files to wait for."""
        files = {secret_files.TOKEN: self.token_file, secret_files.IDENTITY: self.identity_file}
        if is_by_proxy(environment):
            del files[secret_files.TOKEN]
        return [file for name, file in files.items() if name in self.expected]


def is_by_proxy(environment: Mapping[str, str]) -> bool:
    """True if a proxy has the token, so that the agent needs none."""
    return bool(environment.get("ANTHROPIC_BASE_URL")) and environment.get("ANTHROPIC_API_KEY") == BY_PROXY


def load(sources: Sources, environment: Mapping[str, str]) -> Secrets:
    """What is given. The files are gone afterwards. Raises UsageError."""
    secrets = Secrets(
        None if is_by_proxy(environment) else _token(sources, environment),
        secret_files.take_identity(sources.identity_file),
    )
    if any(secrets):
        sealing.seal()
    return secrets


def _token(sources: Sources, environment: Mapping[str, str]) -> str | None:
    pipe = lifeline.inherited(environment)
    token = secret_files.take_token(sources.token_file)
    if pipe is not None:
        token = token or lifeline.read_secrets(pipe).token
        os.close(pipe)
    if token is None and sources.needs_token:
        raise UsageError(
            f"there is no token: put it into the file {sources.token_file}, or name another file with --token-file;"
            ' for a crew, with token = "..." in [crew]'
        )
    return token


def is_in_container() -> bool:
    """True in a container (agentchat wire 19.3)."""
    if any(mark.exists() for mark in _MARKS):
        return True
    with suppress(OSError):
        return any(word in _FIRST_PROCESS.read_text() for word in _CONTAINER_WORDS)
    return False
