"""Where programs of others run: no network but loopback, an unprivileged user, an empty environment.

The tests themselves are in the same network, so that each side reaches the other.
"""

import asyncio
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import pytest

NOBODY: Final = 65_534
PACKAGES: Final = Path("/mnt")  # where a program of others sees the packages,
STATE: Final = Path("/srv")  # and its own folder
PATIENCE: Final = 60  # seconds, for what takes milliseconds on a machine that is not busy

_NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET
_SET_FLAGS: Final = 0x8914  # SIOCSIFFLAGS
_UP: Final = 1  # IFF_UP
_LINE: Final = 16 * 1024 * 1024  # bytes of an answer

# Folders are shown where any user can reach them. The program ends with the tests, whatever happens to them.
_ENTER: Final = f"""
mount --bind "$1" {PACKAGES} && mount --bind "$2" {STATE} && shift 2 && cd {PACKAGES} &&
exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --inh-caps=-all --bounding-set=-all \
  --no-new-privs --pdeathsig KILL -- env -i "$@"
"""


@contextmanager
def only_loopback() -> Iterator[None]:
    """The calling thread and what it starts have a network of their own. Skips the test if that cannot be."""
    if sys.platform != "linux" or os.geteuid():
        pytest.skip("not run: only root on Linux can make a network namespace")
    for program in ("unshare", "setpriv", "mount"):
        if shutil.which(program) is None:
            pytest.skip(f"not run: {program} is not installed")
    kernel = ctypes.CDLL(None, use_errno=True)
    outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if kernel.unshare(_NEW_NETWORK):
            pytest.skip(f"not run: no network namespace ({os.strerror(ctypes.get_errno())})")
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))
            yield
        finally:
            if kernel.setns(outside, _NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "the network of the tests cannot be entered again")
    finally:
        os.close(outside)


@asynccontextmanager
async def running(
    *command: str, packages: Path, state: Path, environment: dict[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program of others, until the end of the block. It may write to `state`."""
    os.chown(state, NOBODY, NOBODY)
    variables = (f"{name}={value}" for name, value in (environment or {}).items())
    process = await asyncio.create_subprocess_exec(
        *(
            "unshare",
            "--mount",
            "--",
            "sh",
            "-c",
            _ENTER,
            "sh",
            str(packages),
            str(state),
            *variables,
            *command,
        ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LINE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
