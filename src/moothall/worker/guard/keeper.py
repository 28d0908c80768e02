"""The keeper: the process between the guard and the command. It starts the command and collects all that it leaves.

It has no clock and decides nothing. The guard writes orders to it: one byte, the signal to send to all processes of
the command. The keeper writes reports, one line each. When the orders end, the guard is dead, and all are killed.
"""

import os
import select
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from moothall.worker.cgroup import Cgroup
from moothall.worker.descendants import adopt_orphans, has_children, kill_tree, reap, send, tree
from moothall.worker.descriptors import close_all_but

STARTED: Final = "started"  # and the process id
FAILED: Final = "failed"  # to start, and the number of the error
EXITED: Final = "exited"  # and the wait status

NOT_FOUND: Final = 127  # exit codes as shells have them
NOT_EXECUTABLE: Final = 126

_AGAIN: Final = 20  # milliseconds until the next look while processes are being killed
_SLOWEST: Final = 1000
_LONGEST_VALUE: Final = 128 * 1024  # bytes; the kernel refuses longer variables
_NEWLINE_BYTES: Final = b"\r\n"


class Command(NamedTuple):
    """`variables`: for its environment, each with the descriptor that its value is read from."""

    words: list[str]
    output: int
    errors: int
    variables: Mapping[str, int]


class Keeper(NamedTuple):
    """The guard's ends of the pipes."""

    pid: int
    orders: int
    reports: int


def start(command: Command, group: Cgroup | None) -> Keeper:
    """Fork the keeper, which starts the command. Raises OSError."""
    read_orders, orders = os.pipe()
    reports, write_reports = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(orders)
            os.close(reports)
            _keep(command, group, read_orders, write_reports)
        finally:  # an error too must not unwind into the code of the guard
            os._exit(1)
    os.close(read_orders)
    os.close(write_reports)
    return Keeper(pid, orders, reports)


def _keep(command: Command, group: Cgroup | None, orders: int, reports: int) -> NoReturn:
    os.setsid()  # a signal from the terminal is for the guard, which passes it on
    adopt_orphans()
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, _noted)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    child = _start(command, group, reports)
    _let_go_of_all_but({orders, reports, waker, wake})
    os.write(reports, f"{STARTED} {child}\n".encode())
    poll = select.poll()
    poll.register(orders, select.POLLIN)
    poll.register(waker, select.POLLIN)
    is_killing, pause = False, _AGAIN
    while True:
        status = reap().get(child)
        if status is not None:
            with suppress(BrokenPipeError):
                os.write(reports, f"{EXITED} {status}\n".encode())
        if not has_children():
            if group is not None:
                group.remove()
            os._exit(0)
        if is_killing:
            kill(os.getpid(), group)
            pause = min(2 * pause, _SLOWEST)
        for descriptor, _ in poll.poll(pause if is_killing else None):
            if descriptor == waker:
                with suppress(BlockingIOError):
                    os.read(waker, 4096)
                continue
            order = os.read(orders, 1)
            if not order:
                poll.unregister(orders)
            if not order or order[0] == signal.SIGKILL:
                is_killing = True
            else:
                for each in tree(os.getpid()):
                    send(each, order[0])
                    send(each, signal.SIGCONT)  # a stopped process takes no other signal


def kill(ancestor: int, group: Cgroup | None, spared: frozenset[int] = frozenset()) -> None:
    """SIGKILL all processes of the command, which are below `ancestor`."""
    if group is not None:
        group.kill()
    kill_tree(ancestor, spared)


def _start(command: Command, group: Cgroup | None, reports: int) -> int:
    child = os.fork()
    if child:
        return child
    code = NOT_FOUND
    try:
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(
                number, signal.SIG_DFL
            )  # Python ignores two of them, and the command would inherit that
        os.setsid()
        if group is not None:
            group.join()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(command.output, 1)
        os.dup2(command.errors, 2)
        environment = os.environ | {name: _read(each) for name, each in command.variables.items()}
        os.execvpe(command.words[0], command.words, environment)  # noqa: S606  # the command that was asked for
    except FileNotFoundError as error:
        _tell_failure(reports, error)
    except OSError as error:
        code = NOT_EXECUTABLE
        _tell_failure(reports, error)
    finally:
        os._exit(code)


def _let_go_of_all_but(own: set[int]) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    close_all_but(own)


def _tell_failure(reports: int, error: OSError) -> None:
    with suppress(OSError):
        os.write(reports, f"{FAILED} {error.errno}\n".encode())


def _read(descriptor: int) -> str:
    """A value up to its end; a newline at the end is not a part of it."""
    value = b""
    while (more := os.read(descriptor, _LONGEST_VALUE)) and len(value) < _LONGEST_VALUE:
        value += more
    os.close(descriptor)
    return os.fsdecode(value.rstrip(_NEWLINE_BYTES))


def _noted(_number: int, _frame: object) -> None:
    """The wake-up descriptor says the rest."""
