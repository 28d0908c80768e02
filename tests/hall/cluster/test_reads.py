"""The HTTP API of a hall of several nodes: every node gives the same answer, also about channels that it does not
follow."""

from collections.abc import Mapping
from random import Random

import pytest

from moothall.gateways.api import operators
from moothall.gateways.metrics_history import MetricsHistory, Totals
from moothall.hall.api_channels import ROUTES
from moothall.hall.cluster.homes import LOST_SECONDS
from moothall.hall.cluster.nodes import SILENCE_SECONDS
from moothall.hall.cluster.reads import MAX_WAITING, PATIENCE_SECONDS
from moothall.settings.limits import Rate
from moothall.wire.bus import channel_subject
from tests.identity.vectors import ALICE, BOB
from tests.support.api import ApiOf, Reply, bearer
from tests.support.cluster import Halls
from tests.support.world import ADMIN_KEY, Guest

DEN = "#den"
NODES = ("a", "b", "c")


class Town:
    """The API of three nodes."""

    def __init__(self, **settings: object) -> None:
        self.halls = Halls(*NODES, random=Random(7), auto_join=False, admin_key=ADMIN_KEY, **settings)  # noqa: S311
        self.apis = {node: self._api(node) for node in NODES}

    def _api(self, node: str) -> ApiOf:
        history = MetricsHistory(0, Totals())
        return ApiOf(self.halls[node], (*ROUTES, *operators.routes(history)))

    def start(self, node: str) -> None:
        self.halls.start(node)
        self.halls.settle()
        self.apis[node] = self._api(node)

    def kill(self, node: str) -> None:
        self.halls.kill(node)
        del self.apis[node]

    def token(self, guest: Guest) -> Mapping[str, str]:
        return bearer(self.halls.world_of(guest), guest)

    def begin(self, node: str, path: str, headers: Mapping[str, str] | None = None) -> list[Reply]:
        """Where the answer will be, when everything on the bus has come to its end."""
        replies = self.apis[node].ask(path, headers)
        self.halls.settle()
        return replies

    def get(self, node: str, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        (reply,) = self.begin(node, path, headers)
        return reply

    def everywhere(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """The answer of every node, which must be the same."""
        replies = {node: self.get(node, path, headers) for node in self.apis}
        first = next(iter(replies.values()))
        assert replies == dict.fromkeys(self.apis, first)
        return first

    def assert_nothing_waits(self) -> None:
        assert not any(len(cluster.reads) for cluster in self.halls.clusters.values())


def den(town: Town) -> tuple[Guest, Guest]:
    """An invite-only channel with two lines. Alice made it on a, and Bob is a member on b."""
    halls = town.halls
    alice, bob = halls.agent("a", "alice", key=ALICE), halls.agent("b", "bob", key=BOB)
    halls.send(alice, "CREATE_CHANNEL", channel=DEN, invite_only=True)
    halls.send(alice, "INVITE", channel=DEN, agent=bob.id)
    halls.send(bob, "JOIN", channel=DEN)
    for guest, text in ((alice, "first"), (bob, "second")):
        halls.send(guest, "MSG", to=DEN, content=text)
    halls.advance(1)
    return alice, bob


def contents(reply: Reply) -> list[str]:
    return [message["content"] for message in reply.body["items"]]


def members(reply: Reply) -> set[str]:
    return {member["id"] for member in reply.body["items"]}


def listed(reply: Reply) -> dict[str, int]:
    return {channel["name"]: channel["members"] for channel in reply.body["items"]}


# -- channels --------------------------------------------------------------------------------------


def test_members_of_an_invite_only_channel_read_it_at_every_node() -> None:
    town = Town()
    alice, bob = den(town)
    for guest in (alice, bob):
        token = town.token(guest)
        assert contents(town.everywhere("channels/den/messages", token)) == ["second", "first"]
        assert members(town.everywhere("channels/den/agents", token)) == {alice.id, bob.id}
        assert listed(town.everywhere("channels", token))[DEN] == 2


def test_others_see_no_invite_only_channel_at_any_node() -> None:
    town = Town()
    alice, _ = den(town)
    gone = town.token(alice)
    town.halls.disconnect(alice)
    town.halls.advance(1)
    for headers in ({}, gone):
        assert DEN not in listed(town.everywhere("channels", headers))
        for what in ("messages", "agents"):
            assert town.everywhere(f"channels/den/{what}", headers).status == 404


def test_an_agent_that_is_no_member_gets_the_same_answer_as_for_a_missing_channel() -> None:
    town = Town()
    halls = town.halls
    alice = halls.agent("a", "alice", key=ALICE)
    halls.send(alice, "CREATE_CHANNEL", channel=DEN, invite_only=True)
    halls.advance(1)
    token = town.token(halls.agent("b", "bob", key=BOB))
    assert DEN not in listed(town.everywhere("channels", token))
    for what in ("messages", "agents"):
        reply = town.everywhere(f"channels/den/{what}", token)
        assert (reply.status, reply) == (404, town.everywhere(f"channels/missing/{what}", token))


def test_strangers_read_public_channels_at_every_node_a_page_at_a_time() -> None:
    town = Town()
    alice = town.halls.agent("a", "alice", join="#general")
    for text in ("first", "second", "third"):
        town.halls.send(alice, "MSG", to="#general", content=text)
        town.halls.advance(1)
    first = town.everywhere("channels/general/messages?limit=2")
    rest = town.everywhere(f"channels/general/messages?after={first.body['next']}")
    assert contents(first) + contents(rest) == ["third", "second", "first"]
    assert members(town.everywhere("channels/general/agents")) == {alice.id}
    shown = town.everywhere("channels")
    assert listed(shown)["#general"] == 1
    assert {channel["messages"] for channel in shown.body["items"]} == {None}


def test_verified_only_channels_are_read_by_verified_agents_of_all_nodes() -> None:
    town = Town(verified_channels=("#ours",))
    alice = town.halls.agent("a", "alice", key=ALICE, join="#ours")
    assert town.everywhere("channels/ours/agents").status == 401
    assert members(town.everywhere("channels/ours/agents", town.token(alice))) == {alice.id}


def test_a_channel_that_no_agent_has_used_is_empty_at_every_node() -> None:
    town = Town()
    before = town.halls.broker.published
    assert contents(town.everywhere("channels/general/messages")) == []
    assert members(town.everywhere("channels/general/agents")) == set()
    assert town.halls.broker.published == before


def test_a_question_leaves_nothing_behind() -> None:
    town = Town()
    town.halls.agent("a", "alice", join="#general")
    before = dict(town.halls.broker.entries["homes"])
    assert town.get("c", "channels/general/messages").status == 200
    cluster = town.halls.clusters["c"]
    assert "#general" not in cluster.channels.homes.logs
    assert channel_subject("#general") not in cluster.bus.subscriptions  # type: ignore[attr-defined]
    assert not town.halls.clusters["a"].channels.homes.logs["#general"].followers
    assert town.halls.broker.entries["homes"] == before
    town.assert_nothing_waits()


def test_a_stranger_who_cannot_pay_asks_no_other_node() -> None:
    town = Town(address_told=Rate(60, 60))
    town.halls.agent("a", "alice", join="#general")
    town.halls.advance(1)
    path = "channels/general/messages?limit=50&after={}"
    assert town.get("c", path.format("1-x")).status == 200
    before = town.halls.broker.published
    assert town.get("c", path.format("2-x")).status == 429
    assert town.halls.broker.published == before


def test_strangers_get_the_answer_of_the_home_again_for_a_moment() -> None:
    town = Town()
    town.halls.agent("a", "alice", join="#general")
    first = town.get("c", "channels/general/agents")
    before = town.halls.broker.published
    assert town.get("c", "channels/general/agents") == first
    assert town.halls.broker.published == before


# -- nodes that cannot answer ----------------------------------------------------------------------


def test_without_the_bus_a_node_answers_for_the_channels_that_it_knows() -> None:
    town = Town()
    alice, bob = den(town)
    alices, bobs = town.token(alice), town.token(bob)
    town.halls.cut("b", "c")
    for node, token in (("b", bobs), ("a", alices)):
        assert contents(town.get(node, "channels/den/messages", token)) == ["second", "first"]
    for path in ("channels/den/messages", "channels/den/agents", "channels"):
        reply = town.get("c", path, alices)
        assert (reply.status, reply.code) == (503, "UNAVAILABLE")
    assert town.get("c", "channels").status == 200


def test_a_question_that_waits_when_the_bus_fails_is_refused() -> None:
    town = Town()
    town.halls.agent("a", "alice", join="#general")
    town.halls.broker.held.add("a")
    replies = town.begin("c", "channels/general/messages")
    assert replies == []
    town.halls.cut("c")
    (reply,) = replies
    assert (reply.status, reply.code) == (503, "UNAVAILABLE")
    town.assert_nothing_waits()


def test_a_home_that_does_not_answer_is_waited_for_and_then_given_up() -> None:
    town = Town()
    town.halls.agent("a", "alice", join="#general")
    town.halls.broker.losing.add(("a", "c"))
    replies = town.begin("c", "channels/general/messages")
    town.halls.advance(PATIENCE_SECONDS - 1)
    assert replies == []
    town.halls.advance(1.5)
    (reply,) = replies
    assert (reply.status, reply.code) == (503, "UNAVAILABLE")
    assert "does not reply" in reply.message
    town.assert_nothing_waits()


def test_a_question_that_was_lost_is_sent_again() -> None:
    town = Town()
    town.halls.agent("a", "alice", join="#general")
    town.halls.broker.losing.add(("c", "a"))
    replies = town.begin("c", "channels/general/messages")
    town.halls.broker.losing.clear()
    assert replies == []
    town.halls.advance(1.5)
    assert [reply.status for reply in replies] == [200]


def test_the_next_home_answers_when_one_has_died() -> None:
    town = Town()
    _, bob = den(town)
    token = town.token(bob)
    town.kill("a")
    town.halls.advance(SILENCE_SECONDS - 1)
    replies = town.begin("c", "channels/den/messages", token)
    town.halls.advance(PATIENCE_SECONDS)
    assert [contents(reply) for reply in replies] == [["second", "first"]]
    town.halls.advance(1)
    assert members(town.everywhere("channels/den/agents", token)) == {bob.id}
    assert listed(town.everywhere("channels", token))[DEN] == 1


def test_a_channel_whose_nodes_have_all_died_is_empty_and_no_stranger_makes_a_home() -> None:
    town = Town()
    alice = town.halls.agent("a", "alice", join="#general")
    town.halls.send(alice, "CREATE_CHANNEL", channel="#open")
    town.halls.advance(1)
    assert listed(town.everywhere("channels"))["#open"] == 1
    before = dict(town.halls.broker.entries["homes"])
    town.kill("a")
    town.halls.advance(SILENCE_SECONDS + LOST_SECONDS + 2)
    town.start("d")
    town.halls.advance(LOST_SECONDS + 2)
    for name in ("general", "open"):
        assert contents(town.everywhere(f"channels/{name}/messages")) == []
        assert members(town.everywhere(f"channels/{name}/agents")) == set()
    counts = listed(town.everywhere("channels"))
    assert (counts["#general"], counts["#open"]) == (0, 0)
    assert town.halls.broker.entries["homes"] == before


def test_a_question_about_a_channel_whose_nodes_die_meanwhile_is_answered() -> None:
    town = Town()
    town.halls.agent("a", "alice", join="#general")
    town.kill("a")
    town.halls.advance(SILENCE_SECONDS - 0.5)
    replies = town.begin("c", "channels/general/agents")
    town.halls.advance(1.5)
    assert replies == []
    town.halls.advance(PATIENCE_SECONDS - 1.5)
    assert [members(reply) for reply in replies] == [set()]
    town.assert_nothing_waits()


def test_a_new_node_knows_that_a_channel_is_empty() -> None:
    town = Town()
    alice = town.halls.agent("a", "alice")
    town.halls.send(alice, "CREATE_CHANNEL", channel="#open")
    town.halls.send(alice, "LEAVE", channel="#open")
    town.halls.advance(1)
    town.start("d")
    town.halls.advance(1)
    assert listed(town.everywhere("channels"))["#open"] == 0


def test_not_more_than_a_number_of_questions_wait() -> None:
    town = Town(no_limits=True)
    town.halls.agent("a", "alice", join="#general")
    town.halls.broker.held.add("a")
    waiting = [
        town.apis["c"].ask("channels/general/messages", {"if-none-match": str(number)})
        for number in range(MAX_WAITING)
    ]
    assert not any(waiting)
    reply = town.get("c", "channels/general/messages")
    assert (reply.status, reply.code) == (503, "UNAVAILABLE")
    town.halls.broker.held.clear()
    town.halls.settle()
    assert [len(replies) for replies in waiting] == [1] * MAX_WAITING
    town.assert_nothing_waits()


# -- operators -------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", NODES)
def test_only_its_own_node_says_what_an_agent_leaves_unread(node: str) -> None:
    town = Town()
    guests = {name: town.halls.agent(name, name, join="#general") for name in NODES}
    shown = town.get(node, "connections", {"x-admin-key": ADMIN_KEY}).body["items"]
    assert {each["id"]: (each["channels"], each["unread"]) for each in shown} == {
        guest.id: (1, 0) if name == node else (None, None) for name, guest in guests.items()
    }
