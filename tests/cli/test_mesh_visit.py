"""Ids on the command line of the mesh: whole, or abbreviated where only one fits."""

from typing import Any, cast

import pytest

from moothall.cli._mesh_visit import (
    MOST_COMPARED,
    explained,
    find_agent,
    find_conversation,
    full_conversation_id,
)
from moothall.errors import UsageError
from moothall.hall.mesh.frames import Conversations, ConversationSummary
from moothall.mesh import MeshAgent

ALICE, BOB, NOTARY = "a" * 64, "a" * 15 + "b" * 49, "c" * 64
FIRST, SECOND = "9c41" + "0" * 28, "9c42" + "0" * 28


def summary(conversation_id: str, notary: str | None = None) -> ConversationSummary:
    return ConversationSummary(
        conversation_id=conversation_id,
        state="NEGOTIATING",
        requester=ALICE,
        provider=BOB,
        amount=0,
        notary=notary,
    )


class Agent:
    """Knows conversations, two a page, and gives their ids back for conversations."""

    def __init__(self, *own: ConversationSummary, page: int = 2) -> None:
        self.own = own
        self.page = page
        self.pages = 0

    async def conversations(self, *, limit: int, before: str | None = None) -> Conversations:
        self.pages += 1
        start = len(self.own) - (len(self.own) if before is None else int(before))
        rest = len(self.own) - start - self.page
        return Conversations(
            conversations=self.own[start : start + self.page], before=str(rest) if rest > 0 else None
        )

    async def conversation(self, conversation_id: str) -> str:
        return conversation_id


def as_agent(agent: Agent) -> MeshAgent:
    return cast("MeshAgent", agent)


async def conversation(agent: Agent, word: str) -> Any:
    return await find_conversation(as_agent(agent), word)


@pytest.mark.parametrize("word", ["9c41", "9C41", FIRST, FIRST[:-1]])
async def test_the_first_digits_of_a_conversation_are_enough(word: str) -> None:
    assert await conversation(Agent(summary(FIRST), summary(SECOND)), word) == FIRST


async def test_a_whole_id_is_taken_as_it_is() -> None:
    agent = Agent()
    assert await conversation(agent, SECOND.upper()) == SECOND
    assert agent.pages == 0


async def test_all_conversations_are_compared() -> None:
    own = [summary(f"{number:032x}") for number in range(9)]
    agent = Agent(*own, summary(FIRST))
    assert await conversation(agent, "9c41") == FIRST
    assert agent.pages == 5
    with pytest.raises(UsageError, match="9 of your conversations begin with 00000: write more of the id"):
        await conversation(agent, "00000")


async def test_an_abbreviation_that_fits_none() -> None:
    with pytest.raises(UsageError, match="none of your conversations begins with 9c43; `moothall mesh conv"):
        await conversation(Agent(summary(FIRST)), "9c43")


async def test_with_too_many_conversations_an_id_is_written_in_full() -> None:
    own = [summary(f"{number:032x}") for number in range(MOST_COMPARED + 1)]
    with pytest.raises(UsageError, match="write the whole id"):
        await conversation(Agent(*own, page=100), "00000000")
    assert await conversation(Agent(*own, page=100), FIRST) == FIRST


@pytest.mark.parametrize("word", ["", "9c4", "9c4x", "@9c41", FIRST + "0", "٣٣٣٣"])
async def test_what_is_not_an_id(word: str) -> None:
    with pytest.raises(
        UsageError, match="is not the id of a conversation: it has 32, or the first 4 or more,"
    ):
        await conversation(Agent(summary(FIRST)), word)


async def test_agents_that_were_met_may_be_abbreviated() -> None:
    agent = as_agent(Agent(summary(FIRST, NOTARY), summary(SECOND)))
    assert await find_agent(agent, ALICE[:16]) == ALICE
    assert await find_agent(agent, BOB[:16]) == BOB
    assert await find_agent(agent, NOTARY[:20]) == NOTARY
    assert await find_agent(agent, "d" * 64) == "d" * 64
    with pytest.raises(UsageError, match="`moothall mesh discover` prints whole ids"):
        await find_agent(agent, "d" * 63)


async def test_an_agent_needs_more_digits_than_can_be_searched_for() -> None:
    with pytest.raises(UsageError, match="it has 64, or the first 16 or more, hex digits"):
        await find_agent(as_agent(Agent(summary(FIRST))), ALICE[:15])


def test_a_conversation_of_others_is_written_in_full() -> None:
    assert full_conversation_id(FIRST) == FIRST
    with pytest.raises(UsageError, match="it has 32 hex digits"):
        full_conversation_id(FIRST[:-1])


def test_what_the_sdk_finds_wrong_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="a score is from"), explained():
        raise ValueError("a score is from -100 to 100")
    with pytest.raises(UsageError, match="UTF-8"), explained():
        "\udc80".encode()
