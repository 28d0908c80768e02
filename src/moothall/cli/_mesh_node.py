"""`moothall mesh node`: a node of the mesh, with the flags, files and API of the reference's node."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.cli._exits import tell
from moothall.errors import UsageError
from moothall.extras import install_command

if TYPE_CHECKING:
    from moothall.node_api import Running
    from moothall.p2p.multiaddr import Multiaddr

PREFIX: Final = "ZX01_"

# Flags that a command line of the reference may carry, and why they do nothing here.
_CHAIN: Final = "there is no chain here: credits are in the node's own ledger"
_AGGREGATOR: Final = "this node sends nothing to an aggregator"
_RELAY: Final = "this node neither relays connections nor uses relays"
_GEO: Final = "this node tells no place; send an ADVERTISE with `geo`"
MEANINGLESS: Final[Mapping[str, str]] = {
    "--rpc-url": _CHAIN,
    "--trade-rpc-url": _CHAIN,
    "--kora-url": _CHAIN,
    "--registry-8004-disabled": _CHAIN,
    "--registry-8004-url": _CHAIN,
    "--aggregator-url": _AGGREGATOR,
    "--aggregator-secret": _AGGREGATOR,
    "--node-region": _AGGREGATOR,
    "--relay-server": _RELAY,
    "--relay-addr": _RELAY,
    "--geo-country": _GEO,
    "--geo-city": _GEO,
    "--task-log-path": "the task log is in the node's store, in --log-dir",
}


def _option(flag: str, text: str, metavar: str | None = None, *, hidden: bool = False) -> Any:
    variable = PREFIX + flag.removeprefix("--").upper().replace("-", "_")
    return typer.Option(flag, envvar=variable, metavar=metavar, help=text, hidden=hidden)


def _without_effect(flag: str) -> Any:
    return _option(flag, f"No effect: {MEANINGLESS[flag]}.", "VALUE", hidden=True)


def node(
    listen_addr: Annotated[
        str, _option("--listen-addr", "Where peers connect, as a multiaddr.", "MULTIADDR")
    ] = "/ip4/0.0.0.0/tcp/9000",
    bootstrap: Annotated[
        list[str] | None,
        _option(
            "--bootstrap", "A peer to stay connected to, as a multiaddr. Repeat it for more.", "MULTIADDR"
        ),
    ] = None,
    no_default_bootstrap: Annotated[
        bool,
        _option("--no-default-bootstrap", "What this node does always: it has no built-in peers."),
    ] = False,
    agent_name: Annotated[
        str, _option("--agent-name", "Name in BEACONs. Default: 8 digits of the agent id.", "NAME")
    ] = "",
    keypair_path: Annotated[
        Path, _option("--keypair-path", "The key: a file with its 32 bytes. Made if there is none.", "FILE")
    ] = Path("zerox1-identity.key"),
    log_dir: Annotated[
        Path, _option("--log-dir", "Folder for the store, the epoch logs and the token.", "FOLDER")
    ] = Path(),
    api_addr: Annotated[
        str, _option("--api-addr", "Where the HTTP and WebSocket API listens.", "ADDRESS:PORT")
    ] = "127.0.0.1:9090",
    api_secret: Annotated[
        str | None,
        _option(
            "--api-secret",
            "Secret of the API. Prefer the variable: other users of this machine see command lines.",
            "SECRET",
        ),
    ] = None,
    api_read_keys: Annotated[
        str, _option("--api-read-keys", "Keys that can only read, with commas. Prefer the variable.", "KEYS")
    ] = "",
    api_cors_origins: Annotated[
        str,
        _option("--api-cors-origins", "Origins whose web pages may use the API, with commas.", "ORIGINS"),
    ] = "",
    app_webhook_url: Annotated[
        str | None, _option("--app-webhook-url", "POST each inbound envelope to this URL.", "URL")
    ] = None,
    app_webhook_secret: Annotated[
        str | None,
        _option("--app-webhook-secret", "Bearer token of these POSTs. Prefer the variable.", "SECRET"),
    ] = None,
    app_webhook_types: Annotated[
        str | None,
        _option("--app-webhook-types", "Only these types, such as PROPOSE,NOTARIZE_BID.", "TYPES"),
    ] = None,
    task_log_path: Annotated[str | None, _without_effect("--task-log-path")] = None,
    aggregator_url: Annotated[str | None, _without_effect("--aggregator-url")] = None,
    aggregator_secret: Annotated[str | None, _without_effect("--aggregator-secret")] = None,
    relay_server: Annotated[bool, _without_effect("--relay-server")] = False,
    relay_addr: Annotated[str | None, _without_effect("--relay-addr")] = None,
    geo_country: Annotated[str | None, _without_effect("--geo-country")] = None,
    geo_city: Annotated[str | None, _without_effect("--geo-city")] = None,
    node_region: Annotated[str | None, _without_effect("--node-region")] = None,
    rpc_url: Annotated[str | None, _without_effect("--rpc-url")] = None,
    trade_rpc_url: Annotated[str | None, _without_effect("--trade-rpc-url")] = None,
    kora_url: Annotated[str | None, _without_effect("--kora-url")] = None,
    registry_8004_disabled: Annotated[bool, _without_effect("--registry-8004-disabled")] = False,
    registry_8004_url: Annotated[str | None, _without_effect("--registry-8004-url")] = None,
) -> None:
    """Run a node of the mesh, with an API for its program.

    It is one agent, and runs until Ctrl-C or SIGTERM. It takes the command line of `zerox1-node`. Flags about the
    chain, relays, aggregators and places are accepted, have no effect, and are named in the log.

    \b
    moothall mesh node
    moothall mesh node --listen-addr /ip4/127.0.0.1/tcp/9000 --agent-name alice
    moothall mesh node --bootstrap /ip4/192.0.2.7/tcp/9000 --log-dir data --keypair-path data/key
    """
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        raise UsageError(f"`moothall mesh node` needs the extra node: {install_command('node')}")
    import uvloop

    from moothall import logs
    from moothall.node import NodeOptions
    from moothall.node.key import load_or_create
    from moothall.node_api import ApiOptions, run
    from moothall.node_api.auth import api_place
    from moothall.settings import Settings

    api = ApiOptions(
        place=api_place(api_addr),
        secret=api_secret,
        read_keys=_words(api_read_keys),
        origins=_words(api_cors_origins),
        webhook_url=app_webhook_url,
        webhook_secret=app_webhook_secret,
        webhook_types=app_webhook_types,
    )
    options = NodeOptions(
        seed=load_or_create(keypair_path.expanduser()),
        log_dir=log_dir.expanduser(),
        agent_name=agent_name or None,
        listen_addr=_address("--listen-addr", listen_addr),
        bootstrap=tuple(_address("--bootstrap", text) for text in bootstrap or ()),
    )
    log = logs.configure(Settings())
    given = {
        "--task-log-path": task_log_path,
        "--aggregator-url": aggregator_url,
        "--aggregator-secret": aggregator_secret,
        "--relay-server": relay_server,
        "--relay-addr": relay_addr,
        "--geo-country": geo_country,
        "--geo-city": geo_city,
        "--node-region": node_region,
        "--rpc-url": rpc_url,
        "--trade-rpc-url": trade_rpc_url,
        "--kora-url": kora_url,
        "--registry-8004-disabled": registry_8004_disabled,
        "--registry-8004-url": registry_8004_url,
    }

    def ready(running: "Running") -> None:
        _greet(running)
        for flag, value in given.items():
            if value:
                log.warning("flag_ignored", flag=flag, reason=MEANINGLESS[flag])
        if not (bootstrap or no_default_bootstrap):
            log.info("no_bootstrap", reason="this node has no built-in peers: it waits for peers to connect")

    uvloop.run(run(options, api, log, ready))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _address(flag: str, text: str) -> "Multiaddr":
    from moothall.p2p.faults import MalformedAddress
    from moothall.p2p.multiaddr import Multiaddr

    try:
        return Multiaddr.parse(text)
    except MalformedAddress as fault:
        raise UsageError(f"{flag}: {fault}") from None


def _greet(running: "Running") -> None:
    node = running.node
    tell(f"{node.name} is agent {node.agent_id.hex()}")
    tell(f"  peers  {node.address}")
    tell(f"  API    http://{running.address}")
    if running.token_file is not None:
        tell(f"  token  in {running.token_file}")
