"""Settings of the bus: what they need beside them, and where a password may be."""

from pathlib import Path

import pytest

from moothall.errors import SettingsError
from moothall.settings.sources import load

STORE = {"MOOTHALL_STORE": "postgresql://db/hall"}
BUS = {**STORE, "MOOTHALL_BUS": "nats://one:4222, tls://two"}


def refusal(**environment: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(environment=environment)
    return str(caught.value)


def test_several_servers() -> None:
    assert load(environment=BUS).settings.bus == ("nats://one:4222", "tls://two")
    assert load(environment=STORE).settings.bus == ()


def test_a_bus_without_postgresql_is_refused_with_both_ways_out() -> None:
    for flags, origin in (({"bus": "nats://one"}, "flag"), ({}, "MOOTHALL_BUS")):
        environment = {} if flags else {"MOOTHALL_BUS": "nats://one"}
        with pytest.raises(SettingsError, match=f"bus from {origin}: ") as caught:
            load(flags, environment)
        assert "--store postgresql://" in str(caught.value)
        assert "--nodes" in str(caught.value)


def test_a_password_in_a_url_comes_from_the_environment_only(tmp_path: Path) -> None:
    url = "nats://hall:secret@one:4222"
    assert load(environment={**STORE, "MOOTHALL_BUS": url}).settings.bus == (url,)
    config = tmp_path / "moothall.toml"
    config.write_text(f"bus = ['nats://two', '{url}']")
    for flags, file in (({"bus": url}, None), ({"bus": "nats://token@one"}, None), ({}, config)):
        with pytest.raises(SettingsError, match="other users may read the password") as caught:
            load(flags, STORE, file)
        assert "secret" not in str(caught.value).replace("bus_password", "")


def test_a_password_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("the password\n")
    path.chmod(0o600)
    files = {"MOOTHALL_BUS_PASSWORD_FILE": str(path)}
    settings = load(environment={**BUS, **files, "MOOTHALL_BUS_USER": "hall"}).settings
    assert (settings.bus_user, settings.bus_password) == ("hall", "the password")
    assert "the password" not in repr(settings)
    path.chmod(0o644)
    assert "can be read by others" in refusal(**BUS, **files)


def test_what_is_missing_or_too_much() -> None:
    assert "needs a password" in refusal(**BUS, MOOTHALL_BUS_USER="hall")
    assert "bus_password and bus_nkey are set" in refusal(
        **BUS, MOOTHALL_BUS_PASSWORD="secret", MOOTHALL_BUS_NKEY="file"
    )
    assert "both bus_cert and bus_key" in refusal(**BUS, MOOTHALL_BUS_CERT="node.pem")
    assert "is not between 0 and 5" in refusal(**BUS, MOOTHALL_BUS_REPLICAS="6")


@pytest.mark.parametrize("name", ["a.b", "a b", "*", "ü", "x" * 65])
def test_a_node_name_is_one_word(name: str) -> None:
    assert "node_name from MOOTHALL_NODE_NAME" in refusal(MOOTHALL_NODE_NAME=name)
    assert load(environment={"MOOTHALL_NODE_NAME": "hall-1"}).settings.node_name == "hall-1"
