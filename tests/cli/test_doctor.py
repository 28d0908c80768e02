import errno
import json
import os
import resource
import socket
import stat
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from moothall import __version__
from moothall.cli import _local_checks, _remote_checks
from moothall.cli._findings import Finding, Level
from moothall.cli.health import Report
from moothall.cli.main import app
from moothall.compiled import build
from moothall.identity import PrivateKey, save
from moothall.identity.keyfile import Identity
from moothall.settings import Settings
from tests.gateways.test_tls import write_certificate, write_key
from tests.support.server import HallProcess, environment, running_hall

ALICE = PrivateKey(bytes(range(32)))
SECRET = "correct-horse-battery-staple"
NOW = 1_767_323_045.678


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--name", "townhall") as hall:
        yield hall


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory and a working directory with nothing in them, and an empty environment."""
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir(mode=0o700)
    folder.mkdir()
    monkeypatch.chdir(folder)
    wanted = environment(HOME=str(home))
    for variable in list(os.environ):
        monkeypatch.delenv(variable)
    for variable, value in wanted.items():
        monkeypatch.setenv(variable, value)
    return home


def doctor(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert "Traceback" not in result.output
    assert SECRET not in result.output
    return result


def levels(result: Result) -> dict[str, str]:
    return {check["check"]: check["level"] for check in json.loads(result.stdout)["checks"]}


def only(findings: list[Finding]) -> Finding:
    [finding] = findings
    return finding


# all of it


def test_a_sound_set_up_is_all_ok(home: Path, hall: HallProcess) -> None:
    save(Identity(ALICE), home / ".agentchat" / "identity.json")
    result = doctor(hall.url, "--json")
    assert result.exit_code == 0, result.output
    assert levels(result) | {"port": "ok", "keep port": "ok", "open files": "ok"} == {
        "python": "ok",
        "moothall": "ok",
        "settings": "ok",
        "commands use": "ok",
        "port": "ok",
        "keep port": "ok",
        "mesh port": "ok",
        "hall": "ok",
        "websocket": "ok",
        "clock": "ok",
        "key file": "ok",
        "environment": "ok",
        "secret files": "ok",
        "data folder": "ok",
        "open files": "ok",
        "containers": "ok",
    }


def test_each_check_is_one_line_for_people(home: Path, hall: HallProcess) -> None:
    lines = doctor(hall.url).stdout.splitlines()
    assert len(lines) == 16
    assert all(line.split()[0] in ("ok", "warn", "fail") for line in lines)


def test_a_fault_is_exit_code_1_and_comes_with_a_remedy(home: Path, hall: HallProcess) -> None:
    path = home / ".agentchat" / "identity.json"
    save(Identity(ALICE), path)
    path.chmod(0o644)
    result = doctor(hall.url)
    assert result.exit_code == 1
    [line] = [line for line in result.stdout.splitlines() if line.startswith("fail")]
    assert f"chmod 600 {path}" in line


def test_that_no_hall_runs_is_no_fault_unless_one_was_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setattr("moothall.cli._addresses.DEFAULT_URL", f"ws://127.0.0.1:{unused_tcp_port}")
    result = doctor("--json")
    assert result.exit_code == 0
    assert levels(result)["hall"] == "warn"
    for named in (doctor("--json", "ws://127.0.0.1:1"), doctor("--json", "ftp://x")):
        assert named.exit_code == 1
        assert levels(named)["hall"] == "fail"


# settings


def test_settings_that_no_hall_starts_with(home: Path) -> None:
    settings, findings = _local_checks.settings({"MOOTHALL_PORT": "many"})
    assert settings == Settings()
    assert only(findings).level is Level.FAIL
    assert "MOOTHALL_PORT" in only(findings).found


def test_a_variable_that_is_no_setting(home: Path) -> None:
    _, findings = _local_checks.settings({"MOOTHALL_PROT": "6667"})
    assert only(findings).level is Level.WARN
    assert "MOOTHALL_PROT" in only(findings).found


# the port


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_a_free_port(unused_tcp_port: int) -> None:
    finding = _remote_checks.own_port(Settings(port=unused_tcp_port), 1.0)
    assert finding.level is Level.OK
    assert "free" in finding.found


def test_a_port_that_is_a_hall(hall: HallProcess) -> None:
    finding = _remote_checks.own_port(Settings(port=hall.port), 5.0)
    assert finding.level is Level.OK
    assert "townhall" in finding.found


def test_a_port_that_is_a_hall_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    write_certificate(cert, write_key(key))
    with running_hall(tmp_path, "--cert", str(cert), "--key", str(key), "--name", "townhall") as hall:
        finding = _remote_checks.own_port(Settings(port=hall.port, cert=cert, key=key), 5.0)
    assert (finding.level, finding.found) == (Level.OK, f"127.0.0.1:{hall.port} is a hall already: townhall")


def test_a_port_that_is_something_else(listener: socket.socket) -> None:
    finding = _remote_checks.own_port(Settings(port=listener.getsockname()[1]), 0.05)
    assert finding.level is Level.WARN
    assert "--port" in finding.advice


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_another_machine(host: str, unused_tcp_port: int) -> None:
    finding = _remote_checks.own_port(Settings(host=host, port=unused_tcp_port), 1.0)
    assert finding.level is Level.FAIL
    assert os.strerror(errno.EADDRNOTAVAIL) in finding.found


def test_a_free_keep_port(unused_tcp_port: int) -> None:
    finding = _remote_checks.own_keep_port(Settings(keep_port=unused_tcp_port), 1.0)
    assert finding.level is Level.OK
    assert f"127.0.0.1:{unused_tcp_port} is free" in finding.found


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104  # asked, not bound
def test_a_keep_port_that_is_a_hall(hall: HallProcess, host: str) -> None:
    finding = _remote_checks.own_keep_port(Settings(keep_host=host, keep_port=hall.keep_port), 5.0)
    assert finding.level is Level.OK
    assert __version__ in finding.found


def test_a_keep_port_that_is_something_else(listener: socket.socket) -> None:
    finding = _remote_checks.own_keep_port(Settings(keep_port=listener.getsockname()[1]), 0.05)
    assert finding.level is Level.WARN
    assert "--keep-port" in finding.advice


def test_a_keep_port_of_another_machine(unused_tcp_port: int) -> None:
    settings = Settings(keep_host="192.0.2.1", keep_port=unused_tcp_port)
    assert _remote_checks.own_keep_port(settings, 1.0).level is Level.FAIL


def test_both_wires_on_one_port(unused_tcp_port: int) -> None:
    settings = Settings(port=unused_tcp_port, keep_port=unused_tcp_port)
    assert _remote_checks.own_keep_port(settings, 1.0).level is Level.FAIL


def test_a_mesh_port_that_is_free_taken_wrong_or_closed(
    listener: socket.socket, unused_tcp_port: int
) -> None:
    check, taken = _remote_checks.own_mesh_port, listener.getsockname()[1]
    peer = "/ip4/192.0.2.1/tcp/9000"
    for settings, level, told in (
        (Settings(), Level.OK, "none: peers cannot dial"),
        (Settings(mesh_peers=(peer,)), Level.OK, "none: peers cannot dial; 1 peers are dialled"),
        (Settings(mesh_port=unused_tcp_port), Level.OK, f"127.0.0.1:{unused_tcp_port} is free"),
        (Settings(mesh_port=taken), Level.OK, f"127.0.0.1:{taken} is taken, perhaps by a hall"),
        (Settings(mesh_port=9, port=9), Level.FAIL, "127.0.0.1:9 is the hall's own port"),
        (Settings(mesh_port=9000, host="192.0.2.1"), Level.FAIL, "192.0.2.1:9000: "),
    ):
        finding = check(settings)
        assert finding.level is level
        assert finding.found.startswith(told)


def test_peers_of_a_hall_that_cannot_be_reached() -> None:
    def found(**fields: object) -> list[tuple[Level, str]]:
        report = Report({"status": "healthy", **fields}, 0.0, 0.0)
        return [(finding.level, finding.found) for finding in _remote_checks.peers(report)]

    assert found() == []
    assert found(mesh_network=None) == []
    assert found(mesh_network={"peers": 2, "unreachable": 0}) == [(Level.OK, "2 connected")]
    assert found(mesh_network={"peers": 1, "unreachable": 3}) == [
        (Level.WARN, "1 connected, 3 of those configured cannot be reached")
    ]


def test_a_keep_port_that_nobody_needs(listener: socket.socket) -> None:
    settings = Settings(keep=False, keep_port=listener.getsockname()[1])
    assert _remote_checks.own_keep_port(settings, 1.0).level is Level.OK


# the clock


def told(hall_time: float, *, round_trip: float = 0.1) -> Report:
    stamp = datetime.fromtimestamp(hall_time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Report({"status": "healthy", "timestamp": stamp}, NOW - round_trip / 2, NOW + round_trip / 2)


@pytest.mark.parametrize(
    ("off", "level"),
    [
        (0, Level.OK),
        (1.9, Level.OK),
        (-30, Level.WARN),
        (599, Level.WARN),
        (601, Level.FAIL),
        (-3600, Level.FAIL),
    ],
)
def test_clocks_that_differ(off: float, level: Level) -> None:
    finding = _remote_checks.clock(told(NOW + off))
    assert finding.level is level
    if level is not Level.OK:
        assert ("behind" in finding.found) == (off > 0)


def test_a_slow_answer_is_no_proof_of_a_wrong_clock() -> None:
    assert _remote_checks.clock(told(NOW + 5, round_trip=10)).level is Level.OK


@given(st.none() | st.text() | st.integers())
def test_a_hall_that_tells_no_time(stamp: object) -> None:
    finding = _remote_checks.clock(Report({"timestamp": stamp}, NOW, NOW))
    assert finding.level in (Level.WARN, Level.FAIL)


def test_no_proxy_comes_between_this_machine_and_itself(
    hall: HallProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert _remote_checks.upgrade(hall.url, 5.0).level is Level.OK
    assert "townhall" in _remote_checks.own_port(Settings(port=hall.port), 5.0).found


def test_a_hall_that_takes_no_websockets(listener: socket.socket) -> None:
    url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
    finding = _remote_checks.upgrade(url, 0.05)
    assert finding.level is Level.FAIL
    assert "proxy" in finding.advice


# key files


def test_no_key_file_is_fine(home: Path) -> None:
    assert only(_local_checks.key_files(home)).level is Level.OK


def test_every_key_file_is_looked_at(home: Path) -> None:
    folder = home / ".agentchat"
    paths = [
        folder / "identity.json",
        folder / "identity.json.0123456789abcdef.old",
        folder / "identities" / "bob.json",
        home / "elsewhere.json",
    ]
    for path in paths:
        save(Identity(ALICE), path)
    findings = _local_checks.key_files(home, paths[-1])
    assert [finding.level for finding in findings] == [Level.OK] * 4
    assert all(ALICE.public.agent_id() in finding.found for finding in findings)
    for path in paths:
        path.chmod(0o640)
    for path, finding in zip(paths, _local_checks.key_files(home, paths[-1]), strict=True):
        assert finding.level is Level.FAIL
        assert f"chmod 600 {path}" in finding.found


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"privateKey": "x"}'])
def test_a_key_file_that_is_none(home: Path, content: str) -> None:
    path = home / "key.json"
    path.write_text(content)
    path.chmod(0o600)
    assert only(_local_checks.key_files(home, path)).level is Level.FAIL


def test_a_named_key_file_that_is_not_there(home: Path) -> None:
    finding = only(_local_checks.key_files(home, home / "typo.json"))
    assert finding.level is Level.FAIL
    assert "moothall identity new" in finding.found
    assert "typo.json" in finding.found


def test_a_folder_in_which_others_can_replace_the_key(home: Path) -> None:
    path = home / ".agentchat" / "identity.json"
    save(Identity(ALICE), path)
    path.parent.chmod(0o777)
    finding = only(_local_checks.key_files(home))
    assert finding.level is Level.FAIL
    assert f"chmod go-w {path.parent}" in finding.advice


# secrets


def test_secrets_in_the_environment_are_named_and_not_shown() -> None:
    finding = only(
        _local_checks.environment_secrets(
            {"OPENAI_API_KEY": SECRET, "NOTES": "sk-ant-" + "a" * 40, "EDITOR": "vi", "EMPTY_TOKEN": ""}
        )
    )
    assert finding.level is Level.WARN
    assert "NOTES, OPENAI_API_KEY" in finding.found
    assert SECRET not in str(finding)
    assert "sk-ant" not in str(finding)


@pytest.mark.parametrize("name", ["MOOTHALL_ADMIN_KEY", "AGENTCHAT_ADMIN_KEY", "MOOTHALL_ACCESS_KEY"])
def test_the_admin_key_belongs_into_a_file(name: str) -> None:
    finding = only(_local_checks.environment_secrets({name: SECRET}))
    assert "MOOTHALL_ADMIN_KEY_FILE" in finding.advice
    assert SECRET not in str(finding)


def test_an_environment_without_secrets() -> None:
    assert only(_local_checks.environment_secrets({"EDITOR": "vi"})).level is Level.OK


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("moothall.toml", f'admin-key = "{SECRET}"\n'),
        ("moothall.toml", f'port = 7000\naccess_key = "{SECRET}"\n'),
        (".env", f"# keys\nexport MOOTHALL_ADMIN_KEY='{SECRET}'\n"),
        (".env", f"EDITOR=vi\nOPENAI_API_KEY={SECRET}\n"),
    ],
)
def test_files_with_secrets_are_closed_to_others(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    for mode, level in ((0o644, Level.FAIL), (0o640, Level.FAIL), (0o600, Level.OK)):
        path.chmod(mode)
        finding = only(_local_checks.secret_files(tmp_path))
        assert finding.level is level
        assert SECRET not in str(finding)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("moothall.toml", b"port = 7000"),
        ("moothall.toml", b"not [toml"),
        (".env", b"# X_KEY=12345678\n\xff="),
    ],
)
def test_files_without_secrets_may_be_open(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    path.chmod(0o644)
    assert only(_local_checks.secret_files(tmp_path)).level is Level.OK


# the machine


def test_the_data_folder(tmp_path: Path) -> None:
    assert only(_local_checks.data_directory(tmp_path)).level is Level.OK
    assert "will be made" in only(_local_checks.data_directory(tmp_path / "a" / "b")).found
    file = tmp_path / "file"
    file.touch()
    assert only(_local_checks.data_directory(file)).level is Level.FAIL


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert only(_local_checks.data_directory(tmp_path)).level is Level.FAIL
    assert only(_local_checks.data_directory(tmp_path / "new")).level is Level.WARN


@pytest.mark.parametrize(
    ("limits", "level"),
    [
        ((1024, 2048), Level.WARN),
        ((1024, 4096), Level.OK),
        ((256, resource.RLIM_INFINITY), Level.OK),
        ((20_000, 20_000), Level.OK),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), Level.OK),
    ],
)
def test_open_files(limits: tuple[int, int], level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits)
    finding = only(_local_checks.open_files())
    assert finding.level is level
    assert ("LimitNOFILE" in finding.advice) == (level is Level.WARN)


def test_extras_that_are_missing_come_with_the_command_to_install_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_local_checks, "find_spec", lambda module: None)
    _, moothall = _local_checks.versions()
    assert moothall.level is Level.OK
    assert f"without {', '.join(_local_checks.EXTRAS)}" in moothall.found

    assert f"pip install 'moothall[{','.join(_local_checks.EXTRAS)}]'" in moothall.found


def test_which_build_runs() -> None:
    _, moothall = _local_checks.versions()
    assert moothall.found.startswith(f"{__version__} ({build()})")


def test_the_extras_of_the_package_are_those_that_are_checked() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert {*project["optional-dependencies"]} - {"test"} == {*_local_checks.EXTRAS}
