"""The inbox file: several writers and readers, cuts, kills, and files of other programs."""

import asyncio
import json
import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moothall.daemon import inbox as module
from moothall.daemon.cursor import START, Cursor, CursorFile
from moothall.daemon.cuts import CUTS
from moothall.daemon.folder import Folder, instance_name
from moothall.daemon.inbox import INBOX, NEW_DATA, Inbox
from moothall.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "instance")
    folder.make()
    return folder


def message(number: int) -> dict[str, Any]:
    return {"type": "MSG", "from": "@aa", "to": "#general", "content": f"line {number}", "ts": number}


def fill(inbox: Inbox, count: int, start: int = 0) -> None:
    inbox.append([message(number) for number in range(start, start + count)])


def numbers(records: tuple[module.Record, ...]) -> list[int]:
    return [record.fields["ts"] for record in records]


def read_all(inbox: Inbox, cursor: Cursor) -> tuple[list[int], Cursor, int | None]:
    found: list[int] = []
    missed: int | None = 0
    while True:
        page = inbox.read(cursor)
        missed = None if page.missed is None or missed is None else missed + page.missed
        found += numbers(page.records)
        cursor = page.cursor
        if not page.remaining:
            return found, cursor, missed


def test_reads_what_was_appended(folder: Folder) -> None:
    inbox = Inbox(folder)
    assert inbox.read(START) == ((), START, 0, 0, 0)
    fill(inbox, 3)
    page = inbox.read(START)
    assert [record.fields for record in page.records] == [message(number) for number in range(3)]
    assert page.remaining == page.missed == page.damaged == 0
    assert inbox.read(page.cursor).records == ()
    fill(inbox, 2, 3)
    assert numbers(inbox.read(page.cursor).records) == [3, 4]


def test_a_record_tells_where_to_read_on(folder: Folder) -> None:
    inbox = Inbox(folder)
    fill(inbox, 5)
    second = inbox.read(START).records[1]
    assert numbers(inbox.read(second.after).records) == [2, 3, 4]
    assert numbers(inbox.read(inbox.tail(3).records[0].after).records) == [3, 4]


def test_files_are_private_and_newdata_has_the_clock(folder: Folder) -> None:
    inbox = Inbox(folder, limit=2)
    (folder.path / INBOX).write_text("")
    (folder.path / INBOX).chmod(0o644)
    fill(inbox, 5)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    for path in folder.path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert int((folder.path / NEW_DATA).read_text()) > 1_600_000_000_000


def test_a_folder_that_others_can_change_is_refused(folder: Folder) -> None:
    folder.path.chmod(0o770)
    with pytest.raises(UsageError, match="chmod 700"):
        folder.make()


def test_a_link_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    (folder.path / INBOX).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        fill(Inbox(folder), 1)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("given_name", "reduced"), [("default", "default"), ("../a b/c", "abc"), ("x" * 64, "x" * 64)]
)
def test_instance_names_are_reduced(given_name: str, reduced: str) -> None:
    assert instance_name(given_name) == reduced


@pytest.mark.parametrize("bad", ["", "../..", "x" * 65])
def test_bad_instance_names_are_refused(bad: str) -> None:
    with pytest.raises(UsageError):
        instance_name(bad)


# -- the size ---------------------------------------------------------------------------------------------


def test_keeps_the_newest_lines(folder: Folder) -> None:
    inbox = Inbox(folder)
    fill(inbox, 999)
    for number in range(999, 1005):
        fill(inbox, 1, number)
    kept = (folder.path / INBOX).read_text().splitlines()
    assert [json.loads(line)["ts"] for line in kept] == list(range(5, 1005))


def test_a_cursor_survives_cuts_and_restarts(folder: Folder) -> None:
    fill(Inbox(folder, limit=10), 10)
    cursor = Inbox(folder).read(START, max_records=8).cursor
    fill(Inbox(folder, limit=10), 7, 10)
    page = Inbox(folder).read(Cursor.parse(str(cursor)))
    assert page.missed == 0
    assert numbers(page.records) == list(range(8, 17))


def test_a_gap_is_told_as_a_number(folder: Folder) -> None:
    inbox = Inbox(folder, limit=10)
    fill(inbox, 5)
    cursor = inbox.read(START).cursor
    for number in range(5, 30):
        fill(inbox, 1, number)
    page = inbox.read(cursor)
    assert page.missed == 15
    assert numbers(page.records) == list(range(20, 30))
    assert inbox.read(page.cursor).missed == 0


def test_a_large_inbox_is_cut_now_and_then(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EXACT", 0)
    inbox = Inbox(folder, limit=80)
    fill(inbox, 80)
    before = (folder.path / INBOX).stat().st_ino
    fill(inbox, 9, 80)
    assert (folder.path / INBOX).stat().st_ino == before
    fill(inbox, 1, 89)
    assert inbox.tail(0).total == 80


def test_the_bytes_are_bounded_too(folder: Folder) -> None:
    inbox = Inbox(folder, max_bytes=4000)
    for number in range(200):
        fill(inbox, 1, number)
        assert (folder.path / INBOX).stat().st_size <= 4000
    assert numbers(inbox.tail(1).records) == [199]
    inbox.append([{"content": "x" * 8000, "ts": 200}])
    assert numbers(inbox.tail(2).records) == [200]


def test_a_full_disk_leaves_no_torn_line(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox(folder)
    fill(inbox, 1)
    before = (folder.path / INBOX).read_bytes()
    write = os.write
    told: list[int] = []

    def full(descriptor: int, content: bytes) -> int:
        if told:
            raise OSError(28, "No space left on device")
        told.append(1)
        return write(descriptor, content[:10])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        fill(inbox, 1, 1)
    assert (folder.path / INBOX).read_bytes() == before


# -- caps -------------------------------------------------------------------------------------------------


def test_caps_by_count_and_characters(folder: Folder) -> None:
    inbox = Inbox(folder)
    fill(inbox, 200)
    page = inbox.read(START)
    assert len(page.records) == 50
    assert page.remaining == 150
    page = inbox.read(START, max_characters=page.records[0].size * 3)
    assert len(page.records) == 3
    assert page.remaining == 197
    assert len(inbox.tail(500, max_characters=page.records[0].size * 5).records) < 6
    assert numbers(inbox.tail(3).records) == [197, 198, 199]


def test_one_record_is_returned_whatever_its_size(folder: Folder) -> None:
    inbox = Inbox(folder)
    inbox.append([{"ts": 0, "content": "x" * 50_000}, message(1)])
    assert numbers(inbox.read(START).records) == [0]
    assert numbers(inbox.tail(1, max_characters=1).records) == [1]
    assert numbers(inbox.tail(5).records) == [1]


def test_unwanted_records_do_not_count(folder: Folder) -> None:
    inbox = Inbox(folder)
    fill(inbox, 200)
    page = inbox.read(START, max_records=2, wanted=lambda fields: fields["ts"] % 90 == 89)
    assert numbers(page.records) == [89, 179]
    assert page.remaining == 20
    rest = inbox.read(page.cursor, wanted=lambda fields: fields["ts"] % 90 == 89)
    assert (rest.records, rest.remaining) == ((), 0)
    assert numbers(inbox.tail(2, wanted=lambda fields: fields["ts"] < 10).records) == [8, 9]


def test_one_call_parses_so_much_and_no_more(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCANNED", 1000)
    inbox = Inbox(folder)
    fill(inbox, 100)
    page = inbox.read(START, wanted=lambda fields: fields["ts"] == 99)
    assert page.records == ()
    assert 0 < page.remaining < 100
    asked: list[int] = []

    def refuse(fields: Mapping[str, Any]) -> bool:
        asked.append(fields["ts"])
        return False

    inbox.tail(1, wanted=refuse)
    assert 0 < len(asked) < 20


# -- what other programs do -------------------------------------------------------------------------------


def test_a_torn_line_breaks_nothing(folder: Folder) -> None:
    inbox = Inbox(folder)
    fill(inbox, 1)
    with (folder.path / INBOX).open("a") as file:
        file.write('{"ts": 7, "conte')
    assert numbers(inbox.read(START).records) == numbers(inbox.tail(5).records) == [0]
    cursor = inbox.read(START).cursor
    assert inbox.tail(0).cursor == cursor
    assert not inbox.has_more(cursor)
    fill(inbox, 1, 1)
    page = inbox.read(cursor)
    assert (numbers(page.records), page.damaged) == ([1], 1)
    assert inbox.tail(5).damaged == 1


def test_a_whole_line_without_its_newline_is_not_lost(folder: Folder) -> None:
    inbox = Inbox(folder)
    (folder.path / INBOX).write_text(json.dumps(message(0)))
    assert inbox.read(START).records == ()
    fill(inbox, 1, 1)
    assert numbers(inbox.read(START).records) == [0, 1]


@pytest.mark.parametrize(
    "line", [b"[]", b"17", b"\xff\xfe", b"", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 9999]
)
def test_lines_that_are_no_objects_are_skipped(folder: Folder, line: bytes) -> None:
    inbox = Inbox(folder)
    (folder.path / INBOX).write_bytes(line + b"\n")
    fill(inbox, 1)
    page = inbox.read(START)
    assert (numbers(page.records), page.damaged) == ([0], 1)


def test_lone_surrogates_and_line_separators_stay_in_their_line(folder: Folder) -> None:
    inbox = Inbox(folder)
    record = {"content": "\ud83d \u2028 \x85 \x1b[31m \u202e é"}
    inbox.append([record])
    assert inbox.read(START).records[0].fields == record
    assert (folder.path / INBOX).read_bytes().isascii()


def test_a_file_written_anew_by_another_daemon(folder: Folder) -> None:
    path = folder.path / INBOX
    texts = [json.dumps(message(number), ensure_ascii=False) + "\n" for number in range(20)]
    path.write_text("".join(texts[:10]))
    inbox = Inbox(folder)
    cursor = inbox.read(START).cursor
    path.write_text("".join(texts[5:15]))  # its way of cutting
    page = inbox.read(cursor)
    assert (numbers(page.records), page.missed) == ([10, 11, 12, 13, 14], 0)
    path.write_text("".join(texts[17:]))
    page = inbox.read(page.cursor)
    assert (numbers(page.records), page.missed) == ([17, 18, 19], None)
    path.unlink()
    assert inbox.read(page.cursor).records == ()
    fill(inbox, 1, 40)
    assert numbers(inbox.read(page.cursor).records) == [40]


@pytest.mark.parametrize("content", ["", "nonsense", "[{}]", "[1]", "17", '[{"inode": "x"}]', "[" * 3000])
def test_a_damaged_list_of_cuts_costs_no_message(folder: Folder, content: str) -> None:
    inbox = Inbox(folder, limit=10)
    fill(inbox, 10)
    cursor = inbox.read(START, max_records=8).cursor
    fill(inbox, 5, 10)
    (folder.path / CUTS).write_text(content)
    assert numbers(inbox.read(cursor).records) == list(range(8, 15))
    fill(inbox, 1, 15)
    assert numbers(inbox.read(cursor).records) == list(range(8, 16))


# -- cursors ----------------------------------------------------------------------------------------------


def test_a_cursor_is_kept_on_disk(folder: Folder) -> None:
    inbox = Inbox(folder)
    fill(inbox, 1)
    kept = CursorFile(folder.path / "listen.cursor")
    assert kept.read() is None
    cursor = inbox.read(START).cursor
    kept.write(cursor)
    assert CursorFile(kept.path).read() == cursor
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600


@given(st.one_of(st.text(), st.from_regex(r"\A-?[0-9]{1,5}:-?[0-9]{1,5}:-?[0-9]{1,5}:[0-9a-f]*\Z")))
def test_any_text_is_a_cursor_or_a_value_error(text: str) -> None:
    try:
        cursor = Cursor.parse(text)
    except ValueError:
        return
    assert Cursor.parse(str(cursor)) == cursor


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_every_line_is_read_once_or_counted_as_missed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = Folder(tmp_path_factory.mktemp("inbox"))
    inbox = Inbox(folder, limit=data.draw(st.integers(1, 8)), max_bytes=data.draw(st.integers(100, 2000)))
    cursor, written, accounted = START, 0, 0
    for step in data.draw(st.lists(st.sampled_from(["write", "read", "restart"]), max_size=30)):
        if step == "write":
            count = data.draw(st.integers(1, 5))
            fill(inbox, count, written)
            written += count
        elif step == "restart":
            inbox, cursor = Inbox(folder, limit=5), Cursor.parse(str(cursor))
        else:
            page = inbox.read(cursor, max_records=data.draw(st.integers(1, 4)))
            assert page.missed is not None
            accounted += page.missed
            assert numbers(page.records) == list(range(accounted, accounted + len(page.records)))
            accounted += len(page.records)
            assert page.cursor.line == accounted
            assert page.remaining == written - accounted
            cursor = page.cursor


# -- waiting ----------------------------------------------------------------------------------------------


async def test_waits_for_a_whole_line(folder: Folder) -> None:
    inbox = Inbox(folder)
    waiting = asyncio.create_task(inbox.wait(START))
    await asyncio.sleep(0)
    (folder.path / INBOX).write_text('{"half":')
    assert not await inbox.wait(START, 0.01)
    assert not waiting.done()
    fill(Inbox(folder), 1)
    assert await asyncio.wait_for(waiting, 30)
    assert await inbox.wait(START, 0)
    assert not await inbox.wait(inbox.tail(0).cursor, 0)


# -- several processes ------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from moothall.daemon.folder import Folder
from moothall.daemon.inbox import Inbox
inbox = Inbox(Folder(Path(sys.argv[1])), limit=int(sys.argv[3]))
sys.stdout.write("ready\\n")
sys.stdout.flush()
for number in range(int(sys.argv[4])):
    inbox.append([{"writer": sys.argv[2], "number": number, "content": "x" * (number * 97 % 6000)}])
"""


def start_writer(folder: Folder, name: str, *, limit: int, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, str(folder.path), name, str(limit), str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    with process:
        process.wait(60)


def test_two_writers_and_a_reader(folder: Folder) -> None:
    inbox = Inbox(folder)
    writers = [start_writer(folder, name, limit=50, count=400) for name in "ab"]
    seen: dict[str, list[int]] = {"a": [], "b": []}
    cursor, missed = START, 0
    while True:
        over = all(writer.poll() is not None for writer in writers)
        page = inbox.read(cursor)
        assert page.missed is not None
        assert page.damaged == 0
        missed += page.missed
        for record in page.records:
            seen[record.fields["writer"]].append(record.fields["number"])
        cursor = page.cursor
        if over and not page.remaining:
            break
    for writer in writers:
        end(writer)
    assert len(seen["a"]) + len(seen["b"]) + missed == 800
    assert all(found == sorted(set(found)) for found in seen.values())


@pytest.mark.slow
def test_writers_killed_at_any_point_break_nothing(folder: Folder) -> None:
    chance = random.Random(7)  # noqa: S311
    inbox = Inbox(folder)
    cursor = START
    steady = start_writer(folder, "steady", limit=40, count=100_000)
    for round_number in range(12):
        victim = start_writer(folder, f"v{round_number}", limit=40, count=100_000)
        until = cursor.line + chance.randrange(20, 120)
        while cursor.line < until:  # progress, not time, decides when the writer is killed
            page = inbox.read(cursor)
            assert page.missed is not None
            cursor = page.cursor
        victim.send_signal(signal.SIGKILL)
        end(victim)
    steady.send_signal(signal.SIGKILL)
    end(steady)
    before = inbox.tail(0).cursor
    fill(Inbox(folder), 1, 77)
    page = inbox.read(before)
    assert numbers(page.records) == [77]
    assert page.missed == 0
