"""What the container of an agent is: its name, its mounts and its walls, as words for `podman create`.

Each wall is a line here, and a test looks at it from inside. The container has no network: ports of its loopback
lead to sockets of the host (`doors.py`). Where root starts it, each agent has a range of user ids of its own, and
none of them is a user of the host. Where another user starts it, it is that user, with nothing but its folders.
"""

import re
import zlib
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from moothall.errors import UsageError
from moothall.wire.authority import authority_of
from moothall.worker.crew.plan import Crew, Member
from moothall.worker.crew.runtime import Recipe
from moothall.worker.supervisor import secret_files
from moothall.worker.supervisor.credentials import BY_PROXY

RESTARTS: Final = 3  # agentchat wire 19.6
USER: Final = 1000  # of the image
MODEL_PORT: Final = 9999  # agentchat wire 19.6

HALL_SOCKET: Final = "hall.sock"
MODEL_SOCKET: Final = "model.sock"
SECRETS_SOCKET: Final = "secrets.sock"
HOSTS: Final = "hosts"  # its file in the agent's folder of sockets

CREW_LABEL: Final = "moothall.crew"
FOLDER_LABEL: Final = "moothall.folder"
NAME_LABEL: Final = "agentchat.name"

STATE: Final = Path("/state")
WORKSPACE: Final = Path("/workspace")
CREW: Final = Path("/crew")
SOCKETS: Final = Path("/run/moothall")
HOME: Final = Path("/home/agent")

# The model, which talks to strangers, can put files into these folders: none of them is to be run as a program.
_WRITABLE: Final = "rw,noexec,nosuid,nodev"
_READABLE: Final = "ro,nosuid,nodev"

_RANGE: Final = 1 << 16  # user ids of one agent
_FIRST_RANGE: Final = 0x70000000  # above what systemd, and user namespaces of people, are given
_RANGES: Final = 1 << 12

_BY_PROXY: Final = frozenset(("cli", "api"))  # runtimes that speak to Anthropic's API
_LOOPBACK: Final = "127.0.0.1"
# Variables that mean something to Podman itself. All others reach the container through Podman's own environment,
# so that their values are in no list of arguments.
READ_BY_PODMAN: Final = re.compile(
    r"PATH|HOME|TMPDIR|TERM|TZ|USER|SHELL|NOTIFY_SOCKET|_.*|(LD|GO|LC|XDG|DBUS|STORAGE|REGISTRY|REGISTRIES)[A-Z_]*"
    r"|(CONTAINER|PODMAN|BUILDAH|DOCKER|NETAVARK|CNI)[A-Z_]*|(http|https|no|all|ftp)_proxy",
    re.IGNORECASE,
)


class Host(NamedTuple):
    """What a container needs to know of the machine and its user."""

    is_root: bool
    most_files: int  # its own limits: Podman's defaults may be above them
    most_processes: int


class Words(NamedTuple):
    """A command for Podman, without the program and its global flags, and variables for Podman's environment."""

    arguments: list[str]
    variables: dict[str, str]


def name_of(crew: str, agent: str) -> str:
    return f"agentchat-{crew}-{agent}"


def first_user(crew: str, agent: str) -> int:
    """The user id on the host that is 0 in the container, where root starts it."""
    return _FIRST_RANGE + zlib.crc32(f"{crew}/{agent}".encode()) % _RANGES * _RANGE


def has_proxy(recipe: Recipe) -> bool:
    """True if the model's API is reached through the proxy on the host, so that the token stays there."""
    crew = recipe.crew
    return crew.token is not None and crew.model_proxy and recipe.member.runtime in _BY_PROXY


def needs_token(recipe: Recipe) -> bool:
    """True if the model cannot be reached without one."""
    return recipe.member.runtime in _BY_PROXY


def secrets_of(recipe: Recipe) -> list[str]:
    """The files that the supervisor finds in /run/secrets."""
    has_token = recipe.crew.token is not None and not has_proxy(recipe)
    return [secret_files.IDENTITY, *([secret_files.TOKEN] if has_token else [])]


class Way(NamedTuple):
    """How the agent reaches the hall: the address that it is told, and a name that must lead to the loopback."""

    url: str
    port: int
    name: str | None


def way_to(hall: str) -> Way:
    """Raises UsageError for an address that no container can reach."""
    found = authority_of(hall)
    if found is None:
        raise UsageError(f"{hall!r} is not the address of a hall")
    try:
        ip_address(found.host)
    except ValueError:
        return Way(hall, found.port, found.host)
    if found.host == _LOOPBACK:
        return Way(hall, found.port, None)
    if urlsplit(hall).scheme == "wss":
        raise UsageError(
            f"{hall}: an agent in a container needs a hall with a name, because its certificate is checked against"
            " the name: write the hall's name in place of its IP address"
        )
    return Way(urlsplit(hall)._replace(netloc=f"{_LOOPBACK}:{found.port}").geturl(), found.port, None)


def hosts_file(recipe: Recipe) -> str:
    """What /etc/hosts says in the container. The host's own file would tell an agent about the host's network."""
    name = way_to(recipe.hall).name
    return f"{_LOOPBACK} localhost\n" + (f"{_LOOPBACK} {name}\n" if name not in (None, "localhost") else "")


def doors_of(recipe: Recipe) -> dict[int, str]:
    """Ports of the container's loopback, and the sockets of the host that are behind them."""
    hall = way_to(recipe.hall).port
    if not has_proxy(recipe):
        return {hall: HALL_SOCKET}
    return {hall: HALL_SOCKET, _model_port(hall): MODEL_SOCKET}


def environment(recipe: Recipe) -> dict[str, str]:
    """What the supervisor is told."""
    way = way_to(recipe.hall)
    told = recipe.variables(CREW, STATE) | {
        "AGENTCHAT_URL": way.url,
        "HOME": str(HOME),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        secret_files.VARIABLE: " ".join(secrets_of(recipe)),
    }
    if has_proxy(recipe):
        told |= {
            "ANTHROPIC_BASE_URL": f"http://{_LOOPBACK}:{_model_port(way.port)}",
            "ANTHROPIC_API_KEY": BY_PROXY,
        }
    return told


def create(recipe: Recipe, host: Host) -> Words:
    """How to create the container. Raises UsageError."""
    crew, member = recipe.crew, recipe.member
    _check_crew_folder(recipe)
    variables = environment(recipe)
    arguments = [
        "create",
        f"--name={name_of(crew.name, member.name)}",
        *(f"--label={key}={value}" for key, value in _labels(recipe).items()),
        f"--restart=on-failure:{RESTARTS}",
        f"--hostname={member.name}",
        *walls(recipe.member, host),
        *users(crew.name, member.name, host),
        *_mounts(recipe),
        *_variables(variables),
        f"--workdir={WORKSPACE}",
        "--pull=never",
        "--log-driver=k8s-file",
        "--log-opt=max-size=1mb",
        "--entrypoint=",
        *root_of(crew),
        *_command(recipe),
    ]
    return Words(
        arguments, {key: value for key, value in variables.items() if not READ_BY_PODMAN.fullmatch(key)}
    )


def _check_crew_folder(recipe: Recipe) -> None:
    """Agents see the folder of the crew file."""
    folder = recipe.crew.folder.resolve()
    if recipe.places.root.resolve().is_relative_to(folder):
        raise UsageError(
            f"agents can read the folder of the crew file, {folder}, and the keys of the crew are below it, in"
            f" {recipe.places.root}: move the crew file to a folder of its own"
        )
    if recipe.crew.token is not None and recipe.crew.token.resolve().is_relative_to(folder):
        raise UsageError(
            f"agents can read the folder of the crew file, and the token is in it: move {recipe.crew.token} away"
        )


def _labels(recipe: Recipe) -> dict[str, str]:
    return {
        "agentchat.agent": "true",
        NAME_LABEL: recipe.member.name,
        "agentchat.protected": "true" if recipe.member.protected else "false",
        CREW_LABEL: recipe.crew.name,
        FOLDER_LABEL: str(recipe.places.root),
    }


def root_of(crew: Crew) -> list[str]:
    return ["--rootfs", str(crew.rootfs)] if crew.rootfs is not None else [crew.image]


def walls(member: Member, host: Host) -> list[str]:
    """What an agent may use of the machine."""
    return [
        "--network=none",
        "--sysctl=net.ipv4.ip_unprivileged_port_start=0",  # the hall's own port, whatever it is
        "--no-hosts",
        "--http-proxy=false",
        "--read-only",
        "--read-only-tmpfs=false",
        f"--tmpfs=/tmp:{_WRITABLE},size=256m,mode=1777",
        f"--tmpfs={HOME}:{_WRITABLE},size=256m,mode=1777",
        f"--tmpfs={secret_files.FOLDER}:{_WRITABLE},size=1m,mode=1777",
        "--cap-drop=all",
        "--security-opt=no-new-privileges",
        # With SELinux no container may connect to a socket of the host. All other walls stay.
        "--security-opt=label=disable",
        "--cgroupns=private",
        "--ipc=private",
        f"--pids-limit={member.processes}",
        f"--memory={member.memory}",
        f"--memory-swap={member.memory}",
        f"--cpus={member.cpus:g}",
        "--ulimit=core=0:0",
        f"--ulimit=nofile={host.most_files}:{host.most_files}",
        f"--ulimit=nproc={host.most_processes}:{host.most_processes}",
    ]


def users(crew: str, agent: str, host: Host) -> list[str]:
    """Who an agent is, inside and outside."""
    user = f"--user={USER}:{USER}"
    if not host.is_root:
        return [user, f"--userns=keep-id:uid={USER},gid={USER}"]
    mapped = f"0:{first_user(crew, agent)}:{_RANGE}"
    return [user, f"--uidmap={mapped}", f"--gidmap={mapped}"]


def _mounts(recipe: Recipe) -> list[str]:
    places = recipe.places
    mounts = [
        (places.state, STATE, _WRITABLE),
        (places.workspace, WORKSPACE, _WRITABLE),
        (places.run, SOCKETS, f"{_READABLE},noexec"),
        (places.run / HOSTS, Path("/etc/hosts"), f"{_READABLE},noexec"),
        (recipe.crew.folder, CREW, _READABLE),
    ]
    for source, _, _ in mounts:
        if ":" in str(source):
            raise UsageError(
                f"{source}: Podman cannot mount a folder with a colon in its name: choose another one"
            )
    return [f"--volume={source}:{target}:{options}" for source, target, options in mounts]


def _variables(variables: Mapping[str, str]) -> list[str]:
    return [
        f"--env={key}={value}" if READ_BY_PODMAN.fullmatch(key) else f"--env={key}"
        for key, value in variables.items()
    ]


def _command(recipe: Recipe) -> list[str]:
    return [
        *("/usr/bin/python3", "-P", "-m", "moothall.worker.crew.inside"),
        *("--secrets", str(SOCKETS / SECRETS_SOCKET)),
        *(word for port, name in doors_of(recipe).items() for word in ("--door", f"{port}={SOCKETS / name}")),
        *("--", "/usr/local/bin/agent-supervisor", recipe.member.name, recipe.member.mission),
    ]


def _model_port(hall: int) -> int:
    return MODEL_PORT if hall != MODEL_PORT else MODEL_PORT - 1
