"""Delete a folder that an agent could write to: whatever it has put there, and nothing outside.

No link is followed. An agent can nest folders deeper than Python may call itself, or than a process may have open
files. So the tree is taken apart at its top: the folders in a folder are moved there before it is deleted. An agent
can also have closed a folder to its own user.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_OPEN_TO_OWNER: Final = 0o700
_FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete(folder: Path) -> None:
    """All of it, if it is there. No process of the agent runs any more. Raises OSError."""
    try:
        with _opened(str(folder), None) as top:
            _empty(top)
    except FileNotFoundError:
        return
    folder.rmdir()


def _empty(top: int) -> None:
    prefix, moved = f".deleted-{secrets.token_hex(8)}", 0  # names that an agent cannot have taken
    while folders := _delete_files(top):
        for name in folders:
            with _opened(name, top) as folder:
                for inner in _delete_files(folder):
                    moved += 1
                    with _opened(inner, folder):  # one that is closed to its owner cannot be moved
                        os.rename(inner, f"{prefix}-{moved}", src_dir_fd=folder, dst_dir_fd=top)
            os.rmdir(name, dir_fd=top)


def _delete_files(folder: int) -> list[str]:
    """What is not a folder. Returns the names of the folders."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return folders


@contextmanager
def _opened(name: str, above: int | None) -> Iterator[int]:
    """A descriptor of a folder, which its owner may change from now on. Raises OSError, also for a link."""
    place = os.open(name, os.O_PATH | _FOLDER, dir_fd=above)
    try:
        os.chmod(f"/proc/self/fd/{place}", _OPEN_TO_OWNER)  # noqa: PTH101  # this descriptor, and no link
        descriptor = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=place)
    finally:
        os.close(place)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
