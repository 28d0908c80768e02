"""`moothall doctor`: what people get wrong when they set up a hall or an agent, checked in one go."""

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from moothall.cli._connecting import AsJson, Timeout, Url
from moothall.cli._exits import FAILED
from moothall.cli._findings import Finding, Level
from moothall.errors import UsageError
from moothall.tui.printable import one_line

PATIENCE: Final = 5.0
COLOURS: Final = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}

KeyFile = Annotated[
    Path | None, typer.Option("--identity", "-i", metavar="FILE", help="A key file to look at as well.")
]


def doctor(
    url: Url = None, identity: KeyFile = None, timeout: Timeout = PATIENCE, as_json: AsJson = False
) -> None:
    """Check what people get wrong when they set up.

    Versions, settings, context, ports, hall, clock, key files, secrets, data folder, open files. Each line is ok,
    warn or fail, and says what to do. The exit code is 1 if anything failed.

    \b
    moothall doctor
    moothall doctor wss://hall.example.org -i alice.json --json
    """
    findings = examine(url, identity, timeout)
    healthy = all(finding.level is not Level.FAIL for finding in findings)
    if as_json:
        typer.echo(
            json.dumps({"ok": healthy, "checks": [finding.fields() for finding in findings]}, indent=2)
        )
    else:
        for finding in findings:
            _show(finding)
    if not healthy:
        raise typer.Exit(FAILED)


def examine(url: str | None, identity: Path | None, timeout: float) -> list[Finding]:
    from moothall.cli import _local_checks, _remote_checks

    settings, findings = _local_checks.settings()
    return [
        *_local_checks.versions(),
        *findings,
        *_local_checks.context(),
        *_local_checks.choices(url, identity),
        *_remote_checks.hall(url, settings, timeout),
        *_local_checks.key_files(Path.home(), _key_file(identity)),
        *_local_checks.environment_secrets(),
        *_local_checks.secret_files(Path.cwd()),
        *_local_checks.data_directory(settings.data_dir),
        *_local_checks.open_files(),
        *_local_checks.containers(),
    ]


def _key_file(given: Path | None) -> Path | None:
    from moothall.cli import _chosen

    try:
        return _chosen.named_key_file(given).value
    except UsageError:
        return None  # another check says why


def _show(finding: Finding) -> None:
    typer.secho(f"{finding.level.value:<5}", fg=COLOURS[finding.level], bold=True, nl=False)
    advice = f": {finding.advice}" if finding.advice else ""
    typer.echo(f" {finding.subject:<12} {one_line(finding.found + advice)}")
