"""Machines on two networks, each a network namespace of its own on this machine.

Agents reach the machines over the front network. Machines reach NATS and PostgreSQL over the back network. A
machine whose back cable is cut can still be spoken to, and no end of its other connections is told: as with a real
cable.

`Networks` makes two switches and so many machines. The calling thread moves to the switches, and with it all that
it starts: NATS and PostgreSQL listen at `BACK`, and agents connect from there. Nodes run on a machine (`within`).
Everything is gone when the processes are. Nothing outside of the namespaces is changed.
"""

import ctypes
import os
import subprocess
from typing import Final, Self

import pytest

BACK: Final = "10.94.0.1"
_NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET
_READY: Final = b"ready\n"


class Machine:
    def __init__(self, number: int) -> None:
        self.address = f"10.93.0.{number + 10}"  # on the front network
        self._cable = f"back{number}"
        self._process = _sleeper()
        self._plug(f"front{number}", "front", "eth0", self.address)
        self._plug(self._cable, "back", "eth1", f"10.94.0.{number + 10}")
        self._run_within("ip link set lo up")

    @property
    def within(self) -> tuple[str, ...]:
        """The command that runs another one on this machine."""
        return ("nsenter", "-t", str(self._process.pid), "-n", "--")

    def cut(self) -> None:
        """The back network is gone."""
        _run(f"ip link set {self._cable} down")

    def heal(self) -> None:
        _run(f"ip link set {self._cable} up")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _plug(self, cable: str, switch: str, device: str, address: str) -> None:
        _run(f"ip link add {cable} type veth peer name {device} netns {self._process.pid}")
        _run(f"ip link set {cable} master {switch} up")
        self._run_within(f"ip address add {address}/24 dev {device}")
        self._run_within(f"ip link set {device} up")

    def _run_within(self, command: str) -> None:
        subprocess.run([*self.within, *command.split()], check=True, stdin=subprocess.DEVNULL)


class Networks:
    def __init__(self, machines: int) -> None:
        reason = missing()
        if reason is not None:
            pytest.skip(f"not run: {reason}")
        self._machines = machines

    def __enter__(self) -> Self:
        self._before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        _change_network(None)
        _run("ip link set lo up")
        for switch, address in (("front", "10.93.0.1"), ("back", BACK)):
            _run(f"ip link add {switch} type bridge")
            _run(f"ip address add {address}/24 dev {switch}")
            _run(f"ip link set {switch} up")
        self.machines = [Machine(number) for number in range(self._machines)]
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines:
            machine.stop()
        _change_network(self._before)
        os.close(self._before)


def missing() -> str | None:
    """What namespaces need and this machine does not have; None if it has all."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    trial = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "switch", "type", "bridge"],
        capture_output=True,
        check=False,
        text=True,
    )
    return None if trial.returncode == 0 else f"no network namespaces: {trial.stderr.strip()}"


def _sleeper() -> subprocess.Popen[bytes]:
    """A process in a new network. It ends with this one, which holds the other end of its input."""
    process = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo ready; exec cat >/dev/null"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == _READY
    return process


def _change_network(file: int | None) -> None:
    """Of this thread: to that of the file, or to a new one."""
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.unshare(_NEW_NETWORK) if file is None else libc.setns(file, _NEW_NETWORK)
    if failed:
        raise OSError(ctypes.get_errno(), "no other network")


def _run(command: str) -> None:
    subprocess.run(command.split(), check=True, stdin=subprocess.DEVNULL)
