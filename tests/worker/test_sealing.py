"""A sealed process: what another process of its user can see of it, also with the powers of a user namespace."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# Prints what a child that is not trusted gets of its sealed parent, and of one that is not sealed. Root may look at
# everything, so the program stops being root.
_PROGRAM = """
import ctypes, json, os, sys
from moothall.worker.sealing import seal

libc = ctypes.CDLL(None, use_errno=True)
NOBODY, ATTACH, DETACH, GETFD, NEWUSER = 65534, 16, 17, 438, 0x10000000
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    libc.prctl(4, 1, 0, 0, 0)  # another user is sealed by that, until its next program

def looks(pid, pipe):
    def tried(act):
        try:
            return "seen" if act() else "nothing"
        except OSError as error:
            return error.strerror
    def read(name):
        return lambda: os.read(os.open(f"/proc/{pid}/{name}", os.O_RDONLY), 100)
    def memory():
        where = [line for line in open(f"/proc/{pid}/maps") if "[stack]" in line][0]
        start = int(where.split("-")[0], 16)
        return os.pread(os.open(f"/proc/{pid}/mem", os.O_RDONLY), 100, start)
    def called(result):
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return True
    def trace():
        called(libc.ptrace(ATTACH, pid, None, None))
        os.waitpid(pid, 0)
        return called(libc.ptrace(DETACH, pid, None, None))
    def copy_descriptor():
        return called(libc.syscall(GETFD, os.pidfd_open(pid), pipe, 0))
    return {
        "environ": tried(read("environ")), "maps": tried(read("maps")), "mem": tried(memory),
        "fd": tried(read(f"fd/{pipe}")), "fds": tried(lambda: os.listdir(f"/proc/{pid}/fd")),
        "exe": tried(lambda: os.readlink(f"/proc/{pid}/exe")),
        "ptrace": tried(trace), "pidfd": tried(copy_descriptor),
    }

def watched(is_sealed, in_namespace):
    secret, filling = os.pipe()
    os.write(filling, b"secret")
    order, ordering = os.pipe()
    victim = os.fork()
    if not victim:
        if is_sealed:
            seal()
        os.write(ordering, b"x")
        os.read(os.pipe()[0], 1)
    os.read(order, 1)
    told, telling = os.pipe()
    spy = os.fork()
    if not spy:
        if in_namespace and libc.unshare(NEWUSER):
            os.write(telling, b"{}")
        else:
            os.write(telling, json.dumps(looks(victim, secret)).encode())
        os._exit(0)
    os.waitpid(spy, 0)
    found = json.loads(os.read(told, 65536))
    os.kill(victim, 9)
    os.waitpid(victim, 0)
    return found

print(json.dumps([watched(False, False), watched(True, False), watched(True, True)]))
"""


def test_another_process_of_the_user_sees_nothing_of_it() -> None:
    printed = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, check=True, text=True)
    open_one, sealed, from_namespace = json.loads(printed.stdout)
    assert open_one["environ"] == open_one["maps"] == open_one["fd"] == "seen"
    for found in (sealed, from_namespace or sealed):
        assert set(found.values()) <= {"Permission denied", "Operation not permitted"}, found
    if not from_namespace:
        pytest.skip("not run: this machine does not let users have user namespaces")
