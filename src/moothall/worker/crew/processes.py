"""Agents as plain processes, where there are no containers. Nothing isolates them: each can do what the user can.

Each supervisor is a detached process, with a file that says which one. It need not be a child of this process. Its
exit code is told by the state file that it writes, so a keeper that takes over knows it too.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from moothall.errors import UsageError
from moothall.worker import state_file
from moothall.worker.agent_folder import STATE
from moothall.worker.crew import detached, keys
from moothall.worker.crew.detached import Detached
from moothall.worker.crew.places import MemberPlaces, Places
from moothall.worker.crew.runtime import Recipe, Standing
from moothall.worker.supervisor.command_line import program
from moothall.worker.supervisor.life import Status

RECORD: Final = "process.json"
OUTPUT: Final = "output.log"  # what the supervisor prints, as errors before it has its own log
MOST_RESTARTS: Final = 3  # on-failure:3 (agentchat wire 19.6)
GOOD_RUN: Final = 300.0  # seconds; a failure after a longer run begins the count anew
PERIOD: Final = 1.0  # seconds
KILLED: Final = 128 + signal.SIGKILL

_ENDS: Final[dict[str, int]] = {Status.STOPPED: 0, Status.FATAL: 0, Status.FAILED: 1}
_END_PATIENCE: Final = 30.0  # seconds for processes that have SIGKILL
# What programs need to know of the machine and its user. Keys and tokens of the user are not handed on.
_HANDED_ON: Final = re.compile(
    r"HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|SSL_CERT_(FILE|DIR)|(http|https|no|all)_proxy"
    r"|AGENTCHAT_KNOWN_HALLS",
    re.IGNORECASE,
)


class Processes:
    """The agents of one crew."""

    isolates = False
    period = PERIOD

    def __init__(self, places: Places) -> None:
        self._places = places

    def start(self, recipe: Recipe) -> None:
        self._start(recipe, restarts=0)

    def stop(self, name: str, patience: float) -> None:
        found = self._give_up(name)
        if found is None:
            return
        detached.send(found, signal.SIGTERM)
        if not detached.wait(found, patience):
            self.kill(name)

    def kill(self, name: str) -> None:
        found = self._give_up(name)
        if found is not None:
            detached.kill_with_descendants(found, _END_PATIENCE)

    def wake(self, name: str) -> None:
        found = Detached.read(self._record(name))
        # The signal would end a supervisor that has not begun. One that has begun has written its state.
        if found is not None and _state(self._places.member(name)).get("pid") == found.pid:
            detached.send(found, signal.SIGUSR1)

    def remove(self, name: str) -> None:
        self._record(name).unlink(missing_ok=True)
        (self._record(name).parent / OUTPUT).unlink(missing_ok=True)

    def standing(self) -> list[Standing]:
        names = sorted(file.parent.name for file in (self._places.root / "run").glob(f"*/{RECORD}"))
        records = [(name, Detached.read(self._record(name))) for name in names]
        return [self._stands(name, found) for name, found in records if found is not None]

    def exec(self, recipe: Recipe, words: Sequence[str]) -> int:
        recipe.places.make()
        try:
            code = subprocess.call(  # noqa: S603  # the user's own words
                list(words), env=environment(recipe, os.environ), cwd=recipe.places.workspace
            )
        except OSError as error:
            raise UsageError(f"{words[0]} cannot be started: {error.strerror}") from None
        return code if code >= 0 else 128 - code

    def tend(self, recipes: Sequence[Recipe]) -> list[str]:
        done = []
        for recipe in recipes:
            name = recipe.member.name
            found = Detached.read(self._record(name))
            if found is None or found.is_stopped:
                continue
            standing = self._stands(name, found)
            if not standing.exit_code:
                continue
            restarts = 1 if standing.since - found.since > GOOD_RUN else standing.restarts + 1
            if restarts <= MOST_RESTARTS:
                self._start(recipe, restarts)
                done.append(f"{name} ended with {standing.exit_code}: restart {restarts} of {MOST_RESTARTS}")
        return done

    def _start(self, recipe: Recipe, restarts: int) -> None:
        places = recipe.places
        before = Detached.read(places.run / RECORD)
        if before is not None and before.process() is not None:
            return
        places.make()
        if os.geteuid() == 0:
            places.give_to(0)
        keys.make(places)
        words = [*program(), recipe.member.name, recipe.member.mission]
        words += ["--token-file", str(keys.put_token(recipe.crew, places))]
        detached.start(
            places.run / RECORD,
            words,
            environment=environment(recipe, os.environ),
            folder=places.workspace,
            log=places.run / OUTPUT,
            restarts=restarts,
        )

    def _give_up(self, name: str) -> Detached | None:
        """Note that its end is meant, before it ends. None if there is nothing to end."""
        found = Detached.read(self._record(name))
        if found is None:
            return None
        if not found.is_stopped:
            found._replace(is_stopped=True).write(self._record(name))
        return found

    def _stands(self, name: str, found: Detached) -> Standing:
        if found.process() is not None:
            return Standing(name, True, found.since, None, found.restarts)
        code, ended = _outcome(self._places.member(name), found)
        return Standing(name, False, ended, code, found.restarts)

    def _record(self, name: str) -> Path:
        return self._places.member(name).run / RECORD


def environment(recipe: Recipe, own: Mapping[str, str]) -> dict[str, str]:
    """What the supervisor is started with. Programs of our own Python are found first, as in the image."""
    kept = {key: value for key, value in own.items() if _HANDED_ON.fullmatch(key)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', os.defpath)}"
    told = recipe.variables(recipe.crew.folder, recipe.places.state)
    return {**kept, "PATH": path, **told, "MOOTHALL_IDENTITY": str(recipe.places.identity)}


def _outcome(places: MemberPlaces, ended: Detached) -> tuple[int, float]:
    """The exit code of an ended supervisor, and when it last wrote its state."""
    state = _state(places)
    if state.get("pid") != ended.pid:
        return 1, ended.since  # it ended before it could write anything
    at = max(ended.since, (places.state / STATE).lstat().st_mtime)
    return _ENDS.get(str(state.get("status")), KILLED), at


def _state(places: MemberPlaces) -> dict[str, Any]:
    return state_file.object_of_agent(places.state / STATE)
