"""The process of a runner: it starts one session under the guard, writes down what it says, and tells how it ended.

It sleeps until there is output, a signal, or the end of the pipe from its supervisor. Whatever it is that ends, the
processes of the session end with it: the guard sees the end of its own pipe when the runner is killed, and the
runner adopts and ends what a guard that was killed has left.
"""

import os
import secrets
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from moothall.daemon import lock
from moothall.daemon.folder import Folder
from moothall.errors import UsageError
from moothall.worker import descendants, entry, lifeline, sealing, state_file
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
from moothall.worker.lifeline import Secrets
from moothall.worker.log_lines import LogFile, utc
from moothall.worker.runner import (
    backends,
    personality,
    prompt,
    sealed_tools,
    sessions,
    transcript,
    verdict,
)
from moothall.worker.runner.backends import Launch, Session
from moothall.worker.runner.config import Config
from moothall.worker.runner.conversation import Conversation
from moothall.worker.runner.events import Reader, Shown
from moothall.worker.runner.stopping import Signals, Stopped
from moothall.worker.runner.tool_server import ToolServer
from moothall.worker.supervisor import registration

LOCK_TIMEOUT: Final = 20.0  # seconds; the session before this one may still be ending
GUARD_GRACE: Final = 7.0  # seconds after SIGTERM; the guard itself kills after 5, the supervisor after 8

_BLOCK: Final = 64 * 1024
_LOOK: Final = 0.05  # seconds between two looks at a guard that has got SIGKILL


def run(config: Config, environment: Mapping[str, str]) -> int:
    """Run one session and return the exit code (agentchat wire 19.4). Raises UsageError or OSError."""
    try:
        with Signals(lifeline.inherited(environment)) as signals:
            given = Secrets() if signals.lifeline is None else lifeline.read_secrets(signals.lifeline)
            if any(given):
                sealing.seal()
            descendants.adopt_orphans()
            config.folder.make()
            with _only_one(config.folder, signals):
                return _Run(config, environment, signals).session(given)
    except Stopped as stopped:
        return stopped.exit_code


@contextmanager
def _only_one(folder: Folder, signals: Signals) -> Iterator[None]:
    """One session of an agent at a time."""
    with lock.held(folder.path / RUNNER_LOCK, LOCK_TIMEOUT, signals.check) as is_ours:
        if not is_ours:
            raise UsageError(
                f"a session of {folder.path.name} runs already: end it first, or choose another AGENT_NAME"
            )
        yield


class _Run:
    def __init__(self, config: Config, environment: Mapping[str, str], signals: Signals) -> None:
        self._config = config
        self._path = config.folder.path
        self._environment = entry.of_the_user(environment)
        self._environment.pop(lifeline.VARIABLE, None)
        self._signals = signals
        self._log = LogFile(config.log_file)
        self._reader = Reader()
        self._own_words: deque[str] = deque(maxlen=verdict.LINES)
        self._tools: ToolServer | None = None
        self._conversation: Conversation | None = None

    def session(self, given: Secrets) -> int:
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
            with self._serving(given.identity):
                code = self._guarded(launch, given.token, written)
        except Stopped:
            self._log.say(f"session {number} was stopped")
            raise
        finally:
            written.close()
        state = state_file.object_of_agent(self._path / GUARD_STATE)
        reason = state.get("killedBy")
        if reason == verdict.BUDGET:
            (self._path / ABORT).unlink(missing_ok=True)  # if the hall's cap ended this session, it is obeyed
        code = verdict.exit_code(code, reason, self._own_words, has_events=launch.has_events)
        self._log.say(f"session {number} ended, exit code {code}" + (f", guard: {reason}" if reason else ""))
        return code

    def _prepare(self, number: int) -> Session:
        """The prompt, and all other files of the session."""
        config = self._config
        if config.resumes and config.runtime == "cli":
            self._conversation = Conversation(self._path)
        is_resumed = self._conversation is not None and self._conversation.is_begun
        history = [] if is_resumed else transcript.previous(config.folder, config.history_lines)
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
            conversation=self._conversation,
        )
        state_file.write(session.prompt_file, text.encode(errors="replace"))
        state_file.write(session.system_file, system.encode(errors="replace"))
        return session

    @contextmanager
    def _serving(self, identity: str | None) -> Iterator[None]:
        """The tools of the hall, for the length of the block. With an identity they are a child of this process."""
        config = self._config
        if identity is None:
            if not (self._path / MCP_SERVERS).exists():  # a runner that was started by hand
                registration.register(config.folder, config.name, self._environment)
            yield
            return
        sealed_tools.check()
        variables = registration.variables(config.folder, config.name, self._environment)
        serve = sealed_tools.serving(identity, variables)
        with ToolServer(serve, self._signals, LogFile(config.log_file)) as self._tools:
            self._tools.start()
            registration.write(config.folder, self._tools.entry())
            yield

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
        if launch.only_one is not None:
            words += ["--only-one", launch.only_one]
            words += [word for name in launch.also_as for word in ("--also-as", name)]
        if token is not None:
            secret, filling = os.pipe()
            os.write(filling, token.encode())
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
            self._signals.wait(
                () if reading is None else (reading,), self._look_at_tools(), watch_lifeline=True
            )
        self._end(output, process, written, has_events)

    def _look_at_tools(self) -> float | None:
        """Start their server again if it has ended. Returns the seconds until the next look."""
        if self._tools is None:
            return None
        self._tools.look()
        return None if self._tools.wake_at is None else max(0.0, self._tools.wake_at - time.monotonic())

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
            left = max(0.0, deadline - time.monotonic())
            self._signals.wait(() if reading is None else (reading,), left or _LOOK, watch_lifeline=False)
        if self._tools is not None:
            self._tools.end()
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
            if self._conversation is not None:
                self._conversation.read(text) if is_own else self._conversation.begin()
