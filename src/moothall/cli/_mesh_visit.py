"""What the commands of the mesh share: the visit to the hall, and ids that may be abbreviated."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from moothall.cli import _chosen
from moothall.cli._addresses import hall_url
from moothall.cli._connecting import DEFAULT_TIMEOUT
from moothall.cli._deals import signing_key
from moothall.errors import CreditsRefused, UnknownRefusal, UsageError

if TYPE_CHECKING:
    from moothall.hall.mesh.frames import ConversationSummary
    from moothall.mesh import Conversation, MeshAgent

Answer = TypeVar("Answer")

CONVERSATION_DIGITS: Final = 32
AGENT_DIGITS: Final = 64
LEAST_DIGITS: Final = 4  # of a conversation: an abbreviation is compared with your own only
# Keys with the same first digits can be searched for, and fewer of them in an hour.
LEAST_AGENT_DIGITS: Final = 16
PAGE: Final = 100
MOST_COMPARED: Final = 1000  # conversations; with more of them an id is written in full

_CONVERSATIONS: Final = "`moothall mesh conversations` lists yours"
_AGENTS: Final = "`moothall mesh discover` prints whole ids"
_HEX: Final = re.compile(r"[0-9a-f]*", re.ASCII)

ConversationId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The conversation; its first digits, if no other has them.", show_default=False
    ),
]
Words = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="What to say to it.")]


@dataclass(frozen=True, slots=True)
class MeshVisit:
    """Where a command goes, with which key, and how long it waits for anything there."""

    url: str | None = None
    name: str | None = None
    identity: Path | None = None
    timeout: float = DEFAULT_TIMEOUT

    def agent(
        self, *, beacon: bool = False, stays: bool = False, inbox_limit: int | None = None
    ) -> "MeshAgent":
        """`beacon` shows the agent to others. An agent that `stays` reads its inbox and reconnects; a command that
        only does one thing leaves the inbox to it."""
        from moothall.mesh import MeshAgent

        # The agent logs what it lives through; a person is told by the command, in its own words.
        logging.getLogger("moothall.agent").addHandler(logging.NullHandler())
        path = signing_key(self.identity).expanduser()
        name = _chosen.name(self.name)
        with _chosen.blamed(name.origin), explained():
            return MeshAgent(
                name.value,
                key=path,
                beacon=beacon,
                inbox=stays,
                inbox_limit=inbox_limit,
                timeout=self.timeout,
                reconnect=stays,
                url=hall_url(self.url),
            )

    def ask(self, question: "Callable[[MeshAgent], Awaitable[Answer]]", *, beacon: bool = False) -> Answer:
        """Connect, ask, take the answer and leave."""
        return asyncio.run(self._ask(question, beacon=beacon))

    async def _ask(self, question: "Callable[[MeshAgent], Awaitable[Answer]]", *, beacon: bool) -> Answer:
        with explained():
            async with self.agent(beacon=beacon) as agent:
                return await question(agent)


@contextmanager
def explained() -> Iterator[None]:
    """The SDK raises ValueError for what the user wrote; on the command line that is wrong usage. What the rules of
    the credits do not allow is the hall's refusal here."""
    try:
        yield
    except CreditsRefused as error:
        raise UnknownRefusal(str(error), error.reason) from None
    except UnicodeError:
        raise UsageError("what is sent must be text in UTF-8") from None
    except ValueError as error:
        raise UsageError(str(error)) from None


async def find_conversation(agent: "MeshAgent", word: str) -> "Conversation":
    """The agent's own conversation that this id, or its first digits, names. Raises UsageError or a Refusal."""
    digits = _digits(word, CONVERSATION_DIGITS, LEAST_DIGITS, "a conversation", _CONVERSATIONS)
    if len(digits) < CONVERSATION_DIGITS:
        own = [each.conversation_id for each in await _own_conversations(agent)]
        digits = _only(digits, own, "conversations", _CONVERSATIONS)
    return await agent.conversation(digits)


async def find_agent(agent: "MeshAgent", word: str) -> str:
    """The id of the agent that this id names, or its first digits if it took part in a conversation of yours."""
    digits = _digits(word, AGENT_DIGITS, LEAST_AGENT_DIGITS, "an agent", _AGENTS)
    if len(digits) == AGENT_DIGITS:
        return digits
    met = {
        other
        for each in await _own_conversations(agent)
        for other in (each.requester, each.provider, each.notary)
        if other is not None
    }
    return _only(digits, sorted(met), "agents", _AGENTS)


def full_conversation_id(word: str) -> str:
    """Of a conversation that is not yours, so that there is nothing to compare an abbreviation with."""
    return _digits(word, CONVERSATION_DIGITS, CONVERSATION_DIGITS, "a conversation", _CONVERSATIONS)


async def _own_conversations(agent: "MeshAgent") -> "list[ConversationSummary]":
    """All of them: one that was left out might have the same first digits."""
    page = await agent.conversations(limit=PAGE)
    found = list(page.conversations)
    while page.before is not None:
        if len(found) >= MOST_COMPARED:
            raise UsageError(f"you have more than {MOST_COMPARED} conversations: write the whole id")
        page = await agent.conversations(limit=PAGE, before=page.before)
        found += page.conversations
    return found


def _digits(word: str, most: int, least: int, what: str, advice: str) -> str:
    digits = word.lower()
    if _HEX.fullmatch(digits) is None or not least <= len(digits) <= most:
        wanted = f"{most}" if least == most else f"{most}, or the first {least} or more,"
        raise UsageError(f"{word!r} is not the id of {what}: it has {wanted} hex digits; {advice}")
    return digits


def _only(digits: str, known: list[str], what: str, advice: str) -> str:
    fitting = [each for each in known if each.startswith(digits)]
    if not fitting:
        raise UsageError(f"none of your {what} begins with {digits}; {advice}")
    if len(fitting) > 1:
        raise UsageError(f"{len(fitting)} of your {what} begin with {digits}: write more of the id")
    return fitting[0]
