"""System calls that no process of an agent's container gets, in addition to those that Podman's own filter keeps.

Podman's filter lets any process make a user namespace. In one, a process may mount folders whose programs run, and
reaches parts of the kernel that were written for root. And no network namespace holds back a vsock, which leads
to the machine that runs this one. Process 1 of a container takes these calls from itself, and so from all others.

A call that is taken away fails with the error that it has on a kernel without it, so that programs do without.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from moothall.errors import UsageError


class Machine(NamedTuple):
    """One kind of processor: its name for the kernel (linux/audit.h), and the numbers of its calls by name."""

    arch: int
    numbers: Mapping[str, int]


# The same on all machines, because they are newer than most of them.
_NEW: Final = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "mount_setattr": 442,
}
MACHINES: Final[Mapping[str, Machine]] = {
    "x86_64": Machine(
        0xC000003E,
        _NEW
        | {"socket": 41, "clone": 56, "pivot_root": 155, "mount": 165, "umount2": 166, "add_key": 248}
        | {"request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298}
        | {"name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "memfd_create": 319, "bpf": 321}
        | {"userfaultfd": 323},
    ),
    "aarch64": Machine(
        0xC00000B7,
        _NEW
        | {"umount2": 39, "mount": 40, "pivot_root": 41, "unshare": 97, "socket": 198, "add_key": 217}
        | {"request_key": 218, "keyctl": 219, "clone": 220, "perf_event_open": 241}
        | {"name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268, "memfd_create": 279, "bpf": 280}
        | {"userfaultfd": 282},
    ),
}

# Programs ask whether these are there. io_uring can open sockets past this filter. A file in memory is run in spite
# of folders that allow no programs. The flags of clone3 are in memory, where a filter cannot see them.
_MISSING: Final = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_create")
_REFUSED: Final = (
    *("mount", "umount2", "pivot_root", "setns", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount"),
    *("fspick", "mount_setattr", "add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd"),
    *("name_to_handle_at", "open_by_handle_at"),
)
_NAMESPACES: Final = 0x7E020000  # all CLONE_NEW* flags of clone (linux/sched.h)
_NEW_TIME: Final = 0x80  # CLONE_NEWTIME, for unshare alone
_FAMILIES: Final = (1, 2, 10, 16)  # of sockets: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

# linux/bpf_common.h, linux/seccomp.h, linux/prctl.h
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW: Final = 0x7FFF0000
_FAIL_WITH: Final = 0x00050000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, on little-endian machines
_X32: Final = 0x40000000  # calls of another set of numbers on x86_64
_PR_SET_SECCOMP, _MODE_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value


def program(machine: Machine) -> list[Instruction]:
    """The filter, for the kernel. Pure."""
    found: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_IF_EQUAL, 1, 0, machine.arch),
        _fail(errno.ENOSYS),  # 32-bit programs, whose calls have other numbers
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, _X32),
        _fail(errno.ENOSYS),
    ]
    for names, error in ((_MISSING, errno.ENOSYS), (_REFUSED, errno.EPERM)):
        for name in names:
            found += [(_IF_EQUAL, 0, 1, machine.numbers[name]), _fail(error)]
    for name, flags in (("clone", _NAMESPACES), ("unshare", _NAMESPACES | _NEW_TIME)):
        checks = [(_LOAD, 0, 0, _FIRST_ARGUMENT), (_IF_ANY_BIT, 0, 1, flags), _fail(errno.EPERM), _allow()]
        found += [(_IF_EQUAL, 0, len(checks), machine.numbers[name]), *checks]
    known = [(_IF_EQUAL, len(_FAMILIES) - at, 0, family) for at, family in enumerate(_FAMILIES)]
    checks = [(_LOAD, 0, 0, _FIRST_ARGUMENT), *known, _fail(errno.EAFNOSUPPORT)]
    return [*found, (_IF_EQUAL, 0, len(checks), machine.numbers["socket"]), *checks, _allow()]


def restrict() -> None:
    """Take the calls from this process, and from all that it starts. Raises UsageError or OSError."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        raise UsageError(
            f"containers of agents run on {' and '.join(MACHINES)}, and this machine is {platform.machine()}"
        )
    words = b"".join(struct.pack("HBBI", *instruction) for instruction in program(machine))
    code = ctypes.create_string_buffer(words)
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(words) // 8, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _MODE_FILTER, filter_, 0, 0
    ):
        error = ctypes.get_errno()
        raise OSError(error, f"prctl(PR_SET_SECCOMP): {os.strerror(error)}")


def _fail(error: int) -> Instruction:
    return (_RETURN, 0, 0, _FAIL_WITH | error)


def _allow() -> Instruction:
    return (_RETURN, 0, 0, _ALLOW)
