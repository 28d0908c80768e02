"""Starts a hall on this machine when there is no keep server yet (keep wire 11).

The published SDK removes containers that use the port and runs an image or a Go program that it downloads.
Here nothing is downloaded and nothing is removed: the hall that is installed with this package is started, and
goes on when the program that started it ends.
"""

import logging
import socket
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from moothall.keep.cache import DEFAULT_HOST, DEFAULT_PORT, folder

START_TIMEOUT: Final = 30.0
PROBE_TIMEOUT: Final = 1.0
PROBE_PAUSE: Final = 0.1
# A hall that gives up at once may have done so because another program is starting one there this very moment.
LAST_LOOK: Final = 2.0

_log: Final = logging.getLogger("moothall.keep")


def ensure_server(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, timeout: float = START_TIMEOUT) -> bool:
    """True when a server answers on `host:port`, whether it was there or had to be started; False when none
    does after `timeout` seconds. What a hall that was started says is in `~/.keep/hall-PORT.log`."""
    if is_listening(host, port):
        return True
    try:
        hall = _start(host, port)
    except OSError as error:
        _log.error("no keep server could be started: %s", error)
        return False
    if _answers_in_time(host, port, hall, monotonic() + timeout):
        return True
    _log.error(
        "the keep server that was started on %s:%d does not answer: see %s", host, port, log_file(port)
    )
    return False


def is_listening(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), PROBE_TIMEOUT):
            return True
    except OSError:
        return False


def command(host: str, port: int) -> list[str]:
    """The hall's WebSocket takes any free port. To choose that one too, start the hall by hand."""
    serve = [sys.executable, "-m", "moothall", "serve", "--host", host, "--port", "0"]
    return [*serve, "--keep", "--keep-port", str(port), "--data-dir", str(data_folder(port))]


def data_folder(port: int) -> Path:
    return folder() / "hall" / str(port)


def log_file(port: int) -> Path:
    return folder() / f"hall-{port}.log"


def _start(host: str, port: int) -> subprocess.Popen[bytes]:
    data = data_folder(port)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with log_file(port).open("ab") as log:
        hall = subprocess.Popen(  # noqa: S603  # ourselves
            command(host, port),
            cwd=data,  # not the caller's folder, whose moothall.toml is for another hall
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is meant for the program that started it
        )
    # Reap the process when it ends, for as long as this one runs.
    threading.Thread(target=hall.wait, name=f"keep server on {port}", daemon=True).start()
    return hall


def _answers_in_time(host: str, port: int, hall: subprocess.Popen[bytes], deadline: float) -> bool:
    while not is_listening(host, port):
        if hall.poll() is not None:
            deadline = min(deadline, monotonic() + LAST_LOOK)
        if monotonic() >= deadline:
            return False
        sleep(PROBE_PAUSE)
    return True
