"""The guard itself: one loop over pipes, signals and deadlines. It decides nothing that `watch.py` could decide."""

import math
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from moothall.worker import sealing, state_file
from moothall.worker.cgroup import Cgroup
from moothall.worker.descendants import adopt_orphans, children_of, has_children, reap, tree
from moothall.worker.guard import account, keeper
from moothall.worker.guard.abort_file import AbortFile
from moothall.worker.guard.ending import PATIENCE, Ending
from moothall.worker.guard.limits import Limits
from moothall.worker.guard.only_one import OnlyOne
from moothall.worker.guard.sieve import Sieve
from moothall.worker.guard.sink import PIPE, Sink
from moothall.worker.guard.stream import Stream
from moothall.worker.guard.usage import EVENT_WORDS, LINE_WORDS, LONGEST_EVENT, LONGEST_LINE
from moothall.worker.guard.watch import Kill, Nudge, Reason, Watch
from moothall.worker.guard.writing_down import WritingDown
from moothall.worker.log_lines import LogFile, utc

DIED_BY_SIGNAL: Final = 1  # exit code (agentchat wire 19.5)
FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

_AGAIN: Final = 20  # milliseconds between two looks while the guard itself ends processes


class Task(NamedTuple):
    """What to guard, and how. Paths that are None are not used."""

    words: list[str]
    limits: Limits
    log: Path | None = None
    state: Path | None = None
    abort_file: Path | None = None
    only_one: Path | None = None
    also_as: frozenset[str] = frozenset()
    poll_interval: float = 1.0  # seconds between two looks at files, where the kernel does not tell of them
    nick: str | None = None
    lifeline: int | None = None
    variables: Mapping[str, int] = {}


class Guard:
    """Guards one command, from its start to the end of its last process."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._started_at = time.time()
        self._session = os.urandom(8).hex()
        self._watch = Watch(task.limits, time.monotonic())
        self._ending = Ending(task.limits.cooldown)
        self._writing_down = WritingDown()
        output, errors = Sink(1), Sink(2)
        self._errors = errors
        self._streams = (
            Stream(output, Sieve(EVENT_WORDS, LONGEST_EVENT), self._watch.events),
            Stream(errors, Sieve(LINE_WORDS, LONGEST_LINE), self._watch.lines),
        )
        self._buffer = bytearray(PIPE)
        self._log = None if task.log is None else LogFile(task.log)
        self._abort = None if task.abort_file is None else AbortFile(task.abort_file, task.poll_interval)
        self._abort_look = 0.0
        self._only_one: OnlyOne | None = None
        self._lifeline = task.lifeline
        self._reported = b""
        self._pid: int | None = None
        self._status: int | None = None
        self._kill: Kill | None = None
        self._is_over = False
        self._asked_to_leave = False

    def run(self) -> int:
        """Return the exit code. Raises OSError if the guard cannot be set up; then the command was not started."""
        if self._log is not None:
            os.close(self._log.open())
        self._write_state(must=True)
        for descriptor in self._task.variables.values():
            os.fstat(descriptor)
        if self._task.variables or self._lifeline is not None:
            # Below a runner. Descriptors of secrets are here for a moment, and a command must not trace its guard.
            sealing.seal()
        if self._lifeline is not None:
            os.set_inheritable(self._lifeline, False)
        adopt_orphans()
        self._spared = frozenset(children_of(os.getpid()))  # of a shell that became this guard by `exec`
        if self._task.only_one is not None:
            self._only_one = OnlyOne(self._task.only_one, self._task.also_as, self._task.poll_interval)
        self._group = Cgroup.create("moothall-guard")
        self._keeper = keeper.start(
            keeper.Command(
                self._task.words, self._streams[0].inner, self._streams[1].inner, self._task.variables
            ),
            self._group,
        )
        for descriptor in (*(stream.inner for stream in self._streams), *self._task.variables.values()):
            os.close(descriptor)
        self._listen_to_signals()
        while not self._is_over:
            self._turn()
        self._leave_nothing()
        self._finish_output()
        self._write_state()
        return self._exit_code()

    # -- one turn of the loop

    def _turn(self) -> None:
        now = time.monotonic()
        ready: dict[int, Callable[[float], None]] = {self._keeper.reports: self._read_reports}
        ready |= self._outside()
        writable: dict[int, Callable[[float], None]] = {}
        moments = [self._wake_at()]
        for stream in self._streams:
            if stream.sink.is_behind:
                writable[stream.sink.descriptor] = self._flush
            elif stream.resume_at is not None:
                moments.append(stream.resume_at)
            elif stream.is_open:
                ready[stream.descriptor] = self._pump
        if self._abort is not None and self._abort.descriptor is None:
            moments.append(self._abort_look)
        moments += [due for due in (self._state_due(), self._second_look()) if due is not None]
        self._wait(ready, writable, min(moments) - now)
        self._act(time.monotonic())

    def _outside(self) -> dict[int, Callable[[float], None]]:
        """What the guard listens to besides its command."""
        found: dict[int, Callable[[float], None]] = {self._waker: self._take_signals}
        if self._lifeline is not None:
            found[self._lifeline] = self._read_lifeline
        if self._abort is not None and self._abort.descriptor is not None:
            found[self._abort.descriptor] = self._read_abort
        if self._only_one is not None and self._only_one.descriptor is not None:
            found[self._only_one.descriptor] = self._only_one.drain
        return found

    def _wait(
        self,
        ready: Mapping[int, Callable[[float], None]],
        writable: Mapping[int, Callable[[float], None]],
        seconds: float,
    ) -> None:
        poll = select.poll()
        for descriptor in ready:
            poll.register(descriptor, select.POLLIN)
        for descriptor in writable:
            poll.register(descriptor, select.POLLOUT)
        timeout = None if math.isinf(seconds) else max(0, math.ceil(seconds * 1000))
        for descriptor, _ in poll.poll(timeout):
            (writable.get(descriptor) or ready[descriptor])(time.monotonic())

    def _wake_at(self) -> float:
        if not self._ending.has_begun:
            return self._watch.wake_at()
        at = self._ending.wake_at()
        return math.inf if at is None else at

    def _act(self, now: float) -> None:
        """What is due by now."""
        self._pump(now)
        if (due := self._state_due()) is not None and now >= due:
            self._write_state()
        if self._ending.has_begun:
            self._order(self._ending.step(now))
            if self._ending.is_hopeless(now):
                self._is_over = True  # the keeper itself does not go on
            return
        if self._abort is not None and now >= self._abort_look:
            self._abort_look = now + self._abort.interval if self._abort.descriptor is None else math.inf
            if self._abort.exists():
                self._end(now, asked_to_abort(self._abort))
                return
        if (due := self._second_look()) is not None and now >= due:
            self._end_second_runs(now)
        look = self._watch.look_at()
        if look is not None and now >= look:
            self._watch.used(now, sum(each.ticks for each in tree(self._keeper.pid)))
        for decision in self._watch.decide(now):
            if isinstance(decision, Kill):
                self._end(now, decision)
                return
            self._say(decision.text)
            if isinstance(decision, Nudge):
                self._order(signal.SIGCONT)

    def _second_look(self) -> float | None:
        return None if self._only_one is None or self._ending.has_begun else self._only_one.due()

    def _end_second_runs(self, now: float) -> None:
        if self._only_one is not None and (killed := self._only_one.look(now, self._keeper.pid)):
            self._say(f"killed a second run of {self._only_one.file}: {', '.join(map(str, killed))}")
            self._write_state()

    def _end(self, now: float, kill: Kill, *, is_keeper_there: bool = True) -> None:
        """End the command for this reason, which is on disk before the first signal leaves."""
        self._kill = kill
        self._say(f"killed: {kill.reason}: {kill.detail}")
        self._write_state()
        if is_keeper_there:
            self._order(self._ending.begin(now))

    def _order(self, number: int | None) -> None:
        if number is not None:
            with suppress(BrokenPipeError):  # the end of its reports says that the keeper is gone
                os.write(self._keeper.orders, bytes([number]))

    # -- what descriptors tell

    def _pump(self, now: float) -> None:
        for stream in self._streams:
            if stream.may_read(now) and stream.pump(now, self._buffer):
                self._watch.output(now)

    def _flush(self, now: float) -> None:
        for stream in self._streams:
            stream.sink.flush()
            if stream.sink.is_broken:
                stream.close(now)

    def _read_reports(self, now: float) -> None:
        data = os.read(self._keeper.reports, 4096)
        self._is_over = not data
        *lines, self._reported = (self._reported + data).split(b"\n")
        for line in lines:
            word, _, number = line.decode().partition(" ")
            if word == keeper.STARTED:
                self._pid = int(number)
                self._write_state()
            elif word == keeper.FAILED:
                self._say(f"cannot run {self._task.words[0]!r}: {os.strerror(int(number))}")
            else:
                self._status = int(number)
                self._order(self._ending.begin(now))  # for what it leaves behind

    def _listen_to_signals(self) -> None:
        self._waker, wake = os.pipe()
        for descriptor in (self._waker, wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` wants it
                signal.signal(number, _noted)
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # a stopped guard would enforce no limits

    def _take_signals(self, now: float) -> None:
        for number in os.read(self._waker, 4096):
            self._asked_to_leave = True
            self._say(f"{signal.Signals(number).name} is passed on")
            self._ending.begin(now)
            self._order(number)

    def _read_lifeline(self, now: float) -> None:
        if self._lifeline is not None and not os.read(self._lifeline, 4096):
            os.close(self._lifeline)
            self._lifeline = None
            self._asked_to_leave = True
            if not self._ending.has_begun:
                self._end(now, Kill(Reason.ORPHANED, "the process that started the guard has ended"))

    def _read_abort(self, _now: float) -> None:
        if self._abort is not None:
            self._abort.drain()
            self._abort_look = 0.0

    # -- the end

    def _leave_nothing(self) -> None:
        """Collect the keeper. If it did not do its work, the processes of the command are ours now: end them."""
        with suppress(ProcessLookupError):
            os.kill(self._keeper.pid, signal.SIGKILL)
        os.waitpid(self._keeper.pid, 0)
        if self._status is None and self._kill is None:
            detail = "the process that holds the command was killed"
            self._end(time.monotonic(), Kill(Reason.KEEPER_LOST, detail), is_keeper_there=False)
        deadline = time.monotonic() + PATIENCE
        while self._has_processes() and time.monotonic() < deadline:
            keeper.kill(os.getpid(), self._group, self._spared)
            select.poll().poll(_AGAIN)
            reap()
        left = [str(each.pid) for each in tree(os.getpid(), self._spared)]
        if left:
            self._say(
                f"could not end processes {', '.join(left)}: they belong to another user, or wait for a disk"
            )
        if self._group is not None:
            self._group.remove()

    def _has_processes(self) -> bool:
        """True if processes of the command are children of the guard."""
        return bool(set(children_of(os.getpid())) - self._spared) if self._spared else has_children()

    def _finish_output(self) -> None:
        """Pass on what is still in the pipes. A slow reader gets the time that the command had left."""
        limit = self._watch.began + self._task.limits.timeout
        if self._kill is not None:
            limit = time.monotonic() + PATIENCE
        for stream in self._streams:
            while stream.is_open or stream.sink.is_behind:
                now = time.monotonic()
                if stream.sink.is_behind:
                    if self._asked_to_leave or now >= limit:
                        break
                    self._wait(self._outside(), {stream.sink.descriptor: self._flush}, limit - now)
                elif stream.pump(now, self._buffer):
                    self._watch.output(now)
                else:
                    stream.close(now)
        self._warn_of_the_rest()

    def _warn_of_the_rest(self) -> None:
        """Tell what was near a limit, or over it, in the last output. The command has ended, and is not killed."""
        for decision in self._watch.decide(time.monotonic()) if self._kill is None else ():
            self._say(f"at its end: {decision.detail}" if isinstance(decision, Kill) else decision.text)

    def _exit_code(self) -> int:
        if self._status is None or os.WIFSIGNALED(self._status):
            return DIED_BY_SIGNAL
        return os.waitstatus_to_exitcode(self._status)

    # -- what others read

    def _say(self, text: str) -> None:
        name = f"guard of {self._task.nick}" if self._task.nick else "guard"
        if self._log is None:
            with memoryview(f"{name}: {text}\n".encode(errors="backslashreplace")) as line:
                self._errors.write(line)
            return
        with suppress(OSError):  # a full disk is no reason to stop guarding
            self._log.say(f"{name}: {text}")

    def _write_state(self, *, must: bool = False) -> None:
        """Write the state file. Raises OSError with `must`; later a full disk must not stop the guard."""
        if self._task.state is None:
            return
        now = time.monotonic()
        self._writing_down.written(now, self._watch.counts)
        try:
            state_file.write_object(self._task.state, self._state(now))
        except OSError as error:
            if must:
                raise OSError(error.errno, error.strerror, str(self._task.state)) from None
            self._say(f"cannot write {self._task.state}: {error.strerror}")

    def _state_due(self) -> float | None:
        return None if self._task.state is None else self._writing_down.due(self._watch.counts)

    def _state(self, now: float) -> dict[str, Any]:
        about = {"session": self._session, "startedAt": utc(self._started_at), "pid": self._pid}
        second_runs = 0 if self._only_one is None else self._only_one.count
        return about | account.fields(self._watch, now, self._status, self._kill, second_runs)


def asked_to_abort(file: AbortFile) -> Kill:
    """Why the command ends: the first line of the file may say `budget`, and the second one why."""
    word, said = file.words()
    reason = Reason.BUDGET if word == Reason.BUDGET else Reason.ABORT
    return Kill(reason, said or f"{file.path} exists")


def _noted(_number: int, _frame: object) -> None:
    """The wake-up descriptor says the rest."""
