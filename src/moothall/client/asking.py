"""`agent.ask`: send a question, and wait for its answer."""

# ruff: noqa: ASYNC109  # as for all operations

import asyncio
import re
from typing import Any, Final

from moothall.client import question
from moothall.client.handlers import Handlers
from moothall.client.message import Message
from moothall.client.question import Question
from moothall.client.trading import Trades
from moothall.errors import AgentNotFound, ChannelNotFound, NoAnswer, NotConnected, UsageError
from moothall.wire.agentchat.names import SERVER, bare_id, is_channel_name, with_hash

ASK_TIMEOUT: Final = 60.0  # seconds
# An agent that takes turns claims a question after 8 seconds at the latest (agentchat wire 9.5).
GUESS_AFTER: Final = 10.0

_is_key_id: Final = re.compile("[0-9a-f]{8}|[0-9a-f]{16}").fullmatch  # agentchat wire 3.2
_is_generated_id: Final = re.compile("[0-9a-z]{8}").fullmatch


class Asks(Trades):
    _handlers: Handlers

    async def ask(self, target: str, text: str, *, timeout: float = ASK_TIMEOUT) -> Message:
        """Ask a channel, or an agent directly, the question `text`, and return the answer.

        `target` is a channel, which the agent enters, or an agent by `@id` or `@name`. Without # and @ it is a
        channel, or an agent if there is no such channel. The answer is a reply to the question, or the next
        message of the agent that has claimed the floor for it; in a direct conversation the peer's next message.
        A message that names this agent counts too. After ten seconds without a claim any other message does,
        because agents of other programs know neither replies nor claims. Lines from @server never count.

        Raises NoAnswer when none comes within `timeout` seconds, AgentNotFound when there is no such agent, and
        UsageError when several agents have this name.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        place = await self._find(target, deadline)
        asked = Question(place, self._session.names())
        watch = _Answer(asked)
        self._handlers.watches.add(watch, *question.EVENTS)
        try:
            watch.sent(await self._speech.speak(place, text, patience=_until(deadline)))
            answer = await watch.wait(deadline, min(deadline, loop.time() + GUESS_AFTER))
        finally:
            self._handlers.watches.remove(watch)
        if answer is None:
            raise NoAnswer(_silence(asked, timeout))
        return answer

    # -- whom to ask -------------------------------------------------------------------------------

    async def _find(self, target: str, deadline: float) -> str:
        if target == SERVER:
            raise UsageError("@server answers no questions: ask a channel or an agent")
        if target.startswith("#") or is_channel_name(with_hash(target)):
            try:
                await self._enter(with_hash(target), deadline)
            except ChannelNotFound:
                if target.startswith("#"):
                    raise
            else:
                return with_hash(target)
        agent = await self._agent_called(bare_id(target), deadline)
        if agent is None:
            known = "" if target.startswith("@") else "channel or "
            raise AgentNotFound(f"there is no {known}agent {bare_id(target)!r} here; ask an agent by its id")
        return f"@{agent}"

    async def _enter(self, channel: str, deadline: float) -> None:
        if channel not in self._session.rooms:
            await self.join(channel, timeout=_until(deadline))

    async def _agent_called(self, word: str, deadline: float) -> str | None:
        """The id. What looks like the id of a key is one: another agent could take it as its name."""
        if _is_key_id(word):
            return word
        found = {bare_id(member.id): member for member in await self.agents(timeout=_until(deadline))}
        if word in found:
            return word
        called = sorted(agent for agent, member in found.items() if member.name == word)
        if len(called) > 1:
            ids = ", ".join(f"@{agent}" for agent in called)
            raise UsageError(f"{len(called)} agents are called {word}: {ids}. Ask one by its id")
        if not called and _is_generated_id(word):
            return word  # of an agent without a key; not all servers tell of it
        return called[0] if called else None


class _Answer:
    """A watch that ends with the answer to a question."""

    def __init__(self, asked: Question) -> None:
        self._question = asked
        self._found: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def heard(self, event: str, what: Any) -> None:
        self._question.hear(event, what)
        self._look()

    def sent(self, msg_id: str | None) -> None:
        self._question.sent(msg_id)
        self._look()

    def end(self, error: BaseException | None) -> None:
        if not self._found.done():
            self._found.set_exception(error or NotConnected("the agent left the hall"))
            self._found.exception()  # seen: perhaps the question is still being sent

    async def wait(self, deadline: float, guess_at: float) -> Message | None:
        """None when there is no answer at the deadline."""
        await self._look_until(guess_at)
        self._question.take_guesses()
        self._look()
        await self._look_until(deadline)
        return self._found.result() if self._found.done() else None

    async def _look_until(self, moment: float) -> None:
        await asyncio.wait((self._found,), timeout=_until(moment))

    def _look(self) -> None:
        if self._question.answer is not None and not self._found.done():
            self._question.answer.got()
            self._found.set_result(self._question.answer)


def _until(moment: float) -> float:
    """Seconds."""
    return max(0.0, moment - asyncio.get_running_loop().time())


def _silence(asked: Question, timeout: float) -> str:
    text = f"no answer from {asked.place} within {timeout:g} s"
    if working := asked.claimants:
        text += f"; {' and '.join(working)} claimed the question and may still answer"
    return text
