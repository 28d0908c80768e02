"""`moothall keep`: send to keep agents, hear them, and ask a keep server about itself."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Timeout, seconds
from moothall.cli._exits import group
from moothall.cli._tables import show_table
from moothall.errors import ConnectionFailed, MoothallError, ReplyTimeout, UsageError
from moothall.tui.printable import printable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from moothall.keep import KeepClient, Packet

DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 9009
ANSWER_WINDOW: Final = 0.5  # seconds; agents that answer by program do so within it
TTL: Final = 60

# What the server says instead of passing a message on (keep wire 7), and what it means.
_ERRORS: Final = {
    "error:offline": "{dst} is not there; `moothall keep agents` lists who is",
    "error:delivery_failed": "{dst} does not read what it gets; try again later",
    "error:unknown_discovery": "the server tells nothing about {dst}",
    "error:reserved_identity": "names that start with agent: belong to agents on the WebSocket",
    "error:pinned": "this name belongs to another key; sign with that one, see --key",
}

app = group("keep", "Talk with keep agents, through any keep server.")

Host = Annotated[
    str, typer.Option("--host", "-H", envvar="KEEP_HOST", metavar="HOST", help="Where the server is.")
]
Port = Annotated[
    int, typer.Option("--port", "-p", envvar="KEEP_PORT", min=1, max=65535, metavar="PORT", help="Its port.")
]
Src = Annotated[
    str | None,
    typer.Option(
        "--src",
        metavar="KIND:NAME",
        envvar="KEEP_SRC",
        help="Who you are, as in bot:weather or human:ada; by default a new name each time.",
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The key file to sign with, in PEM or from `moothall identity new FILE`."
    ),
]


@dataclass(frozen=True, slots=True)
class Errand:
    """Where a command goes, as whom, and how long it waits."""

    host: str
    port: int
    src: str
    key: Path | None = None
    timeout: float = DEFAULT_TIMEOUT

    def client(self) -> "KeepClient":
        from moothall.keep import KeepClient

        return KeepClient(self.host, self.port, self.private_key(), self.timeout, self.src)

    def private_key(self) -> "Ed25519PrivateKey | None":
        from moothall.keep import key_from_file

        if self.key is None:
            return None
        return key_from_file(self.key)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """What the SDK raises, as one line that says what to do next."""
        try:
            yield
        except ConnectionRefusedError:
            raise ConnectionFailed(
                f"keep-server not running on {self.host}:{self.port}; start one with `moothall serve`"
            ) from None
        except TimeoutError:
            raise ReplyTimeout(
                f"{self.host}:{self.port} did not answer within {self.timeout:g} s; is it a keep server?"
            ) from None
        except ConnectionError as error:
            raise ConnectionFailed(f"{self.host}:{self.port}: {error}; is it a keep server?") from None
        except OSError as error:
            raise ConnectionFailed(
                f"keep-server not reached on {self.host}:{self.port}: {error.strerror or error}"
            ) from None
        except UnicodeEncodeError:
            raise UsageError("what is sent must be text in UTF-8") from None
        except ValueError as error:  # too large for a packet
            raise UsageError(str(error)) from None


@app.command()
def send(
    dst: Annotated[
        str,
        typer.Argument(
            metavar="DST", help="#CHANNEL, bot:NAME, agent:ID, nearest:SKILL, swarm:NAME or server."
        ),
    ],
    body: Annotated[list[str], typer.Argument(metavar="BODY", help="What to say.")],
    src: Src = None,
    key: Key = None,
    fee: Annotated[
        int, typer.Option(min=0, max=2**64 - 1, metavar="N", help="Satoshis offered; informational.")
    ] = 0,
    ttl: Annotated[
        int,
        typer.Option(min=0, max=2**32 - 1, metavar="SECONDS", help="Seconds the message means something."),
    ] = TTL,
    scar_file: Annotated[Path | None, typer.Option(metavar="FILE", help="A memory to attach.")] = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for an agent's answer.")
    ] = ANSWER_WINDOW,
    host: Host = DEFAULT_HOST,
    port: Port = DEFAULT_PORT,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Send a signed message and print the answer.

    Prints `sent` when the server passed the message on and no answer came in time. The exit code is 1 when it
    did not: no agent of that name is there.

    \b
    moothall keep send server hello
    moothall keep send bot:weather 'Paris, tomorrow?' --wait 10 --key ~/.keep/me.pem --src bot:me
    """
    errand = Errand(host, port, _name(src), key, timeout)
    fields: dict[str, Any] = {"fee": fee, "ttl": ttl, "scar": _scar(scar_file)}
    client = errand.client()
    with errand.explained():
        answer = _sent(client, " ".join(body), dst, wait, fields)
    refuse_errors(answer, dst)
    if as_json:
        typer.echo(json.dumps({"dst": dst, "answer": None if answer is None else described(answer)}))
    else:
        typer.echo("sent" if answer is None else printable(answer.body))


def _sent(client: "KeepClient", body: str, dst: str, wait: float, fields: dict[str, Any]) -> "Packet | None":
    from moothall.keep.sorting import asks_server

    if asks_server(dst):
        return client.send(body, dst=dst, **fields)
    return client.deliver(body, dst, wait=wait, **fields)


@app.command()
def listen(
    src: Src = None,
    key: Key = None,
    limit: Annotated[
        int | None, typer.Option("-m", "--max", metavar="N", min=1, help="End after N messages.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", callback=seconds, help="End with exit code 5 after SECONDS of silence."
        ),
    ] = None,
    host: Host = DEFAULT_HOST,
    port: Port = DEFAULT_PORT,
    as_json: AsJson = False,
) -> None:
    """Print what is sent to you, until Ctrl-C.

    A lost connection is taken up again. What was sent meanwhile is lost: keep servers hold nothing back.

    \b
    moothall keep listen --src bot:weather --key ~/.keep/weather.pem
    moothall keep listen --src bot:weather --json | jq -r .body
    """
    from moothall.cli._keep_listening import listen_until_silence

    if src == "":
        raise UsageError("without a name no agent can write to you: give one with --src")
    listen_until_silence(Errand(host, port, _name(src), key), as_json=as_json, limit=limit, silence=timeout)


@app.command()
def discover(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="info, agents, stats or scars.")] = "info",
    host: Host = DEFAULT_HOST,
    port: Port = DEFAULT_PORT,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Print what the server tells about itself, as JSON.

    \b
    moothall keep discover
    moothall keep discover stats
    """
    typer.echo(json.dumps(_ask(Errand(host, port, "", timeout=timeout), query), indent=2))


@app.command()
def agents(
    host: Host = DEFAULT_HOST,
    port: Port = DEFAULT_PORT,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List who is connected, one a line."""
    found = _ask(Errand(host, port, "", timeout=timeout), "agents").get("agents")
    if not isinstance(found, list):
        raise MoothallError(f"{host}:{port} answered without a list of agents")
    if as_json:
        typer.echo(json.dumps(found))
        return
    show_table(("agent",), ((name,) for name in found), empty="no agent is connected")


def _ask(errand: Errand, query: str) -> dict[str, Any]:
    from moothall.keep.sorting import read_discovery

    # Without a name: a name would be registered, and its present owner displaced (keep wire 10, traps).
    with errand.explained():
        answer = errand.client().send("", dst=f"discover:{query}")
    refuse_errors(answer, query)
    try:
        return read_discovery(answer.body if answer else "")
    except ValueError:
        raise MoothallError(f"{errand.host}:{errand.port} answered something else than JSON") from None


def described(packet: "Packet") -> dict[str, object]:
    """The fields of the wire, and whether the signature holds; the SDK lets no packet through if not."""
    return {
        "id": packet.id,
        "src": packet.src,
        "dst": packet.dst,
        "body": packet.body,
        "typ": packet.typ,
        "fee": packet.fee,
        "ttl": packet.ttl,
        "scar": packet.scar.hex(),
        "pk": packet.pk.hex(),
        "verified": bool(packet.sig),
    }


def refuse_errors(answer: "Packet | None", dst: str) -> None:
    if answer is not None and not answer.sig and answer.body.startswith("error:"):
        meaning = _ERRORS.get(answer.body, "the server refused")
        raise MoothallError(f"{answer.body}: {meaning.format(dst=dst)}")


def _name(src: str | None) -> str:
    """Two clients with one name displace each other, so each gets a new one."""
    return f"bot:cli-{secrets.token_hex(4)}" if src is None else src


def _scar(path: Path | None) -> bytes:
    try:
        return b"" if path is None else path.expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
