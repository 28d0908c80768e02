from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.tui.rooms import MAX_LINES, MAX_TALKS, TYPING_LASTS, Kind, Line, Person, Rooms

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ALICE = Person("@a1", "alice", verified=True)
BOB = Person("@b2", "bob")
OTHER_BOB = Person("@b3", "bob")


def said(text: str = "hello", sender: Person = ALICE, **more: bool) -> Line:
    return Line(Kind.SAID, NOON, text, sender=sender.address, name=sender.name, **more)


@pytest.fixture
def rooms() -> Rooms:
    rooms = Rooms()
    for channel in ("#general", "#ops", "#games"):
        rooms.set_members(channel, [ALICE, BOB])
    return rooms


def unread(rooms: Rooms) -> dict[str, int]:
    return {room.name: room.unread for room in rooms if room.unread}


def current(rooms: Rooms) -> str:
    assert rooms.current is not None
    return rooms.current.name


# rooms


def test_the_first_room_is_the_one_looked_at(rooms: Rooms) -> None:
    assert current(rooms) == "#general"


def test_stepping_goes_round(rooms: Rooms) -> None:
    seen = []
    for by in (1, 1, 1, -1):
        rooms.step(by)
        seen.append(current(rooms))
    assert seen == ["#ops", "#games", "#general", "#games"]


@pytest.mark.parametrize(("closed", "then"), [("#general", "#ops"), ("#games", "#ops"), ("#ops", "#games")])
def test_closing_the_room_shows_a_neighbour(rooms: Rooms, closed: str, then: str) -> None:
    rooms.show(closed)
    rooms.close(closed)
    assert current(rooms) == then
    assert closed not in rooms


def test_closing_another_room_changes_nothing_else(rooms: Rooms) -> None:
    rooms.close("#ops")
    assert current(rooms) == "#general"


def test_after_the_last_room_there_is_none() -> None:
    rooms = Rooms()
    rooms.open("#general")
    rooms.close("#general")
    rooms.step(1)
    assert rooms.current is None


@given(
    st.lists(
        st.sampled_from(["open", "close", "step"]).flatmap(
            lambda act: st.tuples(st.just(act), st.sampled_from(["#a", "#b", "#c", "@d"]))
        )
    )
)
def test_the_room_looked_at_is_always_one_of_the_rooms(acts: Iterable[tuple[str, str]]) -> None:
    rooms = Rooms()
    for act, name in acts:
        if act == "open":
            rooms.open(name)
        elif act == "close":
            rooms.close(name)
        else:
            rooms.step(1)
        assert (rooms.current is None) == (not list(rooms))


# unread


def test_what_is_said_elsewhere_is_unread_until_it_is_looked_at(rooms: Rooms) -> None:
    rooms.hear("#general", said())
    rooms.hear("#ops", said())
    rooms.hear("#ops", said())
    assert unread(rooms) == {"#ops": 2}
    rooms.show("#ops")
    assert unread(rooms) == {}


def test_history_comes_first_and_is_not_unread(rooms: Rooms) -> None:
    rooms.hear("#general", said("now"))
    rooms.remember("#general", [said("once", is_history=True), said("then", is_history=True)])
    assert [line.text for line in rooms["#general"].lines] == ["once", "then", "now"]
    rooms.remember("#ops", [said("once", is_history=True)])
    assert unread(rooms) == {}


def test_service_lines_are_not_unread(rooms: Rooms) -> None:
    rooms.hear("#ops", Line(Kind.SERVICE, NOON, "bob joined #ops", sender="@server"))
    assert unread(rooms) == {}
    assert len(rooms["#ops"].lines) == 1


def test_a_mention_is_marked(rooms: Rooms) -> None:
    lines = (said(), said(mentions_me=True), said())
    marks = [rooms.hear("#ops", line).mentioned for line in lines]
    assert marks == [False, True, True]
    assert not rooms.show("#ops").mentioned


def test_a_talk_opens_when_somebody_begins_it(rooms: Rooms) -> None:
    rooms.hear("@a1", said(), "@alice")
    assert rooms["@a1"].title == "@alice"
    assert rooms["@a1"].mentioned
    assert current(rooms) == "#general"


def test_a_room_forgets_its_oldest_lines(rooms: Rooms) -> None:
    for number in range(MAX_LINES + 3):
        rooms.hear("#ops", said(str(number)))
    assert [line.text for line in rooms["#ops"].lines][:1] == ["3"]


def test_strangers_cannot_fill_the_screen_with_talks(rooms: Rooms) -> None:
    rooms.hear("@a1", said())
    rooms.show("@a1")
    for number in range(2 * MAX_TALKS):
        rooms.hear(f"@x{number}", said())
    names = [room.name for room in rooms]
    assert names[:4] == ["#general", "#ops", "#games", "@a1"]
    assert len(names) <= 5 + MAX_TALKS
    assert names[-1] == f"@x{2 * MAX_TALKS - 1}"


# people


def test_people_come_and_go(rooms: Rooms) -> None:
    rooms.enter("#ops", OTHER_BOB)
    rooms.leave("#ops", ALICE.address)
    assert rooms["#ops"].people() == [BOB, OTHER_BOB]
    assert rooms["#general"].people() == [ALICE, BOB]


def test_events_of_channels_one_is_not_in_are_ignored(rooms: Rooms) -> None:
    rooms.enter("#else", ALICE)
    rooms.leave("#else", ALICE.address)
    rooms.typed("#else", ALICE.address, 0.0)
    assert "#else" not in rooms


def test_a_new_name_is_seen_everywhere(rooms: Rooms) -> None:
    rooms.hear("@b2", said(sender=BOB), "@bob")
    rooms.rename("@b2", "robert")
    assert [person.name for person in rooms["#ops"].people()] == ["alice", "robert"]
    assert rooms["@b2"].title == "@robert"


def test_presence_is_seen_everywhere(rooms: Rooms) -> None:
    rooms.set_presence("@b2", "away", "lunch")
    assert [(room.members["@b2"].presence, room.members["@b2"].status) for room in rooms] == [
        ("away", "lunch")
    ] * 3


def test_a_name_may_be_several_people_and_an_address_is_one(rooms: Rooms) -> None:
    rooms.enter("#ops", OTHER_BOB)
    assert rooms.find("bob") == rooms.find("@bob") == [BOB, OTHER_BOB]
    assert rooms.find("@b3") == rooms.find("b3") == [OTHER_BOB]
    assert rooms.find("carol") == []


def test_nobody_can_take_an_address_for_a_name(rooms: Rooms) -> None:
    rooms.enter("#ops", Person("@e4", "a1"))
    assert rooms.find("@a1") == [ALICE]


# who is answering


def test_answering_stays_and_typing_fades(rooms: Rooms) -> None:
    room = rooms["#ops"]
    room.answering = [ALICE.address]
    rooms.typed("#ops", BOB.address, 0.0)
    assert room.activity(0.0) == "alice is answering…; bob is typing…"
    assert room.activity(TYPING_LASTS) == "alice is answering…"
    room.answering = []
    assert room.activity(TYPING_LASTS) == ""


def test_an_agent_that_answers_is_not_also_typing(rooms: Rooms) -> None:
    rooms.typed("#ops", ALICE.address, 0.0)
    rooms["#ops"].answering = [ALICE.address]
    assert rooms["#ops"].activity(0.0) == "alice is answering…"


def test_a_human_may_get_many_answers(rooms: Rooms) -> None:
    rooms["#ops"].answering = [ALICE.address, BOB.address]
    assert rooms["#ops"].activity(0.0) == "alice, bob are answering…"


def test_many_are_counted(rooms: Rooms) -> None:
    crowd = [Person(f"@x{number}", f"x{number}") for number in range(5)]
    rooms.set_members("#ops", crowd)
    rooms["#ops"].answering = [person.address for person in crowd]
    assert rooms["#ops"].activity(0.0) == "5 agents are answering…"


def test_an_agent_that_left_is_not_named(rooms: Rooms) -> None:
    rooms["#ops"].answering = [ALICE.address]
    rooms.leave("#ops", ALICE.address)
    assert rooms["#ops"].activity(0.0) == ""


# the unread line


def test_what_came_while_the_person_looked_elsewhere_is_below_the_unread_line(rooms: Rooms) -> None:
    rooms.show("#ops")
    rooms.hear("#ops", said("seen"))
    rooms.show("#general")
    rooms.hear("#ops", said("one"))
    rooms.hear("#ops", said("two"))
    room = rooms.show("#ops")
    assert room.first_unread == 1
    rooms.hear("#ops", said("three"))
    assert room.first_unread == 1
    rooms.show("#general")
    assert rooms.show("#ops").first_unread is None


def test_nothing_is_unread_in_the_room_that_is_looked_at(rooms: Rooms) -> None:
    rooms.hear("#general", said())
    assert rooms["#general"].first_unread is None


def test_a_talk_that_others_begin_is_unread_from_its_first_line(rooms: Rooms) -> None:
    rooms.hear("@e5", said("psst"))
    assert rooms.show("@e5").first_unread == 0


def test_what_this_program_says_is_never_unread(rooms: Rooms) -> None:
    rooms.hear("#ops", Line(Kind.NOTE, NOON, "connected again"))
    assert rooms.show("#ops").first_unread is None


def test_lines_of_before_come_above_the_unread_line(rooms: Rooms) -> None:
    rooms.hear("#ops", said("new"))
    rooms.remember("#ops", [said("old", is_history=True)])
    assert rooms.show("#ops").first_unread == 1


def test_an_unread_line_that_scrolled_out_stands_at_the_top(rooms: Rooms) -> None:
    for _ in range(MAX_LINES + 5):
        rooms.hear("#ops", said())
    assert rooms.show("#ops").first_unread == 0


def test_another_window_makes_the_room_unread(rooms: Rooms) -> None:
    room = rooms["#general"]
    room.look_away()
    room.look_back()
    rooms.hear("#general", said("seen"))
    assert room.first_unread is None
    room.look_away()
    rooms.hear("#general", said("unseen"))
    room.look_back()
    assert room.first_unread == 1


def test_cleared_rooms_are_empty(rooms: Rooms) -> None:
    rooms.hear("#general", said())
    rooms.clear()
    assert not rooms["#general"].lines
    assert rooms["#general"].first_unread is None


def test_the_name_behind_an_address(rooms: Rooms) -> None:
    assert rooms.name_of(BOB.address) == "bob"
    assert rooms.name_of("@nowhere") is None


# jumping


def test_a_room_has_a_number(rooms: Rooms) -> None:
    rooms.show_number(3)
    assert current(rooms) == "#games"
    for nowhere in (0, 4):
        rooms.show_number(nowhere)
        assert current(rooms) == "#games"


def test_jumping_goes_to_mentions_first(rooms: Rooms) -> None:
    rooms.hear("#ops", said())
    rooms.hear("#games", said(mentions_me=True))
    seen = []
    for _ in range(3):
        rooms.show_active()
        seen.append(current(rooms))
    assert seen == ["#games", "#ops", "#ops"]
