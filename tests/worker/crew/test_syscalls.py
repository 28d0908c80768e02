"""System calls that an agent's container does not have, tried by a process that has given them up."""

import json
import platform
import subprocess
import sys

import pytest

from moothall.errors import UsageError
from moothall.worker.crew import syscalls
from moothall.worker.crew.syscalls import MACHINES, program

_PROGRAM = """
import ctypes, errno, json, os, socket, subprocess, sys
from moothall.worker.crew.syscalls import MACHINES, restrict
import platform
numbers = MACHINES[platform.machine()].numbers
restrict()
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *words):
    return "done" if libc.syscall(numbers[name], *words) >= 0 else errno.errorcode[ctypes.get_errno()]

def made(*kind):
    try:
        socket.socket(*kind).close()
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]

print(json.dumps({
    "user namespace": call("unshare", 0x10000000),
    "network namespace": call("unshare", 0x40000000),
    "time namespace": call("unshare", 0x80),
    "own files": call("unshare", 0x400),
    "clone": call("clone", 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": call("clone3", 0, 0),
    "mount": call("mount", 0, 0, 0, 0, 0),
    "memfd": call("memfd_create", b"x", 0),
    "io_uring": call("io_uring_setup", 1, 0),
    "keyctl": call("keyctl", 0, -3, 0),
    "vsock": made(40, socket.SOCK_STREAM),
    "packet": made(17, socket.SOCK_RAW),
    "unix": made(socket.AF_UNIX),
    "tcp": made(socket.AF_INET),
    "tcp6": made(socket.AF_INET6),
    "netlink": made(socket.AF_NETLINK, socket.SOCK_RAW),
    "fork": os.waitpid(os.fork() or os._exit(3), 0)[1] >> 8,
    "program": subprocess.run([sys.executable, "-ISc", "import threading; t = threading.Thread(target=print);"
        " t.start(); t.join()"], stdout=subprocess.DEVNULL).returncode,
}))
"""


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="not run: no containers on this machine")
def test_the_kernel_refuses_them_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {
        **dict.fromkeys(("user namespace", "network namespace", "time namespace", "clone", "mount"), "EPERM"),
        **dict.fromkeys(("clone3", "memfd", "io_uring"), "ENOSYS"),
        **dict.fromkeys(("vsock", "packet"), "EAFNOSUPPORT"),
        **dict.fromkeys(("unix", "tcp", "tcp6", "netlink", "own files"), "done"),
        "keyctl": "EPERM",
        "fork": 3,
        "program": 0,
    }


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_no_jump_leads_out_of_the_filter(machine: syscalls.Machine) -> None:
    instructions = program(machine)
    for at, (_, if_true, if_false, _) in enumerate(instructions):
        assert at + 1 + max(if_true, if_false) < len(instructions) or instructions[at][0] == 6
        assert max(if_true, if_false) < 256


def test_an_unknown_machine_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UsageError, match="this machine is riscv64"):
        syscalls.restrict()
