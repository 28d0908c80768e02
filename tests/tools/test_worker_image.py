"""What goes into the root of a worker's container besides packages of Debian. The root is tried in containers."""

import tarfile
import tomllib
from io import BytesIO
from pathlib import Path

import pytest

from tools import worker_image
from tools.worker_image import LIBRARIES, LOCK, MODEL_CLI, PROJECT, Failed, _add_ours, key, make_root


def ours(libraries: Path, model_cli: Path | None = None) -> dict[str, tarfile.TarInfo]:
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        _add_ours(archive, libraries, model_cli)
    content.seek(0)
    with tarfile.open(fileobj=content) as archive:
        return {member.name: member for member in archive}


def test_all_belongs_to_root_and_nothing_is_setuid_or_writable(tmp_path: Path) -> None:
    (tmp_path / "libraries" / "package").mkdir(parents=True)
    (tmp_path / "libraries" / "package" / "module.py").touch(0o666)
    (tmp_path / "claude").touch()
    (tmp_path / "claude").chmod(0o4777)
    members = ours(tmp_path / "libraries", tmp_path / "claude")
    assert members[f"{LIBRARIES}/package/module.py"].mode == 0o644
    assert members[MODEL_CLI].mode == 0o755
    assert {(member.uid, member.gid) for member in members.values()} == {(0, 0)}
    writable = {name for name, member in members.items() if member.mode & 0o6022}
    assert writable == {"tmp", "home/agent", "run/secrets"}  # a tmpfs each


def test_the_programs_of_an_agent_are_there_and_no_model(tmp_path: Path) -> None:
    members = ours(tmp_path)
    scripts = tomllib.loads(PROJECT.read_text())["project"]["scripts"]
    programs = {name.rpartition("/")[2] for name in members if name.startswith("usr/local/bin/")}
    assert programs == set(scripts) >= {"agent-supervisor", "agent-runner", "niki"}


def test_the_lock_has_what_all_runtimes_need_and_nothing_without_a_hash() -> None:
    lock = LOCK.read_text()
    packages = [line for line in lock.splitlines() if "==" in line]
    names = {line.partition("==")[0] for line in packages}
    assert {"mcp", "anthropic", "openai", "cryptography"} <= names
    assert all(line.endswith("\\") for line in packages)
    others = (LOCK.with_name("test.lock")).read_text()
    assert all(line in others for line in packages), "one version of a library everywhere: run make lock"


def test_another_lock_makes_another_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    other = tmp_path / "worker.lock"
    other.write_text(LOCK.read_text() + "\n")
    monkeypatch.setattr(worker_image, "LOCK", other)
    assert key() != before


def test_without_mmdebstrap_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failed, match="apt-get install mmdebstrap"):
        make_root(tmp_path / "root")
