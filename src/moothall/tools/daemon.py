"""Tools for the daemon, and for the files it shares with other programs."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta

from moothall.daemon.folder import DEFAULT_INSTANCE, Folder, instance_name
from moothall.daemon.inbox import SCANNED, Inbox
from moothall.daemon.instance import Instance
from moothall.errors import UsageError
from moothall.tools import caps, news
from moothall.tools.caps import Caps
from moothall.tools.market import STRANGERS
from moothall.tools.options import ADMIN_KEY_VARIABLE, may_create
from moothall.tools.table import DESTROYS, READS, REPEATABLE, Arguments, Call, Channel, Result, Tool

START_TIMEOUT: Final = 30.0  # seconds
MAX_OUTPUT: Final = 2000  # characters of what the command said
MOST_LINES: Final = 1000
_OWN: Final = frozenset(("MOOTHALL_IDENTITY", "MOOTHALL_NAME", "AGENTCHAT_CONTEXT", ADMIN_KEY_VARIABLE))
_NO_CONTEXTS: Final = ".no-contexts.json"  # in the daemon's folder; it is never there

Instances = Annotated[
    str,
    Meta(description="Which daemon, if there are several. Default: default.", min_length=1, max_length=64),
]


class Start(Arguments):
    server_url: Annotated[
        str, Meta(description="The hall, such as ws://127.0.0.1:6667.", min_length=1, max_length=2048)
    ]
    channels: Annotated[list[Channel], Meta(description="Channels to join.", max_length=50)] | None = None
    identity_path: (
        Annotated[
            str, Meta(description="Its key file, another one than yours. Default: none.", max_length=4096)
        ]
        | None
    ) = None
    instance: Instances | None = None


class Started(Result):
    success: bool
    message: str
    instance: str
    already_running: bool


async def start(call: Call, asked: Start) -> Started:
    name = instance_name(asked.instance or DEFAULT_INSTANCE)
    if await asyncio.to_thread(Instance(Folder.of(name)).is_running):
        message = (
            f"The daemon {name} is running already. agentchat_inbox with `instance` reads what it hears."
        )
        return Started(success=True, message=message, instance=name, already_running=True)
    options = call.session.options
    environment = _environment(options.chosen_url(asked.server_url), Folder.of(name).path / _NO_CONTEXTS)
    arguments = ["daemon", "start", "--instance", name]
    if asked.channels:
        arguments += ["--channels", ",".join(asked.channels)]
    if asked.identity_path is not None:
        path = options.chosen_key(asked.identity_path, None)
        if not isinstance(path, Path) or path == call.session.key:
            raise UsageError("The daemon needs a key of its own: with yours it would take over your session.")
        if not path.exists() and may_create(path):
            raise UsageError(
                f"There is no key file {path}. The user can make one: moothall identity new {path}"
            )
        arguments += ["--identity", str(path)]
    message = await _run(arguments, environment)
    return Started(success=True, message=message, instance=name, already_running=False)


def _environment(url: str, contexts: Path) -> dict[str, str]:
    """That of this process with another hall: an address can have a password, and arguments are for all to see.

    What names this process's own key is left out. With that key, the daemon would take over its session.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _OWN}
    return kept | {"MOOTHALL_URL": url, "AGENTCHAT_CONTEXTS": str(contexts)}


async def _run(arguments: list[str], environment: dict[str, str]) -> str:
    """What the command said. It forks itself, which this process with its threads must not. Raises UsageError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "moothall",
        *arguments,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(START_TIMEOUT):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise UsageError(f"The daemon did not start within {START_TIMEOUT:g} s. Tell the user.") from None
    text = said.decode(errors="replace").strip()[:MAX_OUTPUT]
    if process.returncode != 0:
        raise UsageError(f"The daemon did not start: {text.removeprefix('error: ')}")
    return text


class Stop(Arguments):
    instance: Instances | None = None


class Stopped(Result):
    success: bool
    message: str
    instance: str


async def stop(call: Call, asked: Stop) -> Stopped:
    name = instance_name(asked.instance or DEFAULT_INSTANCE)
    has_run = await asyncio.to_thread(Instance(Folder.of(name)).stop)
    message = f"The daemon {name} is stopped." if has_run else f"The daemon {name} was not running."
    return Stopped(success=True, message=message, instance=name)


class Read(Arguments):
    lines: Annotated[int, Meta(description="The newest records, at most this many.", ge=1, le=MOST_LINES)] = (
        50
    )
    instance: (
        Annotated[str, Meta(description="The inbox of this daemon. Default: your own inbox.", max_length=64)]
        | None
    ) = None


class Lines(Result):
    messages: Annotated[list[dict[str, Any]], Meta(description="Oldest first, as the hall sent them.")]
    total_lines: Annotated[int, Meta(description="How many the inbox holds.")]
    returned_lines: int
    notice: str = STRANGERS


async def inbox(call: Call, asked: Read) -> Lines:
    """Marks nothing as read."""
    if asked.instance is None:
        records, total = call.session.mailbox().last_lines(asked.lines)
    else:
        tail = Inbox(Folder.of(asked.instance)).tail(asked.lines, max_characters=SCANNED)
        records, total = [record.fields for record in tail.records], tail.total
    fitting = caps.newest([caps.size_of(json.dumps(record)) for record in records], Caps(asked.lines))
    shown = [news.whole(record) for record in records[len(records) - fitting :]]
    return Lines(messages=shown, total_lines=total, returned_lines=len(shown))


TOOLS: Final[tuple[Tool[Any, Any], ...]] = (
    Tool(
        "agentchat_daemon_start",
        "Start a daemon",
        "Start an agent in the background that keeps what it hears, also while you are not running.",
        Start,
        Started,
        start,
        REPEATABLE,
    ),
    Tool(
        "agentchat_daemon_stop",
        "Stop a daemon",
        "Stop an agent in the background.",
        Stop,
        Stopped,
        stop,
        DESTROYS,
    ),
    Tool(
        "agentchat_inbox",
        "Read an inbox",
        "Return the newest records of your inbox, or of a daemon's, as they came. Marks nothing as read;"
        " agentchat_listen is for that.",
        Read,
        Lines,
        inbox,
        READS,
    ),
)
