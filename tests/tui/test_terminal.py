"""The terminal client in a real terminal: a process of its own on the other side of a pty."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from moothall import Agent, Message
from tests.tui.desk import hall

pytestmark = pytest.mark.slow

PATIENCE: Final = 30.0
_COLOUR: Final = re.compile(rb"\x1b\[[0-9;]*?(?:38|48);2;(\d+);(\d+);(\d+)")


class Terminal:
    """What the process wrote, and the keys that it gets."""

    def __init__(self, master: int, process: asyncio.subprocess.Process) -> None:
        self._master = master
        self.process = process
        self.written = b""
        self._news = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            self.written += os.read(self._master, 65536)
        except OSError:  # the process has ended
            asyncio.get_running_loop().remove_reader(self._master)
        self._news.set()

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    async def until(self, text: str) -> None:
        """Wait until it was written; terminals get wide gaps as cursor moves, so a word at a time."""
        async with asyncio.timeout(PATIENCE):
            while text.encode() not in self.written:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def chatting(url: str, size: tuple[int, int], **environment: str) -> AsyncIterator[Terminal]:
    master, slave = pty.openpty()
    columns, rows = size
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "moothall", "chat", url, "general", "-n", "ada"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**inherited, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment},
        start_new_session=True,
    )
    os.close(slave)
    terminal = Terminal(master, process)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        asyncio.get_running_loop().remove_reader(master)
        os.close(master)


@asynccontextmanager
async def company(folder: Path) -> AsyncIterator[tuple[str, Agent, "asyncio.Queue[Message]"]]:
    bob = Agent("bob", channels=["#general"])
    heard: asyncio.Queue[Message] = asyncio.Queue()

    @bob.on_message("#general")
    async def hear(message: Message) -> None:
        heard.put_nowait(message)

    async with hall(folder) as opened, bob.connected(opened.url):
        yield opened.url, bob, heard


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (132, 50)])
async def test_a_conversation_in_a_real_terminal(tmp_path: Path, size: tuple[int, int]) -> None:
    async with company(tmp_path) as (url, bob, heard), chatting(url, size) as terminal:
        await terminal.until("2 here")
        terminal.press("grüß dich 你好\r".encode())
        async with asyncio.timeout(PATIENCE):
            assert (await heard.get()).content == "grüß dich 你好"
        terminal.press(b"\x1b[200~two\rlines\x1b[201~\r")
        async with asyncio.timeout(PATIENCE):
            assert (await heard.get()).content == "two\nlines"
        await bob.send("#general", "hostile\x1b]0;owned\x07\x1b[?1049l")
        await terminal.until("hostile")
        assert b"\x1b]0;owned" not in terminal.written
        assert b"\x1b[?1049l" not in terminal.written
        terminal.press(b"\x1bOP")
        await terminal.until("commands")
        terminal.press(b"\x11")
        async with asyncio.timeout(PATIENCE):
            assert await terminal.process.wait() == 0
        await terminal.until("\x1b[?1049l")  # the screen of before is back


async def test_a_message_goes_to_the_room_it_was_written_in(tmp_path: Path) -> None:
    """However fast the next key comes."""
    async with company(tmp_path) as (url, _, heard), chatting(url, (80, 24)) as terminal:
        await terminal.until("2 here")
        terminal.press(b"/join agents\r")
        await terminal.until("#agents  1 here")
        terminal.press(b"\x10for general\r\x0e")  # Ctrl-P and Ctrl-N
        async with asyncio.timeout(PATIENCE):
            message = await heard.get()
        assert (message.channel, message.content) == ("#general", "for general")


async def test_what_was_said_last_arrives_before_the_person_leaves(tmp_path: Path) -> None:
    async with company(tmp_path) as (url, _, heard), chatting(url, (80, 24)) as terminal:
        await terminal.until("2 here")
        terminal.press(b"bye\r\x11")
        async with asyncio.timeout(PATIENCE):
            assert await terminal.process.wait() == 0
            assert (await heard.get()).content == "bye"


async def test_alt_and_a_digit_changes_the_room(tmp_path: Path) -> None:
    async with company(tmp_path) as (url, _, _), chatting(url, (80, 24)) as terminal:
        await terminal.until("2 here")
        terminal.press(b"/join agents\r")
        await terminal.until("#agents")
        terminal.press(b"\x1b1hello\r")
        await terminal.until("hello")
        assert "¡".encode() not in terminal.written


async def test_no_color_is_honoured(tmp_path: Path) -> None:
    async with company(tmp_path) as (url, bob, _):
        async with chatting(url, (80, 24)) as terminal:
            await terminal.until("2 here")
            assert not all(red == green == blue for red, green, blue in _COLOUR.findall(terminal.written))
        async with chatting(url, (80, 24), NO_COLOR="1") as terminal:
            await terminal.until("2 here")
            await bob.send("#general", "@ada look")
            await terminal.until("look")
            assert all(red == green == blue for red, green, blue in _COLOUR.findall(terminal.written))
            assert b"\x1b[7m" in terminal.written or b";7m" in terminal.written or b"7;" in terminal.written
