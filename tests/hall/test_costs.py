"""What a command costs follows from whom it reaches and what it asks the store."""

from typing import Any, get_args

import msgspec
import pytest

from moothall.hall.budgets import Price
from moothall.hall.commands import Row
from moothall.identity import PrivateKey
from moothall.settings.limits import Rate
from moothall.wire.agentchat.requests import AnyClientMessage
from tests.support.world import Guest, World


def row(world: World, name: str) -> Row:
    rows = {command.name: command for command in world.hall.commands}
    return rows[name]


def price(world: World, guest: Guest, kind: str, /, *, frame_size: int = 100, **fields: Any) -> Price:
    command = row(world, kind)
    message = msgspec.convert({"type": kind, **fields}, command.message)
    return command.cost.price(world.hall, guest.session, message, frame_size)


def crowd(world: World, *channels: str, size: int = 5) -> Guest:
    """An agent with others in these channels."""
    agent, *_ = [world.agent(join=channels) for _ in range(size)]
    return agent


def test_every_command_has_a_cost() -> None:
    world = World()
    assert {command.message for command in world.hall.commands} == set(get_args(AnyClientMessage))
    for command in world.hall.commands:
        assert command.cost is not None


def test_a_line_is_told_to_all_members_or_to_one_agent() -> None:
    world = World()
    agent = crowd(world, "#general")
    assert price(world, agent, "MSG", to="#general", content="x").told == 5
    assert price(world, agent, "MSG", to="@someone", content="x").told == 1
    assert price(world, agent, "MSG", to="#agents", content="x").told == 1


def test_a_line_with_receipts_costs_more_and_a_receipt_is_told_to_one() -> None:
    world = World()
    agent = crowd(world, "#general")
    assert price(world, agent, "MSG", to="#general", content="x", receipt=True).told == 15
    assert price(world, agent, "MSG", to="@someone", content="x", receipt=True).told == 3
    assert price(world, agent, "RECEIPT", msg_id="1-a", status="SEEN").told == 1


def test_a_claim_is_told_twice_and_its_end_is_paid_with_it() -> None:
    world = World()
    agent = crowd(world, "#general")
    claim: dict[str, Any] = {"msg_id": "1-a", "started_at": 1}
    assert price(world, agent, "RESPONDING_TO", channel="#general", **claim).told == 15
    assert price(world, agent, "RELEASE", channel="#general", msg_id="1-a").told == 0
    assert price(world, agent, "RESPONDING_TO", channel="#agents", **claim).told == 0


@pytest.mark.parametrize("name", ["SET_NICK", "SET_PRESENCE"])
def test_nick_and_presence_are_told_in_all_channels(name: str) -> None:
    world = World()
    agent = crowd(world, "#general", "#agents")
    fields: dict[str, Any] = {"nick": "x"} if name == "SET_NICK" else {"status": "busy"}
    assert price(world, agent, name, **fields).told == 10


def test_joining_pays_for_the_list_the_history_and_the_departure() -> None:
    world = World()
    crowd(world, "#general")
    speaker, newcomer = world.agent(join="#general"), world.agent()
    world.say(speaker, "#general", "x" * 1000)
    cost = price(world, newcomer, "JOIN", channel="#general")
    assert cost.told == 18
    assert cost.bytes > 1000


def test_lists_cost_their_entries() -> None:
    world = World()
    agent = crowd(world, "#general")
    assert price(world, agent, "LIST_AGENTS", channel="#general").told == 5
    world.agent()
    assert price(world, agent, "LIST_AGENTS").told == 6
    assert price(world, agent, "LIST_AGENTS", agents=["@00000000"] * 3).told == 3
    assert price(world, agent, "LIST_CHANNELS").told == len(world.hall.channels)


def test_arriving_costs_only_where_it_puts_an_agent_into_channels() -> None:
    for profile, told in (("seeds", 0), ("agentchat-0.36", 2 * 3 * 8)):
        world = World(profile)
        for _ in range(3):
            world.agent()
        assert price(world, world.connect(), "IDENTIFY", name="x").told == told


def test_what_goes_to_the_store_costs_its_time_and_more_for_more_bytes() -> None:
    world = World()
    agent = world.agent()
    accept: dict[str, Any] = {"proposal_id": "p", "sig": "s"}
    small, large = (price(world, agent, "ACCEPT", frame_size=size, **accept).store for size in (100, 200_000))
    assert 0 < small < large
    assert price(world, agent, "PING").store == 0


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("DISPUTE_INTENT", {"proposal_id": "p", "reason": "r", "commitment": "c", "sig": "s"}),
        ("DISPUTE_REVEAL", {"proposal_id": "p", "nonce": "n", "sig": "s"}),
        ("ARBITER_DECLINE", {"dispute_id": "d"}),
    ],
)
def test_a_draw_looks_at_all_agents(name: str, fields: dict[str, Any]) -> None:
    world = World()
    agent = crowd(world, "#general", size=64)
    found = price(world, agent, name, **fields)
    assert found.told == 2
    assert found.store > price(world, agent, "ARBITER_ACCEPT", dispute_id="d", sig="s").store


def test_nested_json_is_charged_before_its_fields_are_checked() -> None:
    world = World(budget_bytes=Rate(40_000, 1000))
    agent = world.agent(key=PrivateKey(b"k" * 32))
    offer = {"to": "@12345678", "task": "x" * 5000, "sig": "s"}  # too long, so it would be INVALID_MSG
    kinds = []
    for _ in range(3):
        world.send(agent, "PROPOSAL", **offer)
        kinds.append(agent.read()[-1]["code"])
    assert kinds == ["INVALID_MSG", "RATE_LIMITED", "RATE_LIMITED"]


def test_a_byte_of_skills_costs_more_than_one_of_chat() -> None:
    world = World()
    agent = world.agent()
    skills = price(world, agent, "REGISTER_SKILLS", frame_size=10_000, skills=[{"capability": "x"}], sig="s")
    line = price(world, agent, "MSG", frame_size=10_000, to="@someone", content="x")
    assert skills.bytes == 9 * 10_000 > line.bytes
    assert skills.store > 4000
