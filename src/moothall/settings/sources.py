"""Where settings come from: flag, environment, moothall.toml, profile, default. The first to speak wins."""

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from moothall.errors import SettingsError
from moothall.p2p.faults import MalformedAddress
from moothall.p2p.multiaddr import Multiaddr
from moothall.settings.bus import check_bus
from moothall.settings.fields import Settings, Variable, described
from moothall.settings.limits import Rate
from moothall.settings.profiles import NOT_SERVED, PROFILES, WITH_REFERENCE_VARIABLES
from moothall.wire.agentchat.client import PresenceState
from moothall.wire.agentchat.names import is_channel_name
from moothall.wire.authority import authority_of
from moothall.wire.http import is_subprotocol

CONFIG_FILE: Final = "moothall.toml"
PREFIX: Final = "MOOTHALL_"
# MOOTHALL_ variables that are not settings of a hall: commands that go to one read them, or all of moothall.
NOT_SETTINGS: Final = frozenset(
    (
        "MOOTHALL_CONFIG",
        "MOOTHALL_URL",
        "MOOTHALL_IDENTITY",
        "MOOTHALL_NAME",
        "MOOTHALL_CREWS",
        "MOOTHALL_MCP_TOKEN",
        "MOOTHALL_MCP_TOKEN_FILE",
        "MOOTHALL_PURE",
    )
)

# Enough for any size, and for times that are counted in milliseconds and stored in 64 bits.
MAX_NUMBER: Final = 2**40
LEAST_SECRET: Final = 16  # characters of a secret that encrypts
MAX_COUNTERPARTIES: Final = 400  # of an arbiter: so many deals are looked at
# What a MSG takes on the wire: JSON may spell each UTF-16 code unit in six bytes (\\u00e9), and besides the content
# there are a target, a signature, ids, and names.
LONGEST_SPELLING: Final = 6
ENVELOPE: Final = 16 * 1024
# Numbers with a smaller range than others.
RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "port": (0, 65535),
    "keep_port": (0, 65535),
    "mesh_port": (0, 65535),
    "max_known_keys": (1, 100_000_000),  # a filter of all ids is in memory: 256 MB then
    "loopback_factor": (1, 1_000_000),
    "max_watchers": (1, 100_000),
    "nodes": (1, 64),
    "bus_replicas": (0, 5),
    "max_content": (1, 16 * 1024 * 1024),
    "court_arbiter_counterparties": (0, MAX_COUNTERPARTIES),
}

_TRUE: Final = frozenset(("1", "true", "yes", "on"))
_FALSE: Final = frozenset(("0", "false", "no", "off", ""))
_NAMES: Final = tuple(entry.name for entry in described())
SECRETS: Final = tuple(entry.name for entry in described() if entry.metadata["secret"])
_TYPES: Final = get_type_hints(Settings)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The settings, and for each the place that decided it."""

    settings: Settings
    origins: Mapping[str, str]
    ignored: tuple[str, ...]  # variables that are set but have no effect


def load(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> Chosen:
    """`flags` hold values that are already typed, or texts. `config` must exist if it is given."""
    environment = os.environ if environment is None else environment
    by_flag = {name: value for name, value in (flags or {}).items() if value is not None}
    by_file, file_name = _read_config(config, environment)
    profile, profile_origin = _choose_profile(by_flag, environment, by_file, file_name)
    values: dict[str, Any] = {"profile": profile}
    origins: dict[str, str] = {"profile": profile_origin}
    for entry in described():
        name = entry.name
        if name == "profile":
            continue
        variables = list(entry.metadata["known_as"])
        if profile in WITH_REFERENCE_VARIABLES and entry.metadata["reference"]:
            variables.append(entry.metadata["reference"])
        if name in by_flag:
            values[name], origins[name] = _typed(name, by_flag[name], "flag"), "flag"
        elif found := _from_environment(name, variables, environment):
            values[name], origins[name] = found
        elif name in by_file:
            values[name], origins[name] = _typed(name, by_file[name], file_name), file_name
        elif name in PROFILES[profile]:
            values[name], origins[name] = PROFILES[profile][name], f"profile {profile}"
        else:
            origins[name] = "default"
    settings = _with_files(values, origins)
    ignored = [
        variable
        for variable in environment
        if variable.startswith(PREFIX)
        and variable not in NOT_SETTINGS
        and variable.removeprefix(PREFIX).lower() not in _NAMES
    ]
    if profile in WITH_REFERENCE_VARIABLES:
        ignored += [name for name in NOT_SERVED if environment.get(name, "").lower() not in _FALSE]
    return Chosen(settings, origins, tuple(sorted(ignored)))


def parse(name: str, text: str) -> Any:
    """A setting's value from its text."""
    return _parse(_TYPES[name], text)


def check_name(name: str) -> str:
    """The name of a setting, written as `max-frame` or `max_frame`. Raises SettingsError if it does not exist."""
    name = name.strip().replace("-", "_")
    if name not in _NAMES:
        near = get_close_matches(name, _NAMES, 1)
        hint = f"; did you mean {near[0]}?" if near else "; see `moothall config`"
        raise SettingsError(f"there is no setting {name!r}{hint}")
    return name


def _choose_profile(
    flags: Mapping[str, Any], environment: Mapping[str, str], config: Mapping[str, Any], file_name: str
) -> tuple[str, str]:
    if "profile" in flags:
        profile, origin = flags["profile"], "flag"
    elif value := environment.get("MOOTHALL_PROFILE"):
        profile, origin = value, "MOOTHALL_PROFILE"
    elif "profile" in config:
        profile, origin = config["profile"], file_name
    else:
        profile, origin = "seeds", "default"
    if str(profile) not in PROFILES:
        raise SettingsError(f"profile from {origin}: {profile!r} is not one of {', '.join(PROFILES)}")
    return profile, origin


def _from_environment(
    name: str, variables: list[Variable], environment: Mapping[str, str]
) -> tuple[Any, str] | None:
    for variable in (Variable(PREFIX + name.upper()), *variables):
        text = environment.get(variable.name)
        if text is None or text == "":
            continue
        try:
            text = variable.translate(text)
        except ValueError:
            raise SettingsError(f"{name} from {variable.name}: {text!r} is not a number") from None
        if text:
            return _typed(name, text, variable.name), variable.name
    return None


def _read_config(config: Path | None, environment: Mapping[str, str]) -> tuple[Mapping[str, Any], str]:
    named = config or (Path(environment["MOOTHALL_CONFIG"]) if environment.get("MOOTHALL_CONFIG") else None)
    path = named or Path(CONFIG_FILE)
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except FileNotFoundError:
        if named is not None:
            raise SettingsError(f"{path} does not exist") from None
        return {}, CONFIG_FILE
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
    for name in table:
        try:
            check_name(name)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None
    table = {check_name(name): value for name, value in table.items()}
    for name in SECRETS:
        if name in table:
            variable = PREFIX + name.upper()
            raise SettingsError(f"{path}: {name} is a secret; set it with {variable} or a file of its own")
    return table, str(path)


def _with_files(values: dict[str, Any], origins: dict[str, str]) -> Settings:
    """Read what is given as the name of a file, and check what only makes sense together."""
    for name in SECRETS:
        if (path := values.get(f"{name}_file")) and not values.get(name):
            values[name], origins[name] = read_secret(path), str(path)
    if (path := values.get("motd_file")) and not values.get("motd"):
        values["motd"], origins["motd"] = _read_text(path), str(path)
    settings = Settings(**values)
    if (settings.cert is None) != (settings.key is None):
        raise SettingsError("TLS needs both --cert and --key: the files of the certificate and of its key")
    for name, (least, most) in RANGES.items():
        value = getattr(settings, name)
        if value is not None and not least <= value <= most:
            raise SettingsError(f"{name} from {origins[name]}: {value} is not between {least} and {most}")
    for name in ("max_channels", "max_frame", "outbox_limit", "keep_outbox"):
        if getattr(settings, name) < 1:
            raise SettingsError(f"{name} from {origins[name]}: must be at least 1")
    for name in ("challenge_timeout", "captcha_timeout", "peer_timeout"):
        if not getattr(settings, name):  # no client could answer in time
            raise SettingsError(f"{name} from {origins[name]}: must be more than 0")
    if settings.public_url and authority_of(settings.public_url) is None:
        raise SettingsError(
            f"public_url from {origins['public_url']}: {settings.public_url!r} is not a URL such as"
            " wss://hall.example.org"
        )
    _check_sizes(settings, origins)
    if settings.store_secret:
        _check_store_secret(settings.store_secret, origins["store_secret"])
    _check_addresses(settings, origins)
    _check_subprotocols(settings, origins)
    _check_channels(settings, origins)
    _check_webhooks(settings, origins)
    _check_court(settings, origins)
    _check_keep(settings, origins)
    _check_mesh(settings, origins)
    check_bus(settings, origins)
    return settings


def _check_sizes(settings: Settings, origins: Mapping[str, str]) -> None:
    """The longest MSG must fit a frame however it is spelled, and an outbox must hold the largest frame."""
    least_frame = settings.max_content * LONGEST_SPELLING + ENVELOPE
    if settings.max_frame < least_frame:
        raise SettingsError(
            f"max_frame from {origins['max_frame']}: {settings.max_frame} bytes are too few for max_content = "
            f"{settings.max_content}, because a character can take {LONGEST_SPELLING} bytes; "
            f"set max_frame to {least_frame} or more, or lower max_content"
        )
    least_outbox = settings.max_frame + ENVELOPE
    if settings.outbox_limit < least_outbox:
        raise SettingsError(
            f"outbox_limit from {origins['outbox_limit']}: {settings.outbox_limit} bytes do not hold one frame of "
            f"max_frame = {settings.max_frame}; set outbox_limit to {least_outbox} or more"
        )


def _check_court(settings: Settings, origins: Mapping[str, str]) -> None:
    for presence in settings.court_absent:
        if presence not in get_args(PresenceState):
            raise SettingsError(
                f"court_absent from {origins['court_absent']}: {presence!r} is not one of "
                f"{', '.join(get_args(PresenceState))}"
            )
    if settings.court_arbiters_approved and not settings.allowlist:
        raise SettingsError(
            f"court_arbiters_approved from {origins['court_arbiters_approved']}: there are no approved keys "
            "without allowlist; allowlist_strict = false lets other agents in too"
        )


def _check_addresses(settings: Settings, origins: Mapping[str, str]) -> None:
    """Refuse values that match no address or host: they would have no effect, without a sign of it."""
    for proxy in settings.trusted_proxies:
        try:
            ip_network(proxy)
        except ValueError:
            raise SettingsError(
                f"trusted_proxies from {origins['trusted_proxies']}: {proxy!r} is neither an IP address nor a "
                "network, such as 10.0.0.5 or 10.0.0.0/8"
            ) from None
    for name in ("allowed_origins", "api_origins"):
        for origin in getattr(settings, name):
            if origin not in ("*", "null") and not _is_web_origin(origin):
                raise SettingsError(
                    f"{name} from {origins[name]}: {origin!r} is not an origin, "
                    "such as https://hall.example.org (no path, no slash at the end), or *"
                )


def _check_subprotocols(settings: Settings, origins: Mapping[str, str]) -> None:
    for name in settings.subprotocols:
        if not is_subprotocol(name):
            raise SettingsError(
                f"subprotocols from {origins['subprotocols']}: {name!r} is not the name of a subprotocol, "
                "such as agentchat, or *"
            )


def _is_web_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(parts.hostname and parts.port != 0) and text == f"{parts.scheme}://{parts.netloc}".lower()
    except ValueError:
        return False


def _check_channels(settings: Settings, origins: Mapping[str, str]) -> None:
    seen: set[str] = set()
    for name in ("default_channels", "verified_channels"):
        for channel in getattr(settings, name):
            if not is_channel_name(channel):
                raise SettingsError(
                    f"{name} from {origins[name]}: {channel!r} is not a channel, such as #general"
                )
            if channel in seen:
                raise SettingsError(f"{name} from {origins[name]}: {channel} is there twice")
            seen.add(channel)


def _check_keep(settings: Settings, origins: Mapping[str, str]) -> None:
    channel = settings.keep_channel
    if channel and not is_channel_name(channel):
        raise SettingsError(
            f"keep_channel from {origins['keep_channel']}: {channel!r} is not a channel, such as #keep"
        )
    if channel in settings.verified_channels:
        raise SettingsError(
            f"keep_channel from {origins['keep_channel']}: {channel} is for verified agents only"
        )
    if settings.keep_tls and settings.cert is None:
        raise SettingsError("keep_tls needs --cert and --key")
    for name in ("keep_heartbeat", "keep_write_timeout"):
        if getattr(settings, name) <= 0:
            raise SettingsError(f"{name} from {origins[name]}: must be more than 0")


def _check_mesh(settings: Settings, origins: Mapping[str, str]) -> None:
    for name in ("mesh_port", "mesh_peers"):
        if getattr(settings, name) not in (None, ()) and not settings.mesh:
            raise SettingsError(f"{name} from {origins[name]}: needs mesh, which is off")
    for peer in settings.mesh_peers:
        try:
            Multiaddr.parse(peer)
        except MalformedAddress as error:
            raise SettingsError(
                f"mesh_peers from {origins['mesh_peers']}: {peer!r} is not the address of a peer, such as"
                f" /ip4/192.0.2.1/tcp/9000/p2p/12D3KooW…: {error}"
            ) from None


def _check_webhooks(settings: Settings, origins: Mapping[str, str]) -> None:
    if len(set(settings.webhooks)) < len(settings.webhooks):
        raise SettingsError(f"webhooks from {origins['webhooks']}: a URL is there twice")
    if settings.webhooks and not settings.webhook_secret:
        raise SettingsError("webhooks are signed: set MOOTHALL_WEBHOOK_SECRET, or webhook_secret_file")
    if not settings.webhook_timeout:
        raise SettingsError(f"webhook_timeout from {origins['webhook_timeout']}: must be more than 0")


def read_store_secret(path: Path) -> str:
    """Another secret than that of the settings, for the commands that change it."""
    secret = read_secret(path)
    _check_store_secret(secret, str(path))
    return secret


def _check_store_secret(secret: str, origin: str) -> None:
    if len(secret) < LEAST_SECRET:
        raise SettingsError(
            f"store_secret from {origin}: a secret has at least {LEAST_SECRET} characters;"
            " `openssl rand -hex 32` makes one"
        )


def read_secret(path: Path) -> str:
    """What a file of the operator's holds. Raises SettingsError if others can read it, or it is empty."""
    secret = _read_text(path)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(f"{path} can be read by others; run: chmod 600 {path}")
    if not secret:
        raise SettingsError(f"{path} is empty")
    return secret


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text") from None


class _OutOfRange(ValueError):
    """A number that no setting takes. Some have a smaller range."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text} is not between 0 and {MAX_NUMBER}")
        self.text = text


def _typed(name: str, value: Any, origin: str) -> Any:
    try:
        if isinstance(value, str):
            return parse(name, value)
        return _check(_TYPES[name], value)
    except _OutOfRange as error:
        least, most = RANGES.get(name, (0, MAX_NUMBER))
        raise SettingsError(f"{name} from {origin}: {error.text} is not between {least} and {most}") from None
    except ValueError as error:
        raise SettingsError(f"{name} from {origin}: {error}") from None


def _parse(expected: Any, text: str) -> Any:
    origin = get_origin(expected)
    if origin is Literal:
        choices = get_args(expected)
        for choice in choices:
            if str(choice) == text:
                return choice
        raise ValueError(f"{text!r} is not one of {', '.join(map(str, choices))}")
    if origin in (Union, UnionType):
        inner = next(part for part in get_args(expected) if part is not NoneType)
        return _parse(inner, text) if text else None
    if origin is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if expected is bool:
        if text.lower() in _TRUE:
            return True
        if text.lower() in _FALSE:
            return False
        raise ValueError(f"{text!r} is not true or false")
    if expected is Rate:
        try:
            rate = Rate.parse(text)
        except ValueError:
            raise ValueError(f"{text!r} is not COUNT/SECONDS, such as 60/10, or 0") from None
        if max(rate) > MAX_NUMBER:
            raise ValueError(f"{text} is not between 0 and {MAX_NUMBER}")
        return rate
    if expected in (int, float):
        return _number(expected, text)
    return expected(text)


def _number(expected: Any, text: str) -> Any:
    try:
        number = expected(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not 0 <= number <= MAX_NUMBER:
        raise _OutOfRange(text)
    return number


def _check(expected: Any, value: Any) -> Any:
    """A value that TOML or a flag already gave a type."""
    if get_origin(expected) is tuple and isinstance(value, (list, tuple)):
        if not all(isinstance(part, str) for part in value):
            raise ValueError("must be a list of texts")
        return tuple(value)
    if expected is Rate and isinstance(value, Rate):
        return value
    if isinstance(value, Path):
        return value
    if isinstance(value, bool) is not (expected is bool) or not isinstance(value, (bool, int, float)):
        raise ValueError(f"{value!r} has the wrong type")
    return _parse(expected, str(value))
