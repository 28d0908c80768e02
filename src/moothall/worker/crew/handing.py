"""How secrets get into a container, and to its supervisor alone.

A supervisor deletes the files in /run/secrets when it has read them, so each start of a container needs them anew:
also the starts that Podman makes by itself. Process 1 of the container asks the host for them, before it starts the
supervisor, and it asks once. The host answers process 1 of a container and no other process: the kernel says which
one has connected. So a model that finds the socket gets nothing from it.
"""

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from moothall.errors import UsageError
from moothall.worker.crew import keys
from moothall.worker.crew.containers import secrets_of
from moothall.worker.crew.doors import Serve, flushed
from moothall.worker.crew.runtime import Recipe
from moothall.worker.supervisor import secret_files

_CREDENTIALS: Final = struct.Struct("3i")  # pid, user and group of a peer (unix(7))
_STATUS: Final = 64 * 1024  # bytes of /proc/PID/status


def handing_out(recipe: Recipe, say: Callable[[str], None]) -> Serve:
    """For a door: answer process 1 of the container with its secrets, as one JSON object."""

    said: set[str] = set()

    def say_once(text: str) -> None:  # an agent can ask again and again
        if text not in said:
            said.add(text)
            say(f"{recipe.member.name}: {text}")

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: socket.socket = writer.get_extra_info("socket")
        if not is_first_process(peer):
            say_once("another process than the first has asked for the secrets, and got none")
            return
        try:
            secrets = await asyncio.to_thread(contents, recipe)
        except UsageError as error:
            say_once(str(error))
            return
        writer.write(json.dumps(secrets).encode())
        await flushed(writer)

    return serve


def contents(recipe: Recipe) -> dict[str, str]:
    """The secrets of an agent by the names of their files. Raises UsageError."""
    return {name: _content(recipe, name) for name in secrets_of(recipe)}


def is_first_process(peer: socket.socket) -> bool:
    """True if the other end was connected by process 1 of a container that this machine runs."""
    pid = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[0]
    with suppress(OSError):
        status = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            lines = os.read(status, _STATUS).decode(errors="replace").splitlines()
        finally:
            os.close(status)
        # Its pid in our namespace and in its own. One that made a namespace of its own inside has a third.
        return any(line.split() == ["NSpid:", str(pid), "1"] for line in lines)
    return False


def _content(recipe: Recipe, name: str) -> str:
    if name == secret_files.TOKEN and recipe.crew.token is not None:
        return keys.read_token(recipe.crew.token).decode(errors="replace")
    try:
        return recipe.places.identity.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"the key of {recipe.member.name} cannot be read: {error}") from None
