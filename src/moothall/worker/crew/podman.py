"""Agents in containers of Podman, one each. Podman applies the restart policy, and remembers how they ended."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Final, NamedTuple

from moothall.errors import UsageError
from moothall.worker import state_file
from moothall.worker.crew import keys, podman_program
from moothall.worker.crew.containers import (
    CREW_LABEL,
    FOLDER_LABEL,
    HOSTS,
    NAME_LABEL,
    USER,
    WORKSPACE,
    Host,
    create,
    first_user,
    hosts_file,
    name_of,
    needs_token,
)
from moothall.worker.crew.places import Places
from moothall.worker.crew.plan import Crew
from moothall.worker.crew.podman_program import Podman, PodmanFailed, own_environment, this_host
from moothall.worker.crew.runtime import Recipe, Standing

PERIOD: Final = 1.0  # seconds
FLAGS: Final = "podman.json"  # in the folder of the crew: the flags that work here

_RUNNING: Final = frozenset(("running", "stopping", "paused"))
_NEVER_STARTED: Final = frozenset(("created", "configured", "initialized"))
_TRIES: Final = 3  # to list containers while others come and go
_OPEN_TO_ALL: Final = 0o755  # the folders above are for their owner alone
# One line for each container, in the words of Podman's templates.
_LINE: Final = " ".join(
    (
        "{{.Id}}",
        f'{{{{index .Config.Labels "{NAME_LABEL}"}}}}',
        "{{.State.Status}} {{.State.Pid}} {{.State.ExitCode}}",
        "{{.State.StartedAt.Unix}} {{.State.FinishedAt.Unix}} {{.RestartCount}}",
    )
)


class Container(NamedTuple):
    """What Podman says of one."""

    id: str
    agent: str
    status: str
    pid: int
    exit_code: int
    started: float
    finished: float
    restarts: int

    @property
    def is_running(self) -> bool:
        return self.status in _RUNNING

    @classmethod
    def of(cls, line: str) -> "Container":
        found, agent, status, *numbers = line.split()
        pid, exit_code, started, finished, restarts = map(int, numbers)
        return cls(found, agent, status, pid, exit_code, float(started), float(finished), restarts)


class PodmanRuntime:
    """The agents of one crew. Others may call different methods at the same time, for different agents."""

    isolates = True
    period = PERIOD

    def __init__(self, crew: Crew, places: Places) -> None:
        self._crew = crew
        self._places = places
        self._host = this_host()
        self._writing = Lock()

    def start(self, recipe: Recipe) -> None:
        podman = podman_program.find(recipe.crew)
        name = name_of(recipe.crew.name, recipe.member.name)
        before = self._look(podman, recipe.member.name)
        if before is not None and before.is_running:
            return
        self._remember(podman)
        if before is not None:
            podman.run("rm", "--force", "--time=0", before.id)
        prepare(recipe, self._host)
        words = create(recipe, self._host)
        try:
            made = podman.run(*words.arguments, variables=words.variables).strip()
        except PodmanFailed as failure:
            if "already in use" not in str(failure):
                raise
            raise UsageError(
                f"another crew has a container with the name {name}: give this crew another name in [crew]"
            ) from None
        try:
            # Podman's monitor leaves a file `oom` in its directory when a container runs out of memory.
            podman.run("start", made, folder=recipe.places.root)
        except PodmanFailed:
            podman.run("rm", "--force", "--time=0", made)
            raise

    def stop(self, name: str, patience: float) -> None:
        found = self._look(self._podman, name)
        if found is not None:
            seconds = max(0, math.ceil(patience))
            self._podman.run("stop", f"--time={seconds}", found.id, patience=podman_program.TIME + seconds)

    def kill(self, name: str) -> None:
        self.stop(name, 0)  # unlike `podman kill`, this is an end that the restart policy leaves alone

    def wake(self, name: str) -> None:
        # `podman kill --signal` would switch the restart policy off.
        found = self._look(self._podman, name)
        if found is None or not found.is_running:
            return
        with suppress(ProcessLookupError):
            process = os.pidfd_open(found.pid)
            try:
                if self._look(self._podman, name) == found:  # so it is the process that Podman speaks of
                    signal.pidfd_send_signal(process, signal.SIGUSR1)
            finally:
                os.close(process)

    def remove(self, name: str) -> None:
        found = self._look(self._podman, name)
        if found is not None:
            self._podman.run("rm", "--force", "--time=0", found.id)

    def standing(self) -> list[Standing]:
        found = [each for each in self._list(self._podman) if each.status not in _NEVER_STARTED]
        return sorted(
            Standing(each.agent, True, each.started, None, each.restarts)
            if each.is_running
            else Standing(each.agent, False, each.finished, each.exit_code, each.restarts)
            for each in found
        )

    def exec(self, recipe: Recipe, words: Sequence[str]) -> int:
        found = self._look(self._podman, recipe.member.name)
        if found is None or not found.is_running:
            raise UsageError(f"{recipe.member.name} does not run: `moothall worker up` starts it")
        terminal = ["--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        return subprocess.call(  # noqa: S603  # the user's own words, run in the container
            self._podman.words(
                "exec", "--interactive", *terminal, f"--workdir={WORKSPACE}", found.id, *words
            ),
            env=own_environment(),
        )

    def tend(self, recipes: Sequence[Recipe]) -> list[str]:
        return []  # Podman applies the restart policy

    def _remember(self, podman: Podman) -> None:
        with self._writing:
            if self._podman != podman:
                state_file.write_object(self._places.root / FLAGS, {"flags": podman.flags})

    @property
    def _podman(self) -> Podman:
        """With the flags that the agents were started with."""
        stored = (state_file.read_object(self._places.root / FLAGS) or {}).get("flags")
        return podman_program.installed(tuple(stored) if isinstance(stored, list) else ())

    def _look(self, podman: Podman, agent: str) -> Container | None:
        return next((each for each in self._list(podman) if each.agent == agent), None)

    def _list(self, podman: Podman) -> list[Container]:
        labels = {CREW_LABEL: self._crew.name, FOLDER_LABEL: str(self._places.root)}
        filters = [f"--filter=label={key}={value}" for key, value in labels.items()]
        for tries_left in reversed(range(_TRIES)):
            ids = podman.run("ps", "--all", "--quiet", "--no-trunc", *filters).split()
            if not ids:
                break
            try:
                lines = podman.run("container", "inspect", f"--format={_LINE}", *ids).splitlines()
            except PodmanFailed:  # perhaps one of them was removed in between
                if not tries_left:
                    raise
            else:
                return [Container.of(line) for line in lines if line.strip()]
        return []


def prepare(recipe: Recipe, host: Host) -> None:
    """Make the folders of an agent, for its user, and look for its token. Raises OSError or UsageError."""
    places = recipe.places
    _check_token(recipe)
    places.make()
    keys.make(places)
    if host.is_root:
        places.give_to(first_user(recipe.crew.name, recipe.member.name) + USER)
    places.run.chmod(_OPEN_TO_ALL)
    hosts = places.run / HOSTS
    state_file.write(hosts, hosts_file(recipe).encode())
    hosts.chmod(0o644)


def _check_token(recipe: Recipe) -> None:
    if recipe.crew.token is not None:
        keys.read_token(recipe.crew.token)
    elif needs_token(recipe):
        raise UsageError(
            f"the runtime {recipe.member.runtime} needs a token in a container: name the file that has it with"
            ' token = "..." in [crew]'
        )
