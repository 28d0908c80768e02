"""The process of a runner: it starts one session under the guard, writes down what it says, and tells how it ended.

It sleeps until there is output, a signal, or the end of the pipe from its supervisor. Whatever it is that ends, the
processes of the session end with it: the guard sees the end of its own pipe when the runner is killed, and the
runner adopts and ends what a guard that was killed has left.
"""

import fcntl
import os
import secrets
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from moothall.daemon.folder import Folder
from moothall.errors import UsageError
from moothall.worker import descendants, lifeline, state_file
from moothall.worker.agent_folder import (
    ABORT,
    GUARD_STATE,
    MCP_SERVERS,
    PROMPT,
    RUNNER_LOCK,
    SESSION_NUMBER,
    SYSTEM_PROMPT,
    set_guard_state_aside,
)
from moothall.worker.guard.command_line import program as guard_program
from moothall.worker.log_lines import LogFile, utc
from moothall.worker.runner import backends, personality, prompt, sessions, transcript, verdict
from moothall.worker.runner.backends import Launch, Session
from moothall.worker.runner.config import Config
from moothall.worker.runner.events import Reader, Shown
from moothall.worker.supervisor.registration import register

LOCK_TIMEOUT: Final = 20.0  # seconds; the session before this one may still be ending
GUARD_GRACE: Final = 7.0  # seconds after SIGTERM; the guard itself kills after 5, the supervisor after 8

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_BLOCK: Final = 64 * 1024
_LOOK: Final = 0.05  # seconds between two looks at the lock


class Stopped(Exception):
    """A signal, or the end of the supervisor."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def run(config: Config, environment: Mapping[str, str]) -> int:
    """Run one session and return the exit code (agentchat wire 19.4). Raises UsageError or OSError."""
    try:
        with Signals(lifeline.inherited(environment)) as signals:
            token = None if signals.lifeline is None else lifeline.read_token(signals.lifeline)
            descendants.adopt_orphans()
            config.folder.make()
            with _only_one(config.folder, signals):
                return _Run(config, environment, signals).session(token)
    except Stopped as stopped:
        return stopped.exit_code


class Signals:
    """What asks this session to end: a signal, or the end of the pipe from the supervisor."""

    def __init__(self, lifeline: int | None) -> None:
        self.lifeline = lifeline
        self._number = 0
        self._closing = ExitStack()

    def __enter__(self) -> "Signals":
        waker, wake = os.pipe()
        for descriptor in (waker, wake):
            os.set_blocking(descriptor, False)
            self._closing.callback(os.close, descriptor)
        self._waker = waker
        for number in (*_STOP_SIGNALS, signal.SIGCHLD):
            self._closing.callback(signal.signal, number, signal.signal(number, self._note))
        self._closing.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(wake))
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _note(self, number: int, _frame: object) -> None:
        if number in _STOP_SIGNALS:
            self._number = number

    def check(self) -> None:
        """Raises Stopped."""
        if self.lifeline is not None and self._has_ended(self.lifeline):
            self._number = self._number or signal.SIGTERM
        if self._number:
            raise Stopped(self._number)

    def wait(self, output: int | None, seconds: float | None, *, watch_lifeline: bool) -> None:
        """Until there is output, a signal, the end of a child, or the end of the supervisor."""
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        if output is not None:
            poll.register(output, select.POLLIN)
        if watch_lifeline and self.lifeline is not None:
            poll.register(self.lifeline, select.POLLIN)
        if (self._waker, select.POLLIN) in poll.poll(None if seconds is None else seconds * 1000):
            os.read(self._waker, _BLOCK)

    @staticmethod
    def _has_ended(pipe: int) -> bool:
        """The supervisor writes nothing after the token: what can be read is the end."""
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        return bool(poll.poll(0))


@contextmanager
def _only_one(folder: Folder, signals: Signals) -> Iterator[None]:
    """One session of an agent at a time. The kernel drops the lock however the runner ends."""
    descriptor = folder.open(RUNNER_LOCK, os.O_RDWR | os.O_CREAT)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UsageError(
                        f"a session of {folder.path.name} runs already: end it first, or choose another AGENT_NAME"
                    ) from None
            signals.check()
            time.sleep(_LOOK)
        yield
    finally:
        os.close(descriptor)


class _Run:
    def __init__(self, config: Config, environment: Mapping[str, str], signals: Signals) -> None:
        self._config = config
        self._path = config.folder.path
        self._environment = {key: value for key, value in environment.items() if key != lifeline.VARIABLE}
        self._signals = signals
        self._log = LogFile(config.log_file)
        self._reader = Reader()
        self._own_words: deque[str] = deque(maxlen=verdict.LINES)

    def session(self, token: str | None) -> int:
        backend = backends.named(self._config.runtime)
        number = sessions.begin(self._path / SESSION_NUMBER)
        transcript.set_aside(self._config.folder)
        session = self._prepare(number)
        launch = backend.launch(session, self._environment)
        self._signals.check()
        self._log.say(f"session {number} begins, runtime {self._config.runtime}")
        set_guard_state_aside(self._path)
        heading = f"=== {self._config.name}, session {number}, {utc(time.time())}, {self._config.runtime} ==="
        written = transcript.Transcript(self._config.folder, heading)
        try:
            code = self._guarded(launch, token, written)
        except Stopped:
            self._log.say(f"session {number} was stopped")
            raise
        finally:
            written.close()
        state = state_file.read_object(self._path / GUARD_STATE) or {}
        reason = state.get("killedBy")
        if reason == verdict.BUDGET:
            (self._path / ABORT).unlink(missing_ok=True)  # if the hall's cap ended this session, it is obeyed
        code = verdict.exit_code(code, reason, self._own_words, has_events=launch.has_events)
        self._log.say(f"session {number} ended, exit code {code}" + (f", guard: {reason}" if reason else ""))
        return code

    def _prepare(self, number: int) -> Session:
        """The prompt, and all other files of the session."""
        config = self._config
        history = transcript.previous(config.folder, config.history_lines)
        text = prompt.build(config.name, config.mission, number, history, f"history-{secrets.token_hex(8)}")
        system = prompt.system(
            personality.load(config.personalities, config.name), is_public=config.is_public
        )
        session = Session(
            name=config.name,
            number=number,
            prompt=text,
            system=system,
            prompt_file=self._path / PROMPT,
            system_file=self._path / SYSTEM_PROMPT,
            mcp_servers=self._path / MCP_SERVERS,
            model=self._environment.get("AGENT_MODEL") or backends.MODEL,
        )
        state_file.write(session.prompt_file, text.encode(errors="replace"))
        state_file.write(session.system_file, system.encode(errors="replace"))
        if not session.mcp_servers.exists():  # a runner that was started by hand
            register(config.folder, config.name, self._environment)
        return session

    # -- the guard ---------------------------------------------------------------------------------

    def _guarded(self, launch: Launch, token: str | None, written: transcript.Transcript) -> int:
        """Run the program, and return the exit code of the guard."""
        with ExitStack() as opened:
            output, process = self._start(launch, token, opened)
            try:
                self._follow(output, process, written, launch.has_events)
            except Stopped:
                process.terminate()
                self._end(output, process, written, launch.has_events)
                raise
            return process.wait()

    def _start(
        self, launch: Launch, token: str | None, opened: ExitStack
    ) -> "tuple[int, subprocess.Popen[bytes]]":
        alive, writing = os.pipe()  # the guard sees its end when this process has ended
        opened.callback(os.close, writing)
        output, printing = os.pipe()
        opened.callback(os.close, output)
        os.set_blocking(output, False)
        passed = [alive]
        words = [
            *guard_program(),
            *self._config.limits,
            "--nick",
            self._config.name,
            "--lifeline",
            str(alive),
        ]
        words += ["--state", str(self._path / GUARD_STATE), "--abort-file", str(self._path / ABORT)]
        words += ["--log", str(self._config.log_file)]
        if token is not None:
            secret, filling = lifeline.with_token(token)
            os.close(filling)
            passed.append(secret)
            words += ["--env-fd", f"{launch.token_variable}={secret}"]
        try:
            process = subprocess.Popen(  # noqa: S603  # the user's own words
                [*words, "--", *launch.words],
                env=self._environment | dict(launch.variables),
                stdin=subprocess.DEVNULL,
                stdout=printing,
                stderr=printing,
                pass_fds=passed,
                process_group=0,
            )
        finally:
            for descriptor in (printing, *passed):
                os.close(descriptor)
        return output, process

    def _follow(
        self,
        output: int,
        process: "subprocess.Popen[bytes]",
        written: transcript.Transcript,
        has_events: bool,
    ) -> None:
        """Until the guard has ended. Raises Stopped."""
        reading: int | None = output
        while process.poll() is None:
            self._signals.check()
            if reading is not None and not self._copy(reading, written, has_events):
                reading = None
            self._signals.wait(reading, None, watch_lifeline=True)
        self._end(output, process, written, has_events)

    def _end(
        self,
        output: int,
        process: "subprocess.Popen[bytes]",
        written: transcript.Transcript,
        has_events: bool,
    ) -> None:
        """Wait for the guard, end what it has left, and write down the last words."""
        deadline = time.monotonic() + GUARD_GRACE
        reading: int | None = output
        while process.poll() is None:
            if time.monotonic() > deadline:
                process.kill()
            if reading is not None and not self._copy(reading, written, has_events):
                reading = None
            self._signals.wait(reading, max(0.0, deadline - time.monotonic()) or _LOOK, watch_lifeline=False)
        descendants.end_all(0)
        while reading is not None and self._copy(reading, written, has_events, once=True):
            pass
        self._show(self._reader.end(), written)

    def _copy(
        self, output: int, written: transcript.Transcript, has_events: bool, *, once: bool = False
    ) -> bool:
        """Write down what is there. False at the end of the output, and with `once` if nothing is there."""
        try:
            piece = os.read(output, _BLOCK)
        except BlockingIOError:
            return not once
        if not piece:
            return False
        if has_events:
            self._show(self._reader.read(piece), written)
        else:
            written.write(piece)
        return True

    def _show(self, shown: list[Shown], written: transcript.Transcript) -> None:
        for text, is_own in shown:
            written.write(f"{text}\n".encode(errors="replace"))
            if is_own:
                self._own_words.append(text)
