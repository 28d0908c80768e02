"""The folders of a crew, and sockets in folders with long names."""

import os
import stat
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker.crew import sockets
from moothall.worker.crew.places import Places, places_of


def test_a_crew_is_below_the_users_home_or_where_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert places_of("demo", {}).root == Path("/home/me/.agentchat/crews/demo")
    places = places_of("demo", {"MOOTHALL_CREWS": "/crews"})
    assert (places.root, places.record) == (Path("/crews/demo"), Path("/crews/demo/crew.json"))
    member = places.member("planner")
    assert [str(path.relative_to(places.root)) for path in (*member.folders, member.identity)] == [
        "agents/planner",
        "workspaces/planner",
        "secrets/planner",
        "run/planner",
        "identities/planner.json",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root can give files to another user")
def test_what_an_agent_may_write_is_given_to_another_user_without_following_links(tmp_path: Path) -> None:
    member = Places(tmp_path).member("one")
    member.make()
    outside = tmp_path / "outside"
    outside.mkdir()
    (member.workspace / "file").touch()
    (member.workspace / "link").symlink_to(outside)
    member.give_to(12345)
    owned = [member.state, member.workspace, member.workspace / "file", member.workspace / "link"]
    assert {path.lstat().st_uid for path in owned} == {12345}
    assert {path.stat().st_uid for path in (outside, member.secrets, member.run)} == {0}
    member.give_to(0)
    assert {path.lstat().st_uid for path in owned} == {0}


def test_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    places = places_of("demo", {"MOOTHALL_CREWS": str(tmp_path)})
    for _ in range(2):  # the second time all are there
        places.make()
        places.member("planner").make()
    made = [path for path in places.root.rglob("*") if path.is_dir()] + [places.root]
    assert len(made) == 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


def test_a_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    places = places_of("demo", {"MOOTHALL_CREWS": str(tmp_path)})
    places.root.mkdir()
    places.root.chmod(0o777)
    with pytest.raises(UsageError, match="can be changed by other users"):
        places.make()


def test_a_socket_in_a_folder_with_a_long_name(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    path = folder / "hall.sock"
    sockets.listen(path).close()  # its file stays, as after a kill
    with sockets.listen(path) as listening, sockets.connect(path) as connection:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        accepted, _ = listening.accept()
        with accepted:
            connection.sendall(b"hello")
            assert accepted.recv(10) == b"hello"
    with pytest.raises(ConnectionRefusedError):
        sockets.connect(path)
