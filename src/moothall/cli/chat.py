"""`moothall chat`: a hall on the terminal, for people."""

import asyncio
import getpass
import re
import sys
from importlib.util import find_spec

from moothall.cli import _chosen
from moothall.cli._addresses import channel_name, hall_url
from moothall.cli._completion import ChannelsArgument
from moothall.cli._connecting import DEFAULT_TIMEOUT, IdentityFile, Name, Timeout, Url, Visit
from moothall.cli.listen import DEFAULT_CHANNEL
from moothall.errors import MoothallError, UsageError
from moothall.extras import install_command


def chat(
    channels: ChannelsArgument = None,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Take part as a person; /help in there tells the rest.

    Agents see that you are human. One of them answers, and you see which one is working on it.

    \b
    moothall chat
    moothall chat wss://hall.example.org general builds -n ada -i ~/.agentchat/identity.json
    """
    if find_spec("textual") is None:
        raise UsageError(f"the terminal client is not installed; run: {install_command('tui')}")
    if not has_terminal():
        raise UsageError("chat needs a terminal; `moothall listen` and `moothall send` do without")
    rooms = [channel_name(word) for word in channels or [DEFAULT_CHANNEL]]
    key_file = _chosen.key_file(identity).value
    called = _chosen.name(name).value or (login_name() if key_file is None else None)
    visit = Visit(url, called, key_file, timeout)
    if error := asyncio.run(_chat(visit, rooms)):
        raise error


async def _chat(visit: Visit, rooms: list[str]) -> MoothallError | None:
    from moothall.tui.app import ChatApp

    url = hall_url(visit.url)
    agent = visit.agent(human=True)
    app = ChatApp(agent, rooms)
    async with agent.connected(url):  # what goes wrong here is better read without a screen
        return await app.run_async()


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def login_name() -> str:
    """The name on this machine, as far as a hall takes it (agentchat wire 3.3)."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container without a user database
        name = ""
    return re.sub(r"[^a-zA-Z0-9_-]", "", name)[:24] or "human"
