"""What `moothall doctor` checks across the network: the port, the hall behind the URL, its clock."""

import errno
import os
import socket
from datetime import datetime
from typing import Final

from moothall import __version__
from moothall.cli.addresses import URL_VARIABLE, hall_url
from moothall.cli.findings import Finding, fail, ok, warn
from moothall.cli.health import Report, fetch_report
from moothall.errors import ClientError, UsageError
from moothall.settings import Settings

MAX_SKEW: Final = 600.0  # a proof's timestamp may be off by ten minutes, then it is refused
NOTABLE_SKEW: Final = 2.0  # the floor goes to whoever started first, by their own clocks (seed 003)


def hall(given: str | None, settings: Settings, timeout: float) -> list[Finding]:
    return [own_port(settings, timeout), *reach(given, timeout)]


def own_port(settings: Settings, timeout: float) -> Finding:
    """Where a hall would listen on this machine."""
    where = f"{settings.host}:{settings.port}"
    taken = _why_taken(settings.host, settings.port)
    if taken is None:
        return ok("port", f"{where} is free for `moothall serve`")
    if taken != errno.EADDRINUSE:
        return fail("port", f"{where}: {os.strerror(taken)}", "choose another --host or --port")
    try:
        report = fetch_report(_local_url(settings), timeout)
    except ClientError:
        return warn("port", f"{where} is taken by another program", "`moothall serve --port 7000`, or end it")
    return ok("port", f"{where} is a hall already: {report.fields.get('server')}")


def reach(given: str | None, timeout: float) -> list[Finding]:
    """Nobody asked for the default address, so that nothing answers there is no fault."""
    is_chosen = bool(given or os.environ.get(URL_VARIABLE))
    try:
        url = hall_url(given)
        report = fetch_report(url, timeout)
    except UsageError as error:
        return [fail("hall", str(error), "")]
    except ClientError as error:
        return [fail("hall", str(error), "") if is_chosen else warn("hall", str(error), "")]
    return [_described(url, report), upgrade(url, timeout), clock(report)]


def _described(url: str, report: Report) -> Finding:
    server, version = report.fields.get("server"), report.fields.get("version")
    text = f"{server} {version} at {url} is {report.fields['status']}, {report.round_trip * 1000:.0f} ms away"
    return ok("hall", text if version == __version__ else f"{text}; this program is {__version__}")


def upgrade(url: str, timeout: float) -> Finding:
    """A proxy may let pages through and WebSockets not."""
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    try:
        with connect(url, open_timeout=timeout, close_timeout=1):
            return ok("websocket", "opens")
    except (OSError, WebSocketException) as error:
        advice = "if a proxy is in between, it must pass Upgrade headers on"
        return fail("websocket", f"does not open: {error}", advice)


def clock(report: Report) -> Finding:
    try:
        theirs = datetime.fromisoformat(str(report.fields.get("timestamp"))).timestamp()
    except ValueError:
        return warn("clock", "the hall does not tell its time", "compare the clocks yourself")
    # The answer was written somewhere between asking and hearing; give the clock the benefit of the doubt.
    off = theirs - (report.asked_at + report.answered_at) / 2
    certain = max(0.0, abs(off) - report.round_trip / 2)
    text = f"{abs(off):.1f} s {'behind' if off > 0 else 'ahead of'} the hall's"
    if certain > MAX_SKEW:
        return fail("clock", text, "proofs of identity are refused like this; switch on time synchronisation")
    if certain > NOTABLE_SKEW:
        return warn("clock", text, "turns are decided by clocks; switch on time synchronisation")
    return ok("clock", f"within {certain + report.round_trip / 2:.1f} s of the hall's")


def _why_taken(host: str, port: int) -> int | None:
    """The error number that listening there gives."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except socket.gaierror:
        return errno.EADDRNOTAVAIL
    except OSError as error:
        return error.errno
    return None


def _local_url(settings: Settings) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104  # not bound here
    scheme = "wss" if settings.cert else "ws"
    return f"{scheme}://[{host}]:{settings.port}" if ":" in host else f"{scheme}://{host}:{settings.port}"
