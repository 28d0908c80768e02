"""`moothall health`: what GET /health says (agentchat wire 1.6)."""

import json
import time
from dataclasses import dataclass
from typing import Any, Final

import typer

from moothall.cli._addresses import hall_url, is_local, web_url
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Timeout, Url
from moothall.cli._exits import FAILED
from moothall.errors import ConnectionFailed, ReplyTimeout
from moothall.tui.printable import one_line

MAX_REPORT: Final = 64 * 1024  # a report takes 500 bytes; whatever sends more is not a hall
HEALTHY: Final = "healthy"


@dataclass(frozen=True, slots=True)
class Report:
    fields: dict[str, Any]
    asked_at: float  # seconds since the epoch, on this machine's clock
    answered_at: float

    @property
    def round_trip(self) -> float:
        return self.answered_at - self.asked_at


def health(url: Url = None, timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False) -> None:
    """Ask a hall how it is, without joining it.

    Anything but healthy is exit code 1.

    \b
    moothall health
    moothall health ws://127.0.0.1:6667 --json
    """
    report = fetch_report(hall_url(url), timeout)
    if as_json:
        typer.echo(json.dumps(report.fields))
    else:
        for label, text in describe(report):
            typer.echo(f"{label:<10}{one_line(text)}")
    if report.fields["status"] != HEALTHY:
        raise typer.Exit(FAILED)


def fetch_report(url: str, timeout: float, *, any_certificate: bool = False) -> Report:
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError

    address = web_url(url, "/health")
    asked_at = time.time()
    try:
        content = _fetch(address, timeout, any_certificate)
    except HTTPError as error:
        raise ConnectionFailed(
            f"{address} answers {error.code}: it is not a hall; check the address"
        ) from None
    except TimeoutError:
        raise ReplyTimeout(_silent(address, timeout)) from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise ReplyTimeout(_silent(address, timeout)) from None
        raise ConnectionFailed(_unreachable(address, error.reason)) from None
    except (OSError, HTTPException) as error:
        raise ConnectionFailed(_unreachable(address, error)) from None
    return Report(_parsed(content, address), asked_at, time.time())


def _fetch(address: str, timeout: float, any_certificate: bool) -> bytes:
    """Fetch within `timeout` in all. A socket's own timeout starts again with every byte that arrives."""
    from concurrent.futures import Future
    from ssl import CERT_NONE, create_default_context
    from threading import Thread
    from urllib.error import HTTPError
    from urllib.request import BaseHandler, HTTPSHandler, ProxyHandler, build_opener

    ways: list[BaseHandler] = [ProxyHandler({})] if is_local(address) else []
    if any_certificate:
        context = create_default_context()
        context.check_hostname = False
        context.verify_mode = CERT_NONE
        ways.append(HTTPSHandler(context=context))
    opener = build_opener(*ways)
    answer: Future[bytes] = Future()

    def fetch() -> None:
        try:
            with opener.open(address, timeout=timeout) as response:
                answer.set_result(response.read(MAX_REPORT + 1))
        except Exception as error:  # noqa: BLE001  # any error is raised in the waiting thread
            if isinstance(error, HTTPError):
                error.close()  # it is also the response, with an open connection
            answer.set_exception(error)

    Thread(target=fetch, daemon=True).start()
    return answer.result(timeout)


def describe(report: Report) -> list[tuple[str, str]]:
    fields = report.fields
    agents = _part(fields, "agents")
    channels = _part(fields, "channels")
    return [
        ("status", str(fields["status"])),
        ("server", f"{fields.get('server')} {fields.get('version')}"),
        *([("build", str(fields["build"]))] if "build" in fields else []),
        ("hall key", str(fields.get("hall_key", "none"))),
        ("up", _duration(fields.get("uptime_seconds"))),
        ("agents", f"{agents.get('connected')} connected, {agents.get('with_identity')} with a key"),
        ("channels", f"{channels.get('total')}, {channels.get('public')} of them public"),
        *_network(fields),
        *(
            [("bus", f"{fields['bus']}; nodes of this hall: {fields.get('nodes')}")]
            if "bus" in fields
            else []
        ),
        ("answered", f"in {report.round_trip * 1000:.0f} ms"),
    ]


def _network(fields: dict[str, Any]) -> list[tuple[str, str]]:
    """Of a hall that is on the network of the mesh."""
    network = _part(fields, "mesh_network")
    if not network:
        return []
    away = f", {network.get('unreachable')} unreachable" if network.get("unreachable") else ""
    return [("peers", f"{network.get('peers')}{away}; {network.get('address') or 'no port of its own'}")]


def _parsed(content: bytes, address: str) -> dict[str, Any]:
    try:
        fields = json.loads(content) if len(content) <= MAX_REPORT else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or "status" not in fields:
        raise ConnectionFailed(f"{address} is not what a hall says: another program answers there")
    return fields


def _silent(address: str, timeout: float) -> str:
    # A server that waits for the rest of a request may take the beginning of TLS for one.
    advice = "is it ws:// and not wss://?" if address.startswith("https:") else "is there a firewall?"
    return f"{address} did not answer within {timeout:g} s; try a longer --timeout; {advice}"


def _unreachable(address: str, reason: object) -> str:
    from ssl import SSLCertVerificationError, SSLError

    if isinstance(reason, SSLCertVerificationError):
        return f"{address}: the certificate is not trusted; if it is your own, name it with SSL_CERT_FILE"
    if isinstance(reason, SSLError):
        return f"{address} does not speak TLS; try ws:// in place of wss://"
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return (
        f"{address} cannot be reached: {one_line(text)}; is a hall running there? `moothall serve` starts one"
    )


def _part(fields: dict[str, Any], name: str) -> dict[str, Any]:
    part = fields.get(name)
    return part if isinstance(part, dict) else {}


def _duration(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "unknown"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{int(seconds)} s"
