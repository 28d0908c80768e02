"""Agents in real containers: their walls as seen from inside, what goes through them, how they start and end."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from moothall.errors import UsageError
from moothall.worker.crew.containers import USER, first_user, name_of
from moothall.worker.crew.podman import PodmanRuntime
from moothall.worker.crew.runtime import Recipe, Standing
from tests.support.containers import Yard, yard
from tests.support.server import HallProcess, running_hall

pytestmark = pytest.mark.slow

ALICE = "alice"
TMP = "/tmp"  # noqa: S108  # that of a container
# Of cgroups 1 and 2. What the other one has is not there.
LIMITS = "memory.max memory/memory.limit_in_bytes pids.max pids/pids.max cpu.max cpu/cpu.cfs_quota_us"
WRITABLE = """
find / -xdev -writable -type d 2>/dev/null
for folder in /* /run/* /home/*; do if [ -w $folder ]; then echo $folder; fi; done
"""
ASK_FOR_SECRETS = """
import socket
asking = socket.socket(socket.AF_UNIX)
asking.connect("/run/moothall/secrets.sock")
print(asking.recv(99))
"""
ASK_THE_MODEL = """
import os, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
print(os.environ["ANTHROPIC_API_KEY"], urllib.request.urlopen(urllib.request.Request(url, b"{}")).read())
"""


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall")) as found:
        yield found


@pytest.fixture(scope="module")
def place() -> Iterator[Yard]:
    with yard() as found:
        yield found


@pytest.fixture(scope="module")
def alice(place: Yard, hall: HallProcess) -> Recipe:
    """An agent that runs while all tests of this file do."""
    recipe = place.recipe(ALICE, hall.url, memory="512m", cpus=1.5, processes=100, protected=True)
    place.start(recipe)
    place.until_running(recipe)
    return recipe


def stands(place: Yard, name: str) -> Standing:
    return next(each for each in place.runtime.standing() if each.name == name)


def mounts(place: Yard) -> dict[str, set[str]]:
    lines = place.shell(ALICE, "cat /proc/mounts").splitlines()
    return {line.split()[1]: set(line.split()[3].split(",")) for line in lines}


# -- walls --------------------------------------------------------------------------------------------------------


def test_it_has_no_capabilities_and_cannot_get_any(place: Yard, alice: Recipe) -> None:
    lines = place.shell(ALICE, "cat /proc/1/status").splitlines()
    status = {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind][0], 16) == 0
    assert status["NoNewPrivs"] == ["1"]
    assert status["Seccomp"] == ["2"]
    assert status["Uid"] == [str(USER)] * 4
    assert place.shell(ALICE, "find / -xdev -perm /6000 2>/dev/null; true") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root can give each agent user ids of its own")
def test_its_user_is_no_user_of_the_host(place: Yard, alice: Recipe) -> None:
    first = first_user(place.crew.name, ALICE)
    assert place.shell(ALICE, "cat /proc/self/uid_map").split() == ["0", str(first), "65536"]
    assert alice.places.state.stat().st_uid == first + USER
    assert first_user(place.crew.name, "bob") != first


def test_only_its_own_folders_can_be_written_and_none_of_them_holds_programs(
    place: Yard, alice: Recipe
) -> None:
    found = mounts(place)
    assert "ro" in found["/"]
    for folder in ("/crew", "/run/moothall", "/etc/hosts"):
        assert {"ro", "nosuid", "nodev"} <= found[folder]
    folders = set(place.shell(ALICE, WRITABLE).splitlines())
    assert folders == {"/state", "/workspace", TMP, "/home/agent", "/run/secrets"}
    for folder in folders:
        assert {"rw", "noexec", "nosuid", "nodev"} <= found[folder]
        assert place.inside(ALICE, "sh", "-c", f"cp /bin/true {folder}/x && {folder}/x").returncode == 126
        place.shell(ALICE, f"rm {folder}/x")
    assert "size=262144k" in found[TMP]
    assert {"noexec", "nosuid", "nodev"} <= found["/dev/shm"]  # noqa: S108  # that of a container


def test_its_share_of_the_machine_is_limited(place: Yard, alice: Recipe) -> None:
    numbers = place.inside(ALICE, "sh", "-c", f"cd /sys/fs/cgroup; cat {LIMITS}").stdout.split()
    assert numbers[:3] == [str(512 * 1024 * 1024), "100", "150000"]


def test_labels_name_and_restart_policy(place: Yard, alice: Recipe) -> None:
    facts = json.loads(place.podman("inspect", name_of(place.crew.name, ALICE)).stdout)[0]
    assert facts["HostConfig"]["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 3}
    assert facts["Config"]["Labels"] == {
        "agentchat.agent": "true",
        "agentchat.name": ALICE,
        "agentchat.protected": "true",
        "moothall.crew": place.crew.name,
        "moothall.folder": str(place.places.root),
    }


# -- ways out -----------------------------------------------------------------------------------------------------


def test_it_reaches_the_hall_and_nothing_else(place: Yard, alice: Recipe, hall: HallProcess) -> None:
    listed = place.inside(ALICE, "moothall", "channels", "--json")
    assert "#general" in listed.stdout, listed.stderr
    assert place.shell(ALICE, "ls /sys/class/net") == "lo"
    assert place.shell(ALICE, "cat /etc/hosts") == "127.0.0.1 localhost"
    with socket.create_server(("127.0.0.1", 0)) as other:
        for address in (other.getsockname(), ("192.0.2.1", 80)):
            dial = f"import socket; socket.create_connection({address!r}, 5)"
            assert place.inside(ALICE, "python3", "-c", dial).returncode == 1
    assert place.inside(ALICE, "rm", "/run/moothall/hall.sock").returncode == 1


def test_its_secrets_are_gone_and_are_not_given_to_the_model_s_shell(place: Yard, alice: Recipe) -> None:
    assert place.shell(ALICE, "ls -A /run/secrets") == ""
    assert place.inside(ALICE, "python3", "-c", ASK_FOR_SECRETS).stdout == "b''\n"
    assert any("another process than the first" in line for line in place.said)


class Api(BaseHTTPRequestHandler):
    """A stand-in for the model's API."""

    keys: ClassVar[list[str | None]] = []  # that came with requests

    def do_POST(self) -> None:
        self.keys.append(self.headers["x-api-key"])
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Not in the output of the tests."""


def test_the_model_is_reached_with_a_key_that_stays_on_the_host(
    place: Yard, hall: HallProcess, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("sk-ant-api03-secret")
    api = HTTPServer(("127.0.0.1", 0), Api)
    thread = Thread(target=api.serve_forever)
    thread.start()
    bob = place.recipe("bob", hall.url, runtime="cli")
    bob = replace(bob, crew=replace(bob.crew, token=token, model_url=f"http://127.0.0.1:{api.server_port}"))
    try:
        place.start(bob)
        place.until(lambda: place.state(bob), "its supervisor, which comes after the ways out")
        answer = place.inside("bob", "python3", "-c", ASK_THE_MODEL)
        assert answer.stdout == "proxy-managed b'hello'\n", answer.stderr
        assert Api.keys == ["sk-ant-api03-secret"]
        held = place.shell(
            "bob", "cat /proc/*/environ /proc/*/cmdline /run/secrets/* /state/* 2>/dev/null; true"
        )
        assert "sk-ant" not in held
    finally:
        api.shutdown()
        thread.join()
        api.server_close()
        place.runtime.kill("bob")
        place.runtime.remove("bob")


# -- life ---------------------------------------------------------------------------------------------------------


def test_a_command_of_the_user_runs_inside(place: Yard, alice: Recipe) -> None:
    assert place.runtime.exec(alice, ["sh", "-c", "test $PWD = /workspace && exit 7"]) == 7
    with pytest.raises(UsageError, match="does not run"):
        place.runtime.exec(place.recipe("nobody", alice.hall), ["true"])


def test_a_container_that_died_comes_back_with_its_secrets(place: Yard, hall: HallProcess) -> None:
    carol = place.recipe("carol", hall.url)
    place.start(carol)
    place.until_running(carol)
    place.runtime.start(carol)  # a second start changes nothing
    for restarts, script in enumerate(["", "kill -9 $(cat /state/supervisor.pid)"], 1):
        (carol.places.state / "state.json").unlink()
        if script:  # the supervisor: the container does not outlive it
            place.inside("carol", "sh", "-c", script)
        else:
            pid = int(
                place.podman("inspect", "--format={{.State.Pid}}", name_of(place.crew.name, "carol")).stdout
            )
            os.kill(pid, signal.SIGKILL)
        place.until_running(carol)
        standing = stands(place, "carol")
        assert (standing.is_running, standing.restarts) == (True, restarts)

    place.runtime.stop("carol", 20)
    assert stands(place, "carol")[1::2] == (False, 0)
    assert place.state(carol)["status"] == "stopped"
    place.runtime.stop("carol", 20)  # nothing to do
    place.runtime.start(carol)
    place.until_running(carol)
    place.runtime.wake("carol")
    assert stands(place, "carol").restarts == 0
    place.runtime.kill("carol")
    assert stands(place, "carol")[1::2] == (False, 128 + signal.SIGKILL)
    place.runtime.remove("carol")
    assert "carol" not in [each.name for each in place.runtime.standing()]
    place.runtime.remove("carol")


def test_another_crew_of_the_same_name_is_left_alone(place: Yard, alice: Recipe, tmp_path: Path) -> None:
    places = replace(place.places, root=tmp_path / "elsewhere")
    places.make()
    other = PodmanRuntime(place.crew, places)
    assert other.standing() == []
    same = replace(alice, places=places.member(ALICE))
    with pytest.raises(UsageError, match="another crew has a container"):
        other.start(same)
    assert stands(place, ALICE).is_running
