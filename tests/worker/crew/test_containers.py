"""What a container is told and given, as words. How it looks from inside is in test_podman.py."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from moothall.errors import UsageError
from moothall.worker.crew.containers import (
    Host,
    Way,
    create,
    doors_of,
    environment,
    first_user,
    hosts_file,
    name_of,
    secrets_of,
    way_to,
)
from moothall.worker.crew.places import Places
from moothall.worker.crew.plan import Crew, Member
from moothall.worker.crew.runtime import Recipe

ROOT = Host(is_root=True, most_files=1024, most_processes=2048)
USER = Host(is_root=False, most_files=1024, most_processes=2048)
HALL = "ws://127.0.0.1:6667"


def recipe(
    hall: str = HALL, *, token: Path | None = None, model_proxy: bool = True, **fields: object
) -> Recipe:
    member = replace(Member("alice", "Say hello."), **fields)  # type: ignore[arg-type]
    crew = Crew("demo", Path("/srv/demo/crew.toml"), (member,), token=token, model_proxy=model_proxy)
    return Recipe(crew, member, Places(Path("/home/me/.agentchat/crews/demo")).member("alice"), hall)


def options(words: list[str], name: str) -> list[str]:
    return [word.partition("=")[2] for word in words if word.partition("=")[0] == name]


@pytest.mark.parametrize(
    ("hall", "way"),
    [
        (HALL, Way(HALL, 6667, None)),
        ("wss://127.0.0.1:1", Way("wss://127.0.0.1:1", 1, None)),
        ("ws://localhost:1", Way("ws://localhost:1", 1, "localhost")),
        ("wss://hall.example/path", Way("wss://hall.example/path", 443, "hall.example")),
        ("ws://10.0.0.7:6667/x", Way("ws://127.0.0.1:6667/x", 6667, None)),
        ("ws://[::1]:6667", Way("ws://127.0.0.1:6667", 6667, None)),
    ],
)
def test_the_hall_is_at_its_own_port_of_the_loopback(hall: str, way: Way) -> None:
    assert way_to(hall) == way
    assert environment(recipe(hall))["AGENTCHAT_URL"] == way.url
    assert doors_of(recipe(hall)) == {way.port: "hall.sock"}


@pytest.mark.parametrize("hall", ["wss://10.0.0.7", "wss://[::1]:6667"])
def test_a_certificate_needs_a_name(hall: str) -> None:
    with pytest.raises(UsageError, match="write the hall's name in place of its IP address"):
        way_to(hall)


def test_a_name_leads_to_the_loopback() -> None:
    assert hosts_file(recipe()) == "127.0.0.1 localhost\n"
    assert hosts_file(recipe("ws://localhost")) == "127.0.0.1 localhost\n"
    assert hosts_file(recipe("wss://hall.example")) == "127.0.0.1 localhost\n127.0.0.1 hall.example\n"


def test_the_token_stays_on_the_host_if_a_proxy_can_add_it() -> None:
    token = Path("/home/me/token")
    told = environment(recipe(token=token, runtime="cli"))
    assert (told["ANTHROPIC_BASE_URL"], told["ANTHROPIC_API_KEY"]) == (
        "http://127.0.0.1:9999",
        "proxy-managed",
    )
    assert doors_of(recipe(token=token, runtime="api")) == {6667: "hall.sock", 9999: "model.sock"}
    assert secrets_of(recipe(token=token, runtime="cli")) == ["identity"]
    assert doors_of(recipe("ws://127.0.0.1:9999", token=token)) == {9999: "hall.sock", 9998: "model.sock"}


@pytest.mark.parametrize(("runtime", "model_proxy"), [("cli", False), ("openai", True), ("command", True)])
def test_without_a_proxy_the_token_is_a_secret_of_the_supervisor(runtime: str, model_proxy: bool) -> None:
    agent = recipe(token=Path("/home/me/token"), model_proxy=model_proxy, runtime=runtime)
    assert secrets_of(agent) == ["identity", "oauth-token"]
    assert environment(agent)["MOOTHALL_SECRETS"] == "identity oauth-token"
    assert "ANTHROPIC_BASE_URL" not in environment(agent)
    assert doors_of(agent) == {6667: "hall.sock"}
    assert secrets_of(recipe()) == ["identity"]


def test_each_agent_has_users_of_its_own_where_root_starts_it() -> None:
    words = create(recipe(), ROOT).arguments
    first = first_user("demo", "alice")
    assert options(words, "--uidmap") == options(words, "--gidmap") == [f"0:{first}:65536"]
    assert 0x70000000 <= first <= 0x80000000 - 65536
    assert len({first_user("demo", f"agent-{number}") for number in range(50)}) > 45
    assert options(create(recipe(), USER).arguments, "--userns") == ["keep-id:uid=1000,gid=1000"]


def test_values_of_variables_are_in_no_list_of_arguments_unless_podman_reads_them() -> None:
    variables = {"SERVICE": "hush", "PATH": "/mine", "CONTAINERS_CONF": "x", "http_proxy": "y"}
    words = create(recipe(environment=MappingProxyType(variables)), USER)
    assert "--env=SERVICE" in words.arguments
    assert words.variables["SERVICE"] == "hush"
    assert not any("hush" in word for word in words.arguments)
    assert {"--env=CONTAINERS_CONF=x", "--env=http_proxy=y", "--env=HOME=/home/agent"} <= set(words.arguments)
    assert not {"PATH", "HOME", "CONTAINERS_CONF", "http_proxy"} & set(words.variables)


def test_an_agent_does_not_get_the_folder_of_secrets_or_that_of_keys() -> None:
    sources = [mount.split(":")[0] for mount in options(create(recipe(), ROOT).arguments, "--volume")]
    root = "/home/me/.agentchat/crews/demo"
    assert sources == [
        *(f"{root}/agents/alice", f"{root}/workspaces/alice", f"{root}/run/alice", f"{root}/run/alice/hosts"),
        "/srv/demo",
    ]


def test_the_folder_of_the_crew_file_must_not_hold_secrets() -> None:
    agent = recipe(token=Path("/srv/demo/token"))
    with pytest.raises(UsageError, match="the token is in it"):
        create(agent, ROOT)
    agent = recipe()
    agent = replace(agent, crew=replace(agent.crew, file=Path("/home/me/crew.toml")))
    with pytest.raises(UsageError, match="move the crew file to a folder of its own"):
        create(agent, ROOT)


def test_a_folder_that_podman_cannot_mount() -> None:
    agent = recipe()
    with pytest.raises(UsageError, match="with a colon"):
        create(replace(agent, crew=replace(agent.crew, file=Path("/srv/a:b/crew.toml"))), ROOT)


def test_image_or_root() -> None:
    words = create(recipe(), ROOT).arguments
    agent = words.index("/usr/bin/python3")
    assert words[agent - 1] == "moothall-worker:latest"
    assert options(words, "--name") == [name_of("demo", "alice")] == ["agentchat-demo-alice"]
    other = recipe()
    words = create(replace(other, crew=replace(other.crew, rootfs=Path("/srv/root"))), ROOT).arguments
    assert words[words.index("/usr/bin/python3") - 2 :][:2] == ["--rootfs", "/srv/root"]
    assert words[-3:] == ["/usr/local/bin/agent-supervisor", "alice", "Say hello."]
