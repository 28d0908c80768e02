"""Receipts of lines in channels: DELIVERED is said of an agent when its node has the line, and never before."""

from random import Random

from moothall.hall.cluster.awaited_lines import MAX_WAITING, WAIT_SECONDS, AwaitedLines
from moothall.hall.delivery_receipts import NOT_TAKEN
from tests.support.cluster import Halls
from tests.support.world import Guest, World, assert_sent, assert_silent

ROOM = "#general"
FEATURES = ("receipts",)


class Town:
    """The home of the channel is on a, the author of the lines on b, and a member on c."""

    def __init__(self) -> None:
        self.halls = Halls("a", "b", "c", random=Random(5), no_limits=True, buffer_size=50)  # noqa: S311
        self.home, self.author, self.member = (
            self.halls.agent(node, node, features=FEATURES, join=ROOM) for node in "abc"
        )
        self.halls.hush()

    def ask(self, content: str = "well?") -> str:
        self.halls.send(self.author, "MSG", to=ROOM, content=content, receipt=True, ref="asked")
        msg_id: str = assert_sent(self.author, "ACK", ref="asked")["msg_id"]
        return msg_id

    def said_of(self, guest: Guest) -> list[str]:
        """The statuses that the author has read of this agent since it looked last."""
        return statuses(self.author, guest)


def statuses(author: Guest, of: Guest) -> list[str]:
    return [each["status"] for each in author.read() if each["type"] == "RECEIPT" and each["to"] == of.id]


def test_a_line_is_delivered_when_the_node_of_the_member_has_it() -> None:
    town = Town()
    town.halls.broker.delayed.add(("a", "c"))
    msg_id = town.ask()
    assert town.said_of(town.member) == []
    assert_silent(town.member)
    town.halls.broker.delayed.clear()
    town.halls.settle()
    assert_sent(town.member, "MSG", msg_id=msg_id)
    assert town.said_of(town.member) == ["DELIVERED"]
    town.halls.advance(2 * WAIT_SECONDS)
    assert town.said_of(town.member) == []


def test_a_line_of_the_home_itself_is_delivered_when_it_has_come() -> None:
    """The question leaves first: it joins the packet of a direct message."""
    town = Town()
    halls = town.halls
    for to in (town.member.id, ROOM):
        halls["a"].send(town.home, "MSG", to=to, content="well?", receipt=to == ROOM)
    halls.end_turn()
    halls.broker.delayed.add(("a", "b"))
    halls.broker.step()
    assert_sent(town.member, "MSG", to=town.member.id)
    assert_silent(town.member)
    halls.broker.delayed.add(("a", "c"))
    halls.settle()
    assert statuses(town.home, town.member) == []
    halls.broker.delayed.clear()
    halls.settle()
    assert_sent(town.member, "MSG", to=ROOM)
    assert statuses(town.home, town.member) == ["DELIVERED"]


def test_the_connection_must_still_take_the_line() -> None:
    town = Town()
    town.member.link.watched = []
    town.halls.broker.delayed.add(("a", "c"))
    town.ask()
    town.halls.broker.delayed.clear()
    town.halls.settle()
    assert town.said_of(town.member) == []
    for told in town.member.link.watched:
        told(True)
    town.halls.settle()
    assert town.said_of(town.member) == ["DELIVERED"]


def test_a_line_that_does_not_come_in_time_is_not_delivered() -> None:
    town = Town()
    town.halls.broker.delayed.add(("a", "c"))
    msg_id = town.ask()
    town.halls.advance(WAIT_SECONDS / 2)
    town.halls.hush()
    later = town.ask("and now?")
    assert_sent(town.author, "RECEIPT", msg_id=later, status="DELIVERED", to=town.home.id)
    town.halls.advance(WAIT_SECONDS / 2)
    assert_sent(
        town.author, "RECEIPT", msg_id=msg_id, status="UNDELIVERED", to=town.member.id, reason=NOT_TAKEN
    )
    assert_silent(town.author)
    town.halls.broker.delayed.clear()
    town.halls.settle()
    assert_sent(town.author, "RECEIPT", msg_id=later, status="DELIVERED", to=town.member.id)
    # What the recipient says itself still counts.
    assert_sent(town.member, "MSG", msg_id=msg_id, receipt="SEEN")
    town.halls.send(town.member, "RECEIPT", msg_id=msg_id, status="SEEN")
    assert town.said_of(town.member) == ["SEEN"]


def test_a_line_that_a_snapshot_skips_is_not_delivered() -> None:
    town = Town()
    halls = town.halls
    halls.broker.losing.add(("a", "c"))
    msg_id = town.ask()
    for _ in range(25):  # more than the home keeps as records, and less than the history has
        halls.send(town.home, "MSG", to=ROOM, content="長" * 4096)
    assert town.said_of(town.member) == []
    halls.broker.losing.clear()
    halls.advance(1)
    assert town.said_of(town.member) == ["UNDELIVERED"]
    assert msg_id not in [message.get("msg_id") for message in town.member.read()]


def test_a_member_that_had_left_before_the_line_was_said_did_not_get_it() -> None:
    """The author did not know yet."""
    town = Town()
    halls = town.halls
    halls.broker.delayed.add(("a", "b"))
    halls.send(town.member, "LEAVE", channel=ROOM)
    halls["b"].send(town.author, "MSG", to=ROOM, content="well?", receipt=True)
    halls.settle()
    halls.broker.delayed.clear()
    halls.settle()
    assert town.said_of(town.member) == ["UNDELIVERED"]
    assert "MSG" not in [message["type"] for message in town.member.read()]


def test_an_agent_that_leaves_while_its_node_waits_is_told_of_once() -> None:
    town = Town()
    town.halls.broker.delayed.add(("a", "c"))
    town.ask()
    town.halls.disconnect(town.member)
    assert town.said_of(town.member) == ["UNDELIVERED"]
    town.halls.broker.delayed.clear()
    town.halls.advance(2 * WAIT_SECONDS)
    assert town.said_of(town.member) == []


def test_a_node_of_the_version_before_asks_without_the_line() -> None:
    town = Town()
    halls = town.halls
    told: list[bool] = []
    carrier = halls.clusters["b"].roster.carrier("c")
    assert carrier is not None
    carrier.when_written(town.member.id[1:], told.append)
    halls.settle()
    assert told == [True]


def test_what_waits_has_a_limit() -> None:
    world = World()
    lines = AwaitedLines(world.hall.agenda, world.hall.now)
    answers: list[bool] = []
    for number in range(MAX_WAITING + 2):
        lines.wait_for(f"line-{number % 3}", answers.append)
    assert answers == [False, False]
    lines.settle("line-0", has_come=True)
    assert answers.count(True) == MAX_WAITING // 3 + 1
    world.advance(WAIT_SECONDS)
    assert len(answers) == MAX_WAITING + 2
    assert answers.count(False) == len(answers) - answers.count(True)
    lines.wait_for("line-0", answers.append)
    lines.settle("line-0", has_come=True)
    assert answers[-1]


def test_messages_that_want_no_receipts_ask_nothing() -> None:
    town = Town()
    halls = town.halls
    before = halls.broker.published
    halls.send(town.author, "MSG", to=ROOM, content="well?")
    assert halls.broker.published - before == 3  # to the home, and from there to the two followers
    assert not [each for each in town.author.read() if each["type"] == "RECEIPT"]
