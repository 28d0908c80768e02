"""The process of a supervisor: it does what `life` orders, and tells it what happened.

It sleeps until a signal, the end of its runner or the next heartbeat. The signals are blocked and waited for, so
none of them can arrive between a look and a sleep, and a supervisor that is process 1 of a container gets them too.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moothall.daemon.folder import Folder
from moothall.errors import UsageError
from moothall.worker import descendants, entry, lifeline, state_file
from moothall.worker.agent_folder import (
    ABORT,
    GUARD_STATE,
    HEARTBEAT,
    RUNNER_LOG,
    STATE,
    STOP,
    SUPERVISOR_LOG,
    set_guard_state_aside,
)
from moothall.worker.lifeline import Secrets
from moothall.worker.log_lines import LogFile, utc
from moothall.worker.supervisor import credentials, secret_files
from moothall.worker.supervisor.life import GRACE, LONGEST_WAIT, Life, Order
from moothall.worker.supervisor.only_one import only_one
from moothall.worker.supervisor.registration import register

RUNNER: Final = "agent-runner"
HEARTBEAT_EVERY: Final = 10.0  # seconds; also how late a stop file is noticed during a run

_MOST: Final = 1e9  # of any counter that is read back

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_WAKE_SIGNAL: Final = signal.SIGUSR1
_AWAITED: Final = (*_STOP_SIGNALS, _WAKE_SIGNAL, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the user has asked for."""

    name: str
    mission: str
    folder: Folder
    runner: Path
    sources: credentials.Sources
    heartbeat: float = HEARTBEAT_EVERY
    give_up_after: int = 0


def find_runner(program: Path) -> Path:
    """The runner in the same folder as this program, or as its Python. Raises UsageError."""
    for folder in (program.parent, Path(sys.executable).parent):
        if os.access(folder / RUNNER, os.X_OK):
            return (folder / RUNNER).absolute()
    raise UsageError(f"there is no {RUNNER} in {program.parent}: install moothall again, it comes with it")


def supervise(plan: Plan, environment: Mapping[str, str]) -> int:
    """Keep the agent alive until it is stopped, and return the exit code. Raises UsageError or OSError."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    descendants.adopt_orphans()
    plan.folder.make()
    with only_one(plan.folder, plan.name):
        supervisor = Supervisor(plan, environment)
        supervisor.save()
        try:
            if secret_files.wait_for(plan.sources.awaited(environment), _STOP_SIGNALS) is not None:
                return supervisor.stop()
            supervisor.secrets = credentials.load(plan.sources, environment)
            if supervisor.secrets.identity is None:  # else the runner itself has the tools
                register(plan.folder, plan.name, environment)
        except UsageError as error:
            supervisor.give_up(str(error))
            raise
        return supervisor.run()


class Supervisor:
    def __init__(self, plan: Plan, environment: Mapping[str, str]) -> None:
        self.secrets = Secrets()
        self._plan = plan
        self._path = plan.folder.path
        self._environment = environment
        self._log = LogFile(self._path / SUPERVISOR_LOG)
        self._started_at = utc(time.time())
        self._saved: Life | None = None
        self._runner: int | None = None  # its pid
        self._lifeline: int | None = None
        self._has_signal = False
        before = state_file.object_of_agent(self._path / STATE)
        self._life = Life(
            restart_count=int(_number(before, "restart_count")),
            backoff=min(_number(before, "backoff"), LONGEST_WAIT),
            give_up_after=plan.give_up_after,
        )

    def run(self) -> int:
        """Until the life is over."""
        self._wait(0)  # a signal that has come before now is for this agent too
        while True:
            self._beat()
            self._act()
            if self._life.is_over:
                break
            self._wait(self._plan.heartbeat)
        (self._path / STOP).unlink(missing_ok=True)  # obeyed: the next start is not meant
        self._log.say(f"ended: {self._life.status}")
        return self._life.exit_code

    def stop(self) -> int:
        """End before the first run, because of a signal."""
        self._has_signal = True
        return self.run()

    def give_up(self, reason: str) -> None:
        """Leave the reason in the log and in the state file. Raises OSError."""
        self._log.say(f"not started: {reason}")
        state_file.write_object(
            self._path / STATE, self._fields() | {"status": "failed", "last_error": reason}
        )

    def save(self) -> None:
        """Write state.json if the state has changed. On a full disk, the next heartbeat tries again."""
        if self._life == self._saved:
            return
        try:
            state_file.write_object(self._path / STATE, self._fields())
            self._saved = self._life
        except OSError as error:
            self._log.say(f"{STATE} cannot be written: {error.strerror}")

    def _fields(self) -> dict[str, Any]:
        life = self._life
        return {
            "agent_name": self._plan.name,
            "mission": self._plan.mission,
            "status": life.status.value,
            "last_error": life.last_error,
            "niki_reason": life.guard_reason,
            "restart_count": life.restart_count,
            "backoff": life.backoff,
            "started_at": self._started_at,
            "updated_at": utc(time.time()),
            "pid": os.getpid(),
        }

    def _act(self) -> None:
        """Do all that is to be done now."""
        while True:
            before = self._life
            self._life, order = before.tick(time.monotonic(), stop=self._is_stopped())
            if order is Order.START:
                self.save()
                self._start()
            elif order is not None and self._runner is not None:
                self._log.say(f"{order} the runner, pid {self._runner}")
                with suppress(ProcessLookupError):
                    os.kill(self._runner, signal.SIGKILL if order is Order.KILL else signal.SIGTERM)
            self.save()
            if self._life == before:
                return

    def _is_stopped(self) -> bool:
        return self._has_signal or os.path.lexists(self._path / STOP)

    # -- the runner --------------------------------------------------------------------------------

    def _start(self) -> None:
        try:
            self._runner = self._spawn()
            self._log.say(f"started the runner, pid {self._runner}")
        except OSError as error:
            self._drop_lifeline()
            reason = f"the runner cannot be started: {error.filename or self._plan.runner}: {error.strerror}"
            self._log.say(reason)
            self._life = self._life.not_started(time.monotonic(), reason)

    def _spawn(self) -> int:
        set_guard_state_aside(self._path)  # the reason of an earlier run is not this one's
        with ExitStack() as opened:
            output = LogFile(self._path / RUNNER_LOG).open()
            opened.callback(os.close, output)
            reading, self._lifeline = lifeline.with_secrets(self.secrets)
            opened.callback(os.close, reading)
            os.set_inheritable(reading, True)
            return os.posix_spawn(
                self._plan.runner,
                [str(self._plan.runner)],
                self._runner_environment(reading),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, output, 2),
                ],
                setpgroup=0,  # Ctrl-C in a terminal is for the supervisor, which forwards it
                setsigmask=(),
                setsigdef=_AWAITED,
            )

    def _runner_environment(self, pipe: int) -> dict[str, str]:
        return (
            dict(self._environment)
            | {
                "AGENT_NAME": self._plan.name,
                "MISSION": self._plan.mission,
                "STATE_DIR": str(self._path),
                "LOG_FILE": str(self._path / RUNNER_LOG),
                lifeline.VARIABLE: str(pipe),
            }
            | entry.no_user_modules(self._environment)
        )

    def _drop_lifeline(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def _runner_ended(self, status: int) -> None:
        """Also what the runner has left behind, if it was killed, ends before the next run."""
        self._runner = None
        self._drop_lifeline()
        descendants.end_all(GRACE)
        code = os.waitstatus_to_exitcode(status)
        code = code if code >= 0 else 128 - code  # as shells say it: 137 for SIGKILL
        state = state_file.object_of_agent(self._path / GUARD_STATE)
        reason = state.get("killedBy")
        if reason == "abort":
            (self._path / ABORT).unlink(missing_ok=True)  # obeyed: the next run is not meant
        self._log.say(f"the runner ended, exit code {code}" + (f", guard: {reason}" if reason else ""))
        self._life = self._life.ended(time.monotonic(), code, reason if isinstance(reason, str) else None)

    # -- time --------------------------------------------------------------------------------------

    def _beat(self) -> None:
        with suppress(OSError):  # a full disk is seen by its age
            os.close(self._plan.folder.open(HEARTBEAT, os.O_WRONLY | os.O_CREAT))
            os.utime(self._path / HEARTBEAT)

    def _wait(self, longest: float) -> None:
        """Until a signal, the end of a child, the next thing to do, or at most so many seconds."""
        if self._life.due is not None:
            longest = min(longest, max(0.0, self._life.due - time.monotonic()))
        arrived = signal.sigtimedwait(_AWAITED, longest)
        if arrived is not None and arrived.si_signo in _STOP_SIGNALS:
            self._log.say(f"got {signal.Signals(arrived.si_signo).name}")
            self._has_signal = True
        if arrived is not None and arrived.si_signo == _WAKE_SIGNAL:
            self._life = self._life.woken(time.monotonic())
        for pid, status in descendants.reap().items():
            if pid == self._runner:
                self._runner_ended(status)


def _number(fields: Mapping[str, Any], name: str) -> float:
    """A counter of an earlier supervisor; 0 if the file has been edited into something else."""
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < _MOST else 0.0
