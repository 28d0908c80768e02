"""`moothall serve`: run a hall."""

import asyncio
import resource
import socket
import stat
import sys
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated, Final

import typer

from moothall.cli._exits import drop_output
from moothall.cli._options import Config, Profile, Set, choose
from moothall.errors import UsageError
from moothall.settings import Settings
from moothall.settings.profiles import LOG_MESSAGES
from moothall.wire.origins import is_loopback

if TYPE_CHECKING:
    import structlog

    from moothall.app import App
    from moothall.gateways.whereabouts import Whereabouts

# How URLs and multiaddrs have an address; one that means all; loopback instead of it; and an address of another
# network that no machine has.
_ANYWHERE: Final = (
    ("//{}:", "0.0.0.0", "127.0.0.1", "192.0.2.1"),  # noqa: S104  # recognised, not bound to
    ("//[{}]:", "::", "::1", "2001:db8::1"),
    ("/ip4/{}/", "0.0.0.0", "127.0.0.1", "192.0.2.1"),  # noqa: S104
    ("/ip6/{}/", "::", "::1", "2001:db8::1"),
)


def serve(
    host: Annotated[
        str | None, typer.Option("--host", "-H", metavar="ADDRESS", help="Address to listen on.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", metavar="PORT", help="Port to listen on; 0 picks a free one."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for what must survive a restart.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Database instead of a file: postgresql://… (with a password, set MOOTHALL_STORE).",
        ),
    ] = None,
    bus: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="NATS that makes several nodes one hall: nats://… (with a password, set MOOTHALL_BUS).",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Processes that serve the hall behind one port; for several processors."
        ),
    ] = None,
    profile: Profile = None,
    name: Annotated[
        str | None, typer.Option("--name", "-n", metavar="NAME", help="Name shown to clients.")
    ] = None,
    cert: Annotated[Path | None, typer.Option(metavar="FILE", help="TLS certificate chain, PEM.")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="TLS private key, PEM.")] = None,
    keep_port: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Port for keep clients, 9009 unless told; 0 picks a free one."),
    ] = None,
    keep: Annotated[bool | None, typer.Option(help="Serve keep clients, on a port of their own.")] = None,
    keep_pin: Annotated[
        bool | None, typer.Option("--keep-pin", help="A keep identity belongs to the first key seen.")
    ] = None,
    mesh_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Port for peers of the mesh's network; 0 picks a free one. Closed by default.",
        ),
    ] = None,
    mesh_peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MULTIADDR",
            help="Peer to stay connected to, such as /ip4/192.0.2.1/tcp/9000/p2p/12D3KooW…; repeat it for more.",
        ),
    ] = None,
    buffer_size: Annotated[
        int | None, typer.Option(metavar="N", help="Messages a channel replays to newcomers.")
    ] = None,
    page: Annotated[bool | None, typer.Option(help="Serve the page for people at / of the port.")] = None,
    page_public: Annotated[
        bool | None, typer.Option(help="Show everyone what an anonymous agent may see.")
    ] = None,
    no_limits: Annotated[
        bool,
        typer.Option("--no-limits", help="Turn all rate and connection limits off; for trusted networks."),
    ] = False,
    log_messages: Annotated[
        bool,
        typer.Option("--log-messages", help="Has no effect, for agentchat users: contents are never logged."),
    ] = False,
    log_format: Annotated[str | None, typer.Option(metavar="FORMAT", help="console, json, or auto.")] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")
    ] = None,
    config: Config = None,
    assign: Set = None,
) -> None:
    """Run a hall until Ctrl-C or SIGTERM.

    \b
    moothall serve
    moothall serve --host 0.0.0.0 --cert hall.pem --key hall.key
    moothall serve --profile agentchat-0.36 --set rate_message=5/1
    """
    # Imported here so that --help does not wait for the server.
    import uvloop

    from moothall import logs

    chosen = choose(
        config,
        assign,
        host=host,
        port=port,
        data_dir=data_dir,
        store=store,
        nodes=nodes,
        bus=bus,
        profile=profile,
        server_name=name,
        cert=cert,
        key=key,
        keep_port=keep_port,
        keep=keep,
        keep_pin=keep_pin,
        mesh_port=mesh_port,
        mesh_peers=mesh_peer or None,
        buffer_size=buffer_size,
        page=page,
        page_public=page_public,
        no_limits=no_limits or None,
        log_format=log_format,
        log_level=log_level,
    )
    log = logs.configure(chosen.settings)
    for variable in chosen.ignored:
        if variable == LOG_MESSAGES:
            log_messages = True
        else:
            log.warning("unknown_setting", variable=variable)
    if log_messages:
        log.warning("log_messages_ignored", reason="message contents are never logged; events are")
    _take_all_files()
    uvloop.run(_run(chosen.settings, log))


def _take_all_files() -> None:
    """Each connection is an open file. Most systems let a program have 1024 unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # where the hard limit is more than the kernel gives (macOS)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(settings: Settings, log: "structlog.stdlib.BoundLogger") -> None:
    if settings.nodes > 1:
        from moothall.processes.supervisor import supervise

        await supervise(settings, settings.nodes, log, lambda found: _greet(found, settings, log))
        return
    from moothall.app import serve as serve_app

    ready: asyncio.Future[App] = asyncio.get_running_loop().create_future()
    ready.add_done_callback(lambda opened: _greet(opened.result().whereabouts, settings, log))
    await serve_app(settings, log, ready)


def _greet(found: "Whereabouts", settings: Settings, log: "structlog.stdlib.BoundLogger") -> None:
    _introduce(found, log)
    try:
        _say_where(found, settings)
    except OSError:  # a full disk, or a closed pipe: the log has to do
        drop_output()
    host = found.host
    log.info(
        "server_start", host=host, port=found.port, profile=settings.profile, tls=settings.cert is not None
    )
    if not is_loopback(host) and settings.cert is None:
        log.warning("listening_without_tls", host=host, advice="use --cert and --key, or a proxy with TLS")
    if not is_loopback(host) and not settings.public_url:
        # Without it, a server that agents visit for the first time can give this hall its own name.
        log.warning("no_public_url", host=host, advice="use --set public_url=wss://NAME, as agents dial it")
    if found.keep_host and not is_loopback(found.keep_host) and not settings.keep_tls:
        log.warning("keep_without_tls", host=found.keep_host, advice="use --set keep_host=127.0.0.1")
    if settings.key is not None and settings.key.stat().st_mode & stat.S_IROTH:
        log.warning("tls_key_readable_by_all", file=str(settings.key), advice="chmod o= it")
    if settings.no_limits:
        log.warning("limits_off")


def _introduce(found: "Whereabouts", log: "structlog.stdlib.BoundLogger") -> None:
    """A data directory that was deleted takes the hall's key with it. The agents of the user who runs the new hall
    would refuse it: they know another hall at this port."""
    from moothall.known_halls import KnownHalls

    if not (is_loopback(found.host) or ip_address(found.host).is_unspecified):
        return
    with suppress(OSError, UsageError, RuntimeError):  # no home, or a damaged file, which the agents tell of
        halls = KnownHalls()
        if halls.meet_own_hall(found.port, found.hall_key):
            log.info("pin_replaced", port=found.port, file=str(halls.path))


def _say_where(found: "Whereabouts", settings: Settings) -> None:
    url, *outside = _openable(found.url)
    web = url.replace("ws", "http", 1)
    typer.echo(f"{settings.server_name} listening on {url}")
    if ip_address(found.host).is_unspecified:
        typer.echo("  network  " + ", ".join([*outside, "every address of this machine"]))
    if found.has_page:
        typer.echo(f"  page     {web}/")
    if found.keep_url:
        typer.echo(f"  keep     {_openable(found.keep_url)[0]}, key {found.keep_key}")
    if settings.mesh:
        typer.echo(f"  mesh     {url}/mesh")
    if found.peer_address:
        typer.echo("  peers    " + ", ".join(_openable(found.peer_address)))
    typer.echo(f"  health   {web}/health")
    typer.echo(f"  metrics  {web}/metrics")
    if settings.nodes > 1:
        typer.echo(f"  nodes    {settings.nodes} processes")
    typer.echo(f"  data     {settings.data_dir}")
    typer.echo(f"  key      {found.hall_key}")
    typer.echo("Try, in other terminals:")
    typer.echo(f"  {_program()} listen {url} '#general'")
    typer.echo(f"  {_program()} send {url} '#general' hello")


def _openable(url: str) -> list[str]:
    """Where a client on this machine, and then one on another, reaches it. 0.0.0.0 and :: only listen."""
    for form, anywhere, loopback, stranger in _ANYWHERE:
        if form.format(anywhere) in url:
            outward = _address_towards(stranger)
            hosts = [loopback] if outward is None else [loopback, outward]
            return [url.replace(form.format(anywhere), form.format(host), 1) for host in hosts]
    return [url]


def _address_towards(stranger: str) -> str | None:
    """The address of this machine that its packets to another network carry. Nothing is sent."""
    family = socket.AF_INET6 if ":" in stranger else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:  # a machine without a network
        probe.connect((stranger, 9))
        host: str = probe.getsockname()[0]
        return host
    return None


def _program() -> str:
    """How this program was called, so that the lines above can be copied as they are."""
    called = Path(sys.argv[0])
    return "moothall" if which("moothall") == str(called) else str(called)
