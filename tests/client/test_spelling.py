"""One name or a list of them, with or without #."""

from typing import Any

import pytest

from moothall import Agent, FloorPolicy, PrivateKey, SyncAgent
from moothall.client.spelling import channel_names, several, target
from tests.client.meeting import listen, soon


def test_a_text_is_one_name() -> None:
    assert several("python") == ("python",)
    assert several(["python", "sql"]) == ("python", "sql")
    assert several(()) == ()


def test_a_channel_needs_no_hash() -> None:
    assert channel_names("general") == ("#general",)
    assert channel_names(["general", "#ops"]) == ("#general", "#ops")
    assert (target("general"), target("#general"), target("@1f3a9c02")) == (
        "#general",
        "#general",
        "@1f3a9c02",
    )


@pytest.mark.parametrize("wrong", ["", "#", "##general", "#no spaces", "@bob", 5, None])
def test_a_channel_has_a_name_of_a_channel(wrong: Any) -> None:
    with pytest.raises(ValueError, match="not the name of a channel"):
        Agent().on_message(wrong)
    with pytest.raises(ValueError, match="not the name of a channel"):
        Agent(channels=[wrong])


async def test_an_agent_with_one_channel_and_one_skill(url: str) -> None:
    agent = Agent("x", channels="general", skills="python")
    async with agent.connected(url):
        assert agent.rooms == {"#general"}
    policy = agent._policy
    assert policy.skills == ("python",)
    delays = [policy.delay(content, lambda: 0.5) for content in ("about python", "about p, y, t, h, o and n")]
    assert delays[0] < delays[1]


def test_a_floor_policy_with_one_skill() -> None:
    assert FloorPolicy(skills="python") == FloorPolicy(skills=("python",))  # type: ignore[arg-type]


def test_a_sync_agent_takes_the_same() -> None:
    agent = SyncAgent("x", channels="general", skills="python")._agent
    assert agent._policy.skills == ("python",)
    assert list(agent._session.wanted) == ["#general"]


async def test_every_operation_takes_a_channel_without_hash(url: str) -> None:
    bob = Agent("bob")
    heard = listen(bob, "workshop")
    alice = Agent("alice", identity=PrivateKey(bytes(32)))
    async with alice.connected(url):
        await alice.create_channel("workshop")
        async with bob.connected(url):
            assert bob.rooms == {"#workshop"}
            lines = alice.messages("workshop")
            msg_id = await alice.send("workshop", "hello")
            assert (await heard.next()).to == "#workshop"
            assert msg_id is not None
            assert await alice.claim(msg_id, "workshop")
            await bob.send("workshop", "hello yourself")
            assert (await soon(anext(lines))).content == "hello yourself"
            assert [line.content for line in await alice.history("workshop")] == ["hello", "hello yourself"]
            await alice.typing("workshop")
            assert len(await alice.members("workshop")) == 2
            await alice.invite("workshop", bob.id)
            await bob.leave("workshop")
            assert bob.rooms == frozenset()
            assert len(await bob.join("workshop")) == 2


@pytest.mark.parametrize(
    "skills", ["python", {"capability": "python"}, ["python"], [{"capability": "python"}]]
)
async def test_one_skill_needs_no_list(url: str, skills: Any) -> None:
    async with Agent(identity=PrivateKey(bytes(32))).connected(url) as agent:
        assert await agent.register_skills(skills) == 1
        assert [offer.capability for offer in await agent.search_skills()] == ["python"]
