"""Random stories of a channel at several nodes: what each agent sees of it is true."""

from itertools import combinations
from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from moothall.hall.cluster.replicas import Role
from tests.support.cluster import Halls
from tests.support.world import Guest

ROOM = "#general"
ACTS = ("say", "say", "say", "join", "leave", "come", "go", "cut", "heal", "kill", "wait", "steps", "claim")


class Story:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.halls = Halls("a", "b", "c", random=random, no_limits=True)
        self.guests: dict[Guest, str] = {}  # with their node
        self.members: set[Guest] = set()
        self.spoken: dict[str, int] = {}
        self.down: set[str] = set()
        for node in "abc":
            for _ in range(2):
                guest = self.come(node)
                self.halls.send(guest, "JOIN", channel=ROOM)
                self.members.add(guest)

    def come(self, node: str) -> Guest:
        guest = self.halls.agent(node, f"{node}{len(self.guests)}")
        self.guests[guest] = node
        return guest

    def send(self, guest: Guest, type: str, **fields: Any) -> None:  # noqa: A002
        self.halls.world_of(guest).send(guest, type, **fields)

    def some(self, guests: set[Guest]) -> Guest | None:
        return self.random.choice(sorted(guests, key=lambda guest: guest.id)) if guests else None

    def act(self, act: str) -> None:
        halls, random = self.halls, self.random
        present = {guest for guest in self.guests if guest.link.closed is None}
        if act == "say" and (guest := self.some(self.members)):
            number = self.spoken[guest.id] = self.spoken.get(guest.id, 0) + 1
            self.send(guest, "MSG", to=ROOM, content=f"{guest.id} {number:04}", ref=f"{number}")
        elif act == "join" and (guest := self.some(present - self.members)):
            self.send(guest, "JOIN", channel=ROOM)
            self.members.add(guest)
        elif act == "leave" and len(self.members) > 2 and (guest := self.some(self.members)):
            self.send(guest, "LEAVE", channel=ROOM)
            self.members.discard(guest)
        elif act == "come":
            up = sorted(set(halls.worlds) - self.down)
            if up:
                self.come(random.choice(up))
        elif act == "go" and len(self.members) > 2 and (guest := self.some(self.members)):
            halls.world_of(guest).disconnect(guest)
            self.forget(guest)
        elif act == "claim" and (guest := self.some(self.members)):
            self.send(guest, "RESPONDING_TO", channel=ROOM, msg_id="msg_1", started_at=5)
        elif act == "cut":
            node = random.choice(sorted(halls.worlds))
            self.down.add(node)
            halls.cut(node)
        elif act == "heal" and self.down:
            node = min(self.down)
            self.down.discard(node)
            halls.heal(node)
        elif act == "kill" and len(halls.worlds) > 2:
            node = random.choice(sorted(halls.worlds))
            self.down.discard(node)
            for guest, at in list(self.guests.items()):
                if at == node:
                    self.forget(guest)
            halls.kill(node)
        elif act == "wait":
            halls.advance(random.choice((0.3, 1.0, 2.5, 6.0)))
        elif act == "steps":
            halls.end_turn()
            for _ in range(random.randrange(20)):
                halls.broker.step()

    def forget(self, guest: Guest) -> None:
        del self.guests[guest]
        self.members.discard(guest)

    def check(self) -> None:
        halls = self.halls
        here = [agent for world in halls for agent in world.hall.roster.agents.values()]
        expected = {agent.address for agent in here if not agent.session.is_remote and ROOM in agent.channels}
        self.members = {guest for guest in self.guests if guest.id in expected}
        for name, world in halls.worlds.items():
            channel = world.hall.channels.find(ROOM)
            log = halls.clusters[name].channels.homes.logs.get(ROOM)
            if log is None:
                continue
            assert log.role in (Role.HOME, Role.REPLICA), (name, log.role)
            assert {f"@{member}" for member in channel.members} == expected, name
            assert channel.elsewhere == sum(member.session.is_remote for member in channel.members.values())
        histories = [
            [line.msg_id for line in world.hall.channels.find(ROOM).buffer]
            for name, world in halls.worlds.items()
            if ROOM in halls.clusters[name].channels.homes.logs
        ]
        assert all(history == histories[0] for history in histories)
        views = {guest: view(guest) for guest in self.members}
        for guest, (seen, _) in views.items():
            assert len(seen) == len(set(seen)), f"{guest} saw a line twice"
            for author in self.spoken:
                own = [line for line in seen if line.startswith(author + " ")]
                assert own == sorted(own)
        for one, other in combinations(views.values(), 2):
            if not one[1] and not other[1]:
                ours, theirs = set(one[0]), set(other[0])
                assert [line for line in one[0] if line in theirs] == [
                    line for line in other[0] if line in ours
                ]


def view(guest: Guest) -> tuple[list[str], bool]:
    """The lines of others that the guest was told while it was there, and whether it was told of a gap."""
    seen, has_gap = [], False
    for message in guest.link.messages:
        if message["type"] == "MSG" and message["from"] != "@server" and not message.get("replay"):
            seen.append(message["content"])
        has_gap = has_gap or message.get("content", "").startswith("Messages may be missing")
    return seen, has_gap


@given(st.integers(0, 2**32), st.lists(st.sampled_from(ACTS), max_size=40))
# A home dies before another node has forgotten the channel.
@example(217, ["leave"] * 6 + ["steps", "leave", "kill", "steps"])
@settings(max_examples=40, deadline=None)
def test_what_members_see_is_true(seed: int, acts: list[str]) -> None:
    story = Story(Random(seed))  # noqa: S311
    for act in acts:
        story.act(act)
    for node in sorted(story.down):
        story.halls.heal(node)
    story.halls.settle()
    story.halls.advance(15)
    story.check()
    if not story.members:
        return
    for guest in story.guests:
        guest.read()
    speaker = min(story.members, key=lambda guest: guest.id)
    story.halls.send(speaker, "MSG", to=ROOM, content="all is well", ref="last")
    told = [message for message in speaker.read() if message["type"] in ("ACK", "ERROR")]
    assert [message["type"] for message in told] == ["ACK"]
    for guest in story.members - {speaker}:
        assert [message["content"] for message in guest.read() if message["type"] == "MSG"] == ["all is well"]
