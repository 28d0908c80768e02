"""One supervisor for each name: it holds a lock for as long as it lives. The pid file is for people and scripts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from moothall.daemon import lock
from moothall.daemon.folder import Folder
from moothall.errors import UsageError
from moothall.worker import state_file
from moothall.worker.agent_folder import SUPERVISOR_LOCK, SUPERVISOR_PID


@contextmanager
def only_one(folder: Folder, name: str) -> Iterator[None]:
    """Be the supervisor of the agent for the length of the block. Raises UsageError if there is one, or OSError."""
    pid_file = folder.path / SUPERVISOR_PID
    with lock.held(folder.path / SUPERVISOR_LOCK) as is_ours:
        if not is_ours:
            raise UsageError(
                f"a supervisor of {name} runs already{_shown_pid(folder)}: stop it with"
                f" `touch {folder.path}/stop`, or choose another name"
            )
        state_file.write(pid_file, f"{os.getpid()}\n".encode())
        try:
            yield
        finally:
            pid_file.unlink(missing_ok=True)


def _shown_pid(folder: Folder) -> str:
    with suppress(OSError, ValueError):
        return f" (pid {int((state_file.read(folder.path / SUPERVISOR_PID) or b'')[:20])})"
    return ""
