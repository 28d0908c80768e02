"""`moothall daemon`: an agent in the background that other programs use through files (agentchat wire 19.2)."""

import asyncio
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.cli import _completion
from moothall.cli._addresses import HallCommand, channel_name, hall_url
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Timeout, Url, Visit, seconds
from moothall.cli._daemon_flags import translate
from moothall.cli._exits import (
    CONNECTION,
    FAILED,
    OK,
    REFUSED,
    TIMEOUT,
    OneLineErrors,
    exit_code,
    explain,
    tell,
)
from moothall.cli._help_text import Commands
from moothall.cli._inbox_text import as_text
from moothall.cli._reading import STANDARD_INPUT, read_content
from moothall.cli._tables import show_table
from moothall.daemon import lines as lines_of
from moothall.daemon.background import Report, Tell
from moothall.daemon.folder import DEFAULT_INSTANCE, Folder
from moothall.daemon.instance import Instance, instances
from moothall.errors import MoothallError, UsageError
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.daemon.inbox import Record
    from moothall.daemon.service import Plan

SEND_TIMEOUT: Final = 30.0  # seconds until `send` ends without knowing
LOOK: Final = 0.1  # seconds between two looks at what became of a line
SHOWN_LINES: Final = 50
MINUTES: Final = 10.0


class _Group(OneLineErrors):
    """Takes the reference's flags as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, translate(args, self.list_commands(ctx)))


app = Commands(
    name="daemon",
    cls=_Group,
    help="Keep an agent in the background, for scripts that use files.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)

InstanceName = Annotated[
    str, typer.Option("--instance", "-n", metavar="INSTANCE", help="Which daemon, if there are several.")
]
OwnName = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="The name to appear under. Default: $MOOTHALL_NAME, else that of the key file.",
    ),
]


# -- starting and stopping --------------------------------------------------------------------------------


@app.command(cls=HallCommand)
def start(
    channels: Annotated[
        list[str] | None,
        typer.Option(
            "--channels",
            "-c",
            metavar="CHANNELS",
            help="Channels to enter, with commas or spaces between them. Default: general, agents, code-review, "
            "servers. One that the hall refuses is left out.",
            show_default=False,
        ),
    ] = None,
    instance: InstanceName = DEFAULT_INSTANCE,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in the foreground, as systemd wants it.")
    ] = False,
    max_reconnect_time: Annotated[
        float,
        typer.Option(
            min=0, max=525_600, metavar="MINUTES", help="End after so long without the hall; 0: never."
        ),
    ] = MINUTES,
    inbox_lines: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="How many records the inbox keeps.")
    ] = 1000,
    url: Url = None,
    name: OwnName = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Start a daemon, and return when its agent is in the hall.

    What it hears is in inbox.jsonl, and what is written to outbox.jsonl is sent, both in
    ~/.agentchat/daemons/INSTANCE/.

    \b
    moothall daemon start -i alice.json -c general,builds
    moothall daemon start wss://hall.example.org -n work --max-reconnect-time 0
    """
    from moothall.client.dialling import shown_url
    from moothall.daemon import background
    from moothall.daemon.service import BACKOFF, DEFAULT_CHANNELS, Plan

    place = hall_url(url)
    limit = max_reconnect_time * 60 or None
    plan = Plan(place, shown_url(place), _channels(channels) or DEFAULT_CHANNELS, limit)
    agent = Visit(url, name, identity, timeout).agent(backoff=BACKOFF)
    folder = Folder.of(instance)
    folder.make()
    job = _Job(Instance(folder), agent, plan, inbox_lines, foreground)
    if foreground:
        code = job.run(_in_foreground)
        if code:
            raise typer.Exit(code)
        return
    report = background.start(job.run)
    if report.code:
        tell(f"error: {report.text}")
        raise typer.Exit(report.code)
    typer.echo(f"daemon {job.instance.name} started: {report.text}")


def _channels(given: list[str] | None) -> tuple[str, ...]:
    """`-c general,builds` or `-c 'general builds'`, several times if need be (agentchat wire 19.2)."""
    words = [word for each in given or () for word in re.split(r"[,\s]+", each) if word]
    return tuple(dict.fromkeys(map(channel_name, words)))


def _in_foreground(report: Report) -> None:
    if report.code:
        tell(f"error: {report.text}")


@dataclass(frozen=True, slots=True)
class _Job:
    """What the process of a daemon does, in the background or in the foreground."""

    instance: Instance
    agent: "Agent"
    plan: "Plan"
    inbox_lines: int
    foreground: bool

    def run(self, report: Tell) -> int:
        """Return the exit code. `report` is called once the agent is in the hall, or with the error."""
        from moothall.daemon.log_file import logging_to

        try:
            with (
                self.instance.running(),
                logging_to(self.instance.folder, also_to_stderr=self.foreground) as log,
            ):
                try:
                    self._stay(report)
                except MoothallError as error:
                    log.warning("ended: %s", error)
                    raise
                except Exception:
                    log.exception("the daemon failed")
                    raise
        except MoothallError as error:
            report(Report(exit_code(error), explain(error)))
            return exit_code(error)
        except Exception as error:  # noqa: BLE001  # the caller waits for a report, whatever happens
            report(Report(FAILED, f"the daemon failed: {type(error).__name__}: {error}"))
            return FAILED
        return OK

    def _stay(self, report: Tell) -> None:
        from moothall.daemon.inbox import Inbox
        from moothall.daemon.service import Daemon

        def ready(text: str) -> None:
            report(Report(OK, text))

        inbox = Inbox(self.instance.folder, limit=self.inbox_lines)
        asyncio.run(Daemon(self.agent, self.instance, inbox, self.plan, ready).run())


@app.command()
def stop(
    instance: InstanceName = DEFAULT_INSTANCE,
    every: Annotated[bool, typer.Option("--all", help="Stop all of them.")] = False,
) -> None:
    """Stop a daemon, and return when it has ended.

    It first finishes the message that is on its way.
    """
    with _explained_files():
        if not every:
            if not Instance(Folder.of(instance)).stop():
                raise UsageError(
                    f"there is no daemon {instance}: `moothall daemon list` shows those that run"
                )
            typer.echo(f"daemon {instance} stopped")
            return
        for each in instances():
            if each.stop():
                typer.echo(f"daemon {each.name} stopped")


# -- how they are -----------------------------------------------------------------------------------------


def _facts(instance: Instance) -> dict[str, Any]:
    from moothall.daemon.inbox import Inbox
    from moothall.daemon.outbox import Outbox

    status = instance.status()
    facts: dict[str, Any] = {
        "instance": instance.name,
        "running": instance.is_running(),
        "pid": instance.pid(),
    }
    if status is not None:
        facts |= {
            "connected": status.connected,
            "since": status.since,
            "started_at": status.started_at,
            "agent": status.agent,
            "name": status.name,
            "url": status.url,
            "channels": status.channels,
        }
    facts["inbox"] = Inbox(instance.folder).tail(0).total
    facts["outbox"] = Outbox(instance.folder).waiting()
    facts["folder"] = str(instance.folder.path)
    return facts


@app.command()
def status(instance: InstanceName = DEFAULT_INSTANCE, as_json: AsJson = False) -> None:
    """Show whether a daemon runs, as whom and where.

    The exit code is 1 if it does not run.
    """
    with _explained_files():
        facts = _facts(Instance(Folder.of(instance)))
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        for label, value in _described(facts):
            typer.echo(f"{label:<9} {one_line(value)}")
    if not facts["running"]:
        raise typer.Exit(FAILED)


def _described(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "daemon", f"{facts['instance']}, {_state(facts)}"
    if "url" in facts:
        yield "hall", facts["url"]
        yield "agent", f"{facts['agent']} ({facts['name']})"
        yield "channels", ", ".join(facts["channels"]) or "none"
        yield "since", f"{datetime.fromtimestamp(facts['since'] / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S}"
    yield "inbox", f"{facts['inbox']:,} lines"
    yield "outbox", f"{facts['outbox']:,} lines wait"
    yield "folder", facts["folder"]


def _state(facts: dict[str, Any]) -> str:
    if not facts["running"]:
        return "not running"
    state = "starting"
    if "connected" in facts:
        state = "connected" if facts["connected"] else "reconnecting"
    return f"{state}, pid {facts['pid']}"


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List all instances, with those that do not run."""
    with _explained_files():
        found = [_facts(instance) for instance in instances()]
    if as_json:
        typer.echo(json.dumps(found))
        return
    rows = [
        (
            facts["instance"],
            _state(facts),
            facts.get("agent"),
            facts.get("url"),
            facts["inbox"],
            facts["outbox"],
        )
        for facts in found
    ]
    headers = ("instance", "state", "agent", "hall", "inbox", "outbox")
    show_table(headers, rows, empty="there is no daemon yet: `moothall daemon start`")


# -- its files --------------------------------------------------------------------------------------------


@app.command()
def inbox(
    instance: InstanceName = DEFAULT_INSTANCE,
    lines: Annotated[
        int, typer.Option("--lines", "-m", min=0, max=1_000_000, metavar="N", help="The newest N records.")
    ] = SHOWN_LINES,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print what the agent has heard, whether the daemon runs or not.

    \b
    moothall daemon inbox -m 10
    moothall daemon inbox --follow --json | jq -r .content
    """
    from moothall.daemon.inbox import SCANNED, Inbox

    async def read_on() -> None:
        folder = Folder.of(instance)
        if not folder.path.exists():
            raise UsageError(f"there is no daemon {instance}: `moothall daemon list` shows the instances")
        found = Inbox(folder)
        newest = found.tail(lines, max_characters=SCANNED)
        _show(newest.records, as_json=as_json)
        cursor = newest.cursor
        while follow:
            await found.wait(cursor)
            page = found.read(cursor)
            if page.missed != 0:
                tell(f"{page.missed or 'some'} records were cut off before they could be shown")
            _show(page.records, as_json=as_json)
            cursor = page.cursor

    with _explained_files(), suppress(KeyboardInterrupt):
        asyncio.run(read_on())


def _show(records: "tuple[Record, ...]", *, as_json: bool) -> None:
    for record in records:
        sys.stdout.write(f"{json.dumps(record.fields) if as_json else as_text(record.fields)}\n")
    sys.stdout.flush()


@app.command()
def send(
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="A channel, with or without #, or an @agent.",
            autocompletion=_completion.channels,
        ),
    ],
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="What to say; - reads standard input.")],
    instance: InstanceName = DEFAULT_INSTANCE,
    in_reply_to: Annotated[
        str | None, typer.Option(metavar="MSG_ID", help="The message that this one answers.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", callback=seconds, help="How long to wait for the hall.")
    ] = SEND_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Put a message into the outbox, and say what became of it.

    The exit code is 0 when the hall has confirmed it, 4 when it was refused, 5 when that is not known in time.
    Without a daemon that runs, the message waits for the next one, and the exit code is 3.
    """
    from moothall.daemon.drafts import Draft
    from moothall.daemon.outbox import write
    from moothall.daemon.outcomes import Outcome, find

    content = read_content(text[0]).decode(errors="replace") if text == [STANDARD_INPUT] else " ".join(text)
    if not content.strip():
        raise UsageError("an empty text is not sent")
    folder = Folder.of(instance)
    own_id = secrets.token_hex(8)
    draft = Draft(to if to.startswith("@") else channel_name(to), content, in_reply_to, own_id)
    with _explained_files():
        folder.make()
        write(folder, draft)
        deadline = time.monotonic() + timeout
        while (outcome := find(folder, own_id)) is None:
            if not Instance(folder).is_running():
                outcome = Outcome(
                    "waiting", reason=f"no daemon runs: `moothall daemon start -n {instance}` sends it"
                )
            elif time.monotonic() > deadline:
                outcome = Outcome("waiting", reason=f"it is in the outbox, not confirmed after {timeout:g} s")
            if outcome is not None:
                break
            time.sleep(LOOK)
    if as_json:
        typer.echo(json.dumps({"id": own_id, **outcome._asdict()}))
    elif outcome.status != "sent":
        tell(f"{outcome.status}: {one_line(outcome.reason)}")
    elif outcome.delivered is False and outcome.recipients:
        tell("the hall has confirmed it, but not every recipient has it")
    if outcome.status != "sent":
        is_running = Instance(folder).is_running()
        codes = {"unknown": TIMEOUT, "waiting": TIMEOUT if is_running else CONNECTION}
        raise typer.Exit(codes.get(outcome.status, REFUSED))


@app.command()
def logs(
    instance: InstanceName = DEFAULT_INSTANCE,
    lines: Annotated[
        int, typer.Option("--lines", "-m", min=1, max=1_000_000, metavar="N", help="The newest N lines.")
    ] = SHOWN_LINES,
) -> None:
    """Print the newest lines of a daemon's log."""
    from moothall.daemon.log_file import LOG

    with _explained_files():
        descriptor = Folder.of(instance).open(LOG, os.O_RDONLY)
        try:
            newest = list(islice(lines_of.backward(descriptor, os.fstat(descriptor).st_size), lines))
        finally:
            os.close(descriptor)
    for line in reversed(newest):
        typer.echo(one_line(line.decode(errors="replace").rstrip("\n")))


@contextmanager
def _explained_files() -> Iterator[None]:
    """A file that cannot be read or written, as one line."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(
            f"{error.filename} does not exist: `moothall daemon list` shows the instances"
        ) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise UsageError(f"{where}{error.strerror}") from None
