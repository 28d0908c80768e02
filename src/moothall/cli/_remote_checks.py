"""What `moothall doctor` checks across the network: the ports, the hall behind the URL, its clock."""

import errno
import os
import socket
from datetime import datetime
from typing import Final

from moothall import __version__
from moothall.cli import _chosen
from moothall.cli._addresses import hall_url, is_local
from moothall.cli._findings import Finding, fail, ok, warn
from moothall.cli.health import Report, fetch_report
from moothall.errors import ClientError, UsageError
from moothall.settings import Settings

MAX_SKEW: Final = 600.0  # a proof's timestamp may be off by ten minutes, then it is refused
NOTABLE_SKEW: Final = 2.0  # the earliest claim gets the floor, by the agents' own clocks (seed 003)


def hall(given: str | None, settings: Settings, timeout: float) -> list[Finding]:
    ports = [own_port(settings, timeout), own_keep_port(settings, timeout), own_mesh_port(settings)]
    return [*ports, *reach(given, timeout)]


def own_port(settings: Settings, timeout: float) -> Finding:
    """Where a hall would listen on this machine."""
    where = f"{settings.host}:{settings.port}"
    taken = _why_taken(settings.host, settings.port)
    if taken is None:
        return ok("port", f"{where} is free for `moothall serve`")
    if taken != errno.EADDRINUSE:
        return fail("port", f"{where}: {os.strerror(taken)}", "choose another --host or --port")
    try:
        # A certificate is for the name by which others know the hall, not for this machine's own address.
        report = fetch_report(_local_url(settings), timeout, any_certificate=True)
    except ClientError:
        return warn("port", f"{where} is taken by another program", "`moothall serve --port 7000`, or end it")
    return ok("port", f"{where} is a hall already: {report.fields.get('server')}")


def own_keep_port(settings: Settings, timeout: float) -> Finding:
    """The same for keep clients."""
    if not settings.keep:
        return ok("keep port", "none: the settings leave keep clients out")
    host = settings.keep_host or settings.host
    where = f"{host}:{settings.keep_port}"
    if settings.keep_port and settings.keep_port == settings.port and host == settings.host:
        return fail("keep port", f"{where} is the hall's own port", "choose another --keep-port")
    taken = _why_taken(host, settings.keep_port)
    if taken is None:
        return ok("keep port", f"{where} is free for `moothall serve`")
    if taken != errno.EADDRINUSE:
        return fail("keep port", f"{where}: {os.strerror(taken)}", "choose another keep_host or --keep-port")
    if settings.keep_tls:
        return ok("keep port", f"{where} is taken, perhaps by a hall: over TLS it is not asked")
    version = _keep_version(_reachable(host), settings.keep_port, timeout)
    if version is None:
        advice = "`moothall serve --keep-port 9010`, or --no-keep, or end it"
        return warn("keep port", f"{where} is taken by another program", advice)
    return ok("keep port", f"{where} is a keep server already: {version}")


def own_mesh_port(settings: Settings) -> Finding:
    """The same for peers of the mesh's network."""
    name, port = "mesh port", settings.mesh_port
    if port is None:
        dials = f"; {len(settings.mesh_peers)} peers are dialled" if settings.mesh_peers else ""
        return ok(name, f"none: peers cannot dial{dials}")
    where = f"{settings.host}:{port}"
    if port and port == settings.port:
        return fail(name, f"{where} is the hall's own port", "choose another --mesh-port")
    taken = _why_taken(settings.host, port)
    if taken is None:
        return ok(name, f"{where} is free for `moothall serve`")
    if taken != errno.EADDRINUSE:
        return fail(name, f"{where}: {os.strerror(taken)}", "choose another --host or --mesh-port")
    return ok(name, f"{where} is taken, perhaps by a hall: it is not asked")


def _keep_version(host: str, port: int, timeout: float) -> str | None:
    """What the keep server there says it is; None when there is something else."""
    from moothall.keep import KeepClient

    try:
        # Without a name: a name would be registered, and its present owner displaced.
        return str(KeepClient(host, port, timeout=timeout, src="").discover("info")["version"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def reach(given: str | None, timeout: float) -> list[Finding]:
    """Check the hall at `given`. If the user named no address, silence at the default one is not a problem."""
    is_chosen = False
    try:
        is_chosen = _chosen.url(given).value is not None
        url = hall_url(given)
        report = fetch_report(url, timeout)
    except UsageError as error:
        return [fail("hall", str(error), "")]
    except ClientError as error:
        return [fail("hall", str(error), "") if is_chosen else warn("hall", str(error), "")]
    return [_described(url, report), upgrade(url, timeout), clock(report), *peers(report)]


def _described(url: str, report: Report) -> Finding:
    server, version = report.fields.get("server"), report.fields.get("version")
    text = f"{server} {version} at {url} is {report.fields['status']}, {report.round_trip * 1000:.0f} ms away"
    return ok("hall", text if version == __version__ else f"{text}; this program is {__version__}")


def peers(report: Report) -> list[Finding]:
    """Of a hall on the network of the mesh."""
    network = report.fields.get("mesh_network")
    if not isinstance(network, dict):
        return []
    count, away = network.get("peers"), network.get("unreachable")
    if away:
        advice = "the line mesh_peer_unreachable in the log of the hall says why"
        return [
            warn("mesh peers", f"{count} connected, {away} of those configured cannot be reached", advice)
        ]
    return [ok("mesh peers", f"{count} connected")]


def upgrade(url: str, timeout: float) -> Finding:
    """A proxy may let pages through and WebSockets not."""
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    try:
        with connect(url, open_timeout=timeout, close_timeout=1, proxy=None if is_local(url) else True):
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
    host = _reachable(settings.host)
    scheme = "wss" if settings.cert else "ws"
    return f"{scheme}://[{host}]:{settings.port}" if ":" in host else f"{scheme}://{host}:{settings.port}"


def _reachable(host: str) -> str:
    """The address to dial for a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # not bound here
