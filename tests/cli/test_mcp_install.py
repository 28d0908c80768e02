"""`moothall mcp install`: shows the difference, changes one entry of a file, and keeps a copy."""

import json
import stat
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from moothall import Identity, PrivateKey
from moothall.cli import _mcp_install
from moothall.cli.main import app
from moothall.hosts.install import difference
from moothall.hosts.jsonc import parse
from moothall.hosts.table import HOSTS
from moothall.identity import save


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("XDG_CONFIG_HOME", "CODEX_HOME", "APPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def install(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["mcp", "install", *arguments], prog_name="moothall")
    assert "Traceback" not in result.output
    return result


def complaint(*arguments: str) -> str:
    result = install(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.startswith("error: ")
    return result.stderr


def value_of(path: Path) -> dict[str, object]:
    text = path.read_text()
    if path.suffix == ".toml":
        return tomllib.loads(text)
    root, _ = parse(text)
    assert root is not None
    found: dict[str, object] = root.value
    return found


@pytest.mark.parametrize("name", HOSTS)
def test_each_host_gets_its_entry_once(name: str, home: Path) -> None:
    shown = install(name)
    assert shown.exit_code == 0
    assert "+" in shown.stdout
    assert "--write" in shown.stderr
    assert not list(home.rglob("*.json"))
    written = install(name, "--write")
    assert written.exit_code == 0
    assert written.stdout == shown.stdout
    (path,) = [path for path in home.rglob("*") if path.is_file()]
    (servers,) = value_of(path).values()
    assert isinstance(servers, dict)
    entry = servers["moothall"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-1] == "mcp"
    assert "env" not in entry
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = install(name, "--write")
    assert again.stdout == ""
    assert "nothing to change" in again.stderr


@pytest.mark.parametrize("name", [name for name, host in HOSTS.items() if host.project])
def test_the_file_of_a_project_names_no_path_of_one_machine(name: str) -> None:
    assert install(name, "--project", "--write").exit_code == 0
    project = HOSTS[name].project
    assert project is not None
    (servers,) = value_of(Path(project)).values()
    assert isinstance(servers, dict)
    assert (servers["moothall"]["command"], servers["moothall"]["args"]) == ("moothall", ["mcp"])


def test_what_else_is_in_the_file_stays(home: Path) -> None:
    path = home / ".config" / "zed" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text('// mine\n{\n  "theme": "dark", // yes\n  "context_servers": { "docs": {} },\n}\n')
    path.chmod(0o640)
    before = path.read_text()
    result = install("zed", "--write")
    assert "settings.json.before-moothall" in result.stderr
    removed = [line for line in result.stdout.splitlines() if line.startswith("-") and "---" not in line]
    assert removed == ['-  "context_servers": { "docs": {} },']
    assert value_of(path)["theme"] == "dark"
    assert path.read_text().startswith('// mine\n{\n  "theme": "dark", // yes\n')
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    copy = path.with_name("settings.json.before-moothall")
    assert copy.read_text() == before
    assert stat.S_IMODE(copy.stat().st_mode) == 0o640
    changed = path.read_text()
    assert install("zed", "--write", "-n", "ada").exit_code == 0
    assert path.with_name("settings.json.before-moothall.2").read_text() == changed
    assert copy.read_text() == before


def test_options_and_variables_are_written_and_contexts_are_not(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(Identity(PrivateKey(bytes(range(32)))), tmp_path / "work" / "key.json")
    monkeypatch.setenv("MOOTHALL_NAME", "ada")
    CliRunner().invoke(app, ["context", "add", "work", "-u", "ws://context", "-i", "key.json"])
    CliRunner().invoke(app, ["context", "use", "work"])
    assert install("cursor", "--write").exit_code == 0
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["moothall"]
    assert entry["env"] == {"MOOTHALL_NAME": "ada"}
    assert install("cursor", "--write", "-u", "hall.example.org", "-i", "key.json").exit_code == 0
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["moothall"]
    assert entry["env"] == {
        "MOOTHALL_NAME": "ada",
        "MOOTHALL_URL": "ws://hall.example.org:6667",
        "MOOTHALL_IDENTITY": str(tmp_path / "work" / "key.json"),
    }


@pytest.mark.parametrize("url", ["ws://ada:secret@hall.example.org", "ws://hall.example.org/?token=secret"])
def test_secrets_are_not_written(url: str, home: Path) -> None:
    refused = complaint("cursor", "--write", "-u", url)
    assert "secret" not in refused
    assert not list(home.iterdir())


def test_print_reads_and_writes_nothing(home: Path) -> None:
    (home / ".claude.json").write_text("broken")
    assert set(json.loads(install("claude-code", "--print").stdout)["mcpServers"]) == {"moothall"}
    assert set(tomllib.loads(install("codex", "--print").stdout)["mcp_servers"]) == {"moothall"}
    assert [path.name for path in home.iterdir()] == [".claude.json"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "not valid JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[]", "--print"),
        (b'{"mcpServers": 1}', "--print"),
    ],
)
def test_a_broken_file_is_left_alone(content: bytes, reason: str, home: Path) -> None:
    path = home / ".claude.json"
    path.write_bytes(content)
    assert reason in complaint("claude-code", "--write")
    assert path.read_bytes() == content
    assert [found.name for found in home.iterdir()] == [".claude.json"]


def test_a_folder_in_place_of_the_file(home: Path) -> None:
    (home / ".claude.json").mkdir()
    assert ".claude.json" in complaint("claude-code", "--write")


def test_a_link_stays_a_link(home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    (home / ".claude.json").symlink_to(real)
    assert install("claude-code", "--write").exit_code == 0
    assert (home / ".claude.json").is_symlink()
    assert "moothall" in real.read_text()


def test_a_file_that_changed_meanwhile_is_not_overwritten(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / ".claude.json"
    path.write_text("{}")

    def meanwhile(before: str, after: str, where: str) -> str:
        path.write_text('{"numStartups": 2}')
        return difference(before, after, where)

    monkeypatch.setattr(_mcp_install, "difference", meanwhile)
    result = install("claude-code", "--write")
    assert result.exit_code == 2
    assert "changed meanwhile" in result.stderr
    assert path.read_text() == '{"numStartups": 2}'


def test_escapes_in_a_file_do_not_reach_the_terminal(home: Path) -> None:
    (home / ".claude.json").write_text('{\n  "a": "\x7f\u009b2J"\n}')
    assert "\u009b" not in install("claude-code").stdout


def test_what_cannot_be_asked_for() -> None:
    assert "--project" in complaint("claude-desktop", "--project")
    assert "choose one" in complaint("zed", "--print", "--write")
    assert "choose one of claude-code" in complaint("emacs")
    assert "moothall identity new" in complaint("zed", "-i", "missing.json")


def test_a_missing_extra_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not installed" not in install("zed", "--write").stderr
    monkeypatch.setattr(_mcp_install, "find_spec", lambda name: None)
    assert "extra mcp" in install("cursor", "--write").stderr
