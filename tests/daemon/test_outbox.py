"""The outbox file, and the way of its lines to an agent that is made up."""

import asyncio
import fcntl
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from moothall.daemon import lines
from moothall.daemon import outbox as module
from moothall.daemon.delivery import Confirmed, Delivery
from moothall.daemon.drafts import MAX_LINE, Draft
from moothall.daemon.folder import Folder
from moothall.daemon.outbox import OUTBOX, PROGRESS, REJECTED, SENT, Outbox, write
from moothall.daemon.outcomes import Outcome, find
from moothall.daemon.progress import NUL, Progress, ProgressFile, Seen, adjust
from moothall.errors import ChannelNotFound, ConnectionLost, NotConnected, RateLimited, Unanswered


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "instance")
    folder.make()
    return folder


class Hall:
    """What an agent would do in one."""

    def __init__(self) -> None:
        self.is_connected = True
        self.rooms = frozenset(["#general"])
        self.said: list[tuple[str, str]] = []
        self.joined: list[str] = []
        self.obstacle: Callable[[str], None] = lambda content: None

    async def join(self, channel: str) -> None:
        if channel == "#closed":
            raise ChannelNotFound("There is no channel #closed")
        self.joined.append(channel)
        self.rooms |= {channel}

    async def send(self, draft: Draft) -> Confirmed:
        self.obstacle(draft.content)
        self.said.append((draft.to, draft.content))
        return Confirmed(f"msg_{len(self.said)}", 1, True)

    @property
    def contents(self) -> list[str]:
        return [content for _, content in self.said]


class Killed(BaseException):
    """The process ends here."""


def put(folder: Folder, *contents: str, to: str = "#general") -> None:
    """As a shell script does it."""
    with (folder.path / OUTBOX).open("a") as file:
        file.writelines(json.dumps({"to": to, "content": content}) + "\n" for content in contents)


def told(folder: Folder, name: str) -> list[dict[str, Any]]:
    path = folder.path / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def deliver(folder: Folder, hall: Hall) -> None:
    await Delivery(hall, Outbox(folder)).deliver()


async def test_lines_are_sent_in_order_and_the_file_is_emptied(folder: Folder) -> None:
    hall = Hall()
    put(folder, "one", "two")
    put(folder, "three", to="#builds")
    inode = (folder.path / OUTBOX).stat().st_ino
    await deliver(folder, hall)
    assert hall.said == [("#general", "one"), ("#general", "two"), ("#builds", "three")]
    assert hall.joined == ["#builds"]
    assert (folder.path / OUTBOX).read_bytes() == b""
    assert (folder.path / OUTBOX).stat().st_ino == inode
    assert [line["msg_id"] for line in told(folder, SENT)] == ["msg_1", "msg_2", "msg_3"]
    await deliver(folder, hall)
    assert len(hall.said) == 3


async def test_a_half_written_line_waits(folder: Folder) -> None:
    hall = Hall()
    put(folder, "one")
    with (folder.path / OUTBOX).open("a") as file:
        file.write('{"to": "#general", ')
        file.flush()
        await deliver(folder, hall)
        assert hall.contents == ["one"]
        file.write('"content": "two"}\n\n \n')
    await deliver(folder, hall)
    assert hall.contents == ["one", "two"]
    assert (folder.path / OUTBOX).read_bytes() == b""


async def test_a_bad_line_is_told_and_the_rest_goes_on(folder: Folder) -> None:
    hall = Hall()
    (folder.path / OUTBOX).write_bytes(b"rubbish \xff\n" + b"x" * (MAX_LINE + 1) + b"\n")
    put(folder, "fine")
    put(folder, "nowhere", to="#closed")
    await deliver(folder, hall)
    assert hall.contents == ["fine"]
    rejected = told(folder, REJECTED)
    assert [line["status"] for line in rejected] == ["unreadable", "unreadable", "refused"]
    assert "UTF-8" in rejected[0]["reason"]
    assert f"{MAX_LINE + 2:,} bytes" in rejected[1]["reason"]
    assert len(rejected[1]["line"]) == 1000
    assert rejected[2]["reason"] == "CHANNEL_NOT_FOUND: There is no channel #closed"
    assert json.loads(rejected[2]["line"])["content"] == "nowhere"
    assert (folder.path / OUTBOX).read_bytes() == b""


@pytest.mark.parametrize("error", [RateLimited("slow down"), NotConnected("no connection")])
async def test_what_was_surely_not_sent_is_tried_again(folder: Folder, error: Exception) -> None:
    hall = Hall()
    put(folder, "one", "two")

    def refuse(content: str) -> None:
        raise error

    hall.obstacle = refuse
    await deliver(folder, hall)
    assert hall.said == []
    hall.obstacle = lambda content: None
    await deliver(folder, hall)
    assert hall.contents == ["one", "two"]
    assert told(folder, REJECTED) == []


@pytest.mark.parametrize("error", [ConnectionLost("it was lost"), Unanswered("no answer within 60 s")])
async def test_what_may_have_been_sent_is_told_and_not_sent_again(folder: Folder, error: Exception) -> None:
    hall = Hall()
    put(folder, "one", "two")

    def lose(content: str) -> None:
        if content == "one":
            raise error

    hall.obstacle = lose
    await deliver(folder, hall)
    assert hall.contents == ["two"]
    [doubtful] = told(folder, REJECTED)
    assert doubtful["status"] == "unknown"
    assert str(error) in doubtful["reason"]


async def test_nothing_is_sent_without_a_connection(folder: Folder) -> None:
    hall = Hall()
    hall.is_connected = False
    put(folder, "one")
    await deliver(folder, hall)
    assert hall.said == []
    assert Outbox(folder).waiting() == 1


async def test_stopping_ends_after_the_line_on_its_way(folder: Folder) -> None:
    hall = Hall()
    put(folder, "one", "two")
    delivery = Delivery(hall, Outbox(folder))
    hall.obstacle = lambda content: delivery.stop()
    async with asyncio.timeout(15):
        await delivery.run()
    assert hall.contents == ["one"]
    assert Outbox(folder).waiting() == 1


async def test_a_full_disk_sends_nothing_twice(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall()
    put(folder, "one", "two")
    outbox = Outbox(folder)
    with monkeypatch.context() as patch:
        patch.setattr(lines, "append", _no_space)
        with pytest.raises(OSError, match="No space"):
            await Delivery(hall, outbox).deliver()
    assert hall.contents == ["one"]
    await Delivery(hall, outbox).deliver()
    assert hall.contents == ["one", "two"]
    assert [line["status"] for line in told(folder, REJECTED)] == ["unknown"]


def _no_space(descriptor: int, added: bytes) -> None:
    raise OSError(28, "No space left on device")


# -- other programs ---------------------------------------------------------------------------------------


async def test_the_file_is_not_emptied_while_another_program_has_it_open(folder: Folder) -> None:
    hall = Hall()
    put(folder, "one")
    with (folder.path / OUTBOX).open("a") as file:
        await deliver(folder, hall)
        assert (folder.path / OUTBOX).stat().st_size > 0
        file.write('{"to": "#general", "content": "two"}\n')
    await deliver(folder, hall)
    assert hall.contents == ["one", "two"]
    assert (folder.path / OUTBOX).stat().st_size == 0


@pytest.mark.parametrize("how", ["emptied", "replaced", "removed"])
async def test_a_file_that_others_begin_anew(folder: Folder, how: str) -> None:
    hall = Hall()
    path = folder.path / OUTBOX
    put(folder, "one", "two")
    with path.open():  # it cannot be emptied
        await deliver(folder, hall)
        if how == "emptied":
            os.truncate(path, 0)
        elif how == "replaced":
            path.with_name("new").write_text("")
            path.with_name("new").replace(path)
        else:
            path.unlink()
        put(folder, "three", "four", "five", "six")
        await deliver(folder, hall)
    assert hall.contents == ["one", "two", "three", "four", "five", "six"]


async def test_without_leases_a_quiet_file_is_emptied(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = Hall()
    monkeypatch.delattr(fcntl, "F_SETLEASE")
    put(folder, "one")
    await deliver(folder, hall)
    assert (folder.path / OUTBOX).stat().st_size > 0
    os.utime(folder.path / OUTBOX, (0, 0))
    await deliver(folder, hall)
    assert (folder.path / OUTBOX).stat().st_size == 0
    assert hall.contents == ["one"]


async def test_our_writer_goes_below_a_torn_line(folder: Folder) -> None:
    hall = Hall()
    (folder.path / OUTBOX).write_text('{"to": "#gen')
    write(folder, Draft("#general", "mine", None, "7"))
    assert find(folder, "7") is None
    await deliver(folder, hall)
    assert hall.contents == ["mine"]
    assert find(folder, "7") == Outcome("sent", "msg_1", recipients=1, delivered=True)
    assert len(told(folder, REJECTED)) == 1
    write(folder, Draft("#closed", "mine", None, "8"))
    await deliver(folder, hall)
    found = find(folder, "8")
    assert found is not None
    assert found.status == "refused"


async def test_what_is_told_does_not_grow_for_ever(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOLD", 300)
    hall = Hall()
    put(folder, *map(str, range(20)))
    await deliver(folder, hall)
    assert (folder.path / SENT).stat().st_size < 500
    assert (folder.path / f"{SENT}.1").stat().st_size < 500


async def test_a_long_line_is_found_when_its_file_was_renamed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TOLD", 300)
    write(folder, Draft("#closed", "x" * 400, None, "long"))
    write(folder, Draft("#closed", "x", None, "short"))
    await deliver(folder, Hall())
    for own_id in ("long", "short"):
        found = find(folder, own_id)
        assert found is not None
        assert found.status == "refused"


@pytest.mark.parametrize(
    "content", [b"", b"x", b"[]", b'{"offset": -1}', b'{"offset": "x"}', b"[" * 9999, b"\xff"]
)
async def test_a_damaged_progress_file_begins_anew(folder: Folder, content: bytes) -> None:
    (folder.path / PROGRESS).write_bytes(content)
    hall = Hall()
    put(folder, "one")
    await deliver(folder, hall)
    assert hall.contents == ["one"]


# -- a kill at every step ---------------------------------------------------------------------------------


class Steps:
    """Ends the process at the n-th thing it does to a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int) -> None:
        self.left = last
        for owner, name in (
            (ProgressFile, "write"),
            (lines, "append"),
            (os, "pwrite"),
            (os, "ftruncate"),
        ):
            self._count(monkeypatch, owner, name)

    def _count(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counted(*arguments: Any) -> Any:
            if self.left == 0:
                raise Killed
            self.left -= 1
            return original(*arguments)

        monkeypatch.setattr(owner, name, counted)


@pytest.mark.parametrize("last", range(16))
@pytest.mark.parametrize("is_sent", [True, False], ids=["after the hall got it", "before"])
async def test_killed_at_any_step_no_line_is_lost_or_sent_twice(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, last: int, is_sent: bool
) -> None:
    hall = Hall()
    put(folder, "a", "b")
    with monkeypatch.context() as patch:
        steps = Steps(patch, last)

        def maybe_die(content: str) -> None:
            if steps.left == 0 and not is_sent:
                raise Killed

        hall.obstacle = maybe_die
        with suppress(Killed):
            await deliver(folder, hall)
    hall.obstacle = lambda content: None
    put(folder, "a", "b", "c")  # the same lines again: they must not pass for those that were read
    for _ in range(2):
        await deliver(folder, hall)
    doubtful = [json.loads(line["line"])["content"] for line in told(folder, REJECTED)]
    assert len(doubtful) <= 1
    assert all(line["status"] == "unknown" for line in told(folder, REJECTED))
    assert len(told(folder, SENT)) + len(doubtful) == 5  # each line is told once
    for content, times in (("a", 2), ("b", 2), ("c", 1)):
        assert hall.contents.count(content) <= times
        assert hall.contents.count(content) + doubtful.count(content) >= times
    assert (folder.path / OUTBOX).stat().st_size == 0


# -- where to read on -------------------------------------------------------------------------------------


@given(
    st.builds(Progress, st.integers(1, 2), st.integers(0, 9), st.integers(0, 9), st.just("x"), st.just(5)),
    st.builds(Seen, st.integers(1, 2), st.integers(0, 9), st.sampled_from([b"", b"{", NUL]), st.booleans()),
    st.booleans(),
)
def test_the_place_is_kept_only_in_the_same_file(progress: Progress, seen: Seen, emptying: bool) -> None:
    progress = replace(progress, emptying=emptying)
    found = adjust(progress, seen)
    assert found.serial == progress.serial
    assert found.offset in (0, progress.offset)
    assert found.offset <= seen.size or not seen.size
    if progress.inode != seen.inode or (emptying and seen.first != NUL):
        assert found.offset == 0
