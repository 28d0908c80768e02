"""The APIs of models, through the libraries of their providers: one conversation, turn by turn.

A conversation is the prompt and a row of exchanges: what the model said, and what its tools answered. When it gets
too long, the oldest exchanges are left out. The prompt stays.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

MAX_REPLY: Final = 8192  # tokens of one reply
RETRIES: Final = 5  # of a request that the provider is too busy for; the libraries wait longer each time
CHARACTERS: Final = 4  # of a token, roughly
CACHED: Final = {"type": "ephemeral"}


class ToolCall(NamedTuple):
    id: str
    name: str
    arguments: Mapping[str, Any]


class Turn(NamedTuple):
    """What the model said, in the form of Anthropic's API. The events that the guard reads have the same form."""

    id: str
    content: list[dict[str, Any]]
    calls: list[ToolCall]
    usage: dict[str, Any]


class Described(NamedTuple):
    """A tool, as a model sees it."""

    name: str
    purpose: str
    schema: dict[str, Any]


class Speaker(Protocol):
    @property
    def errors(self) -> type[Exception]:
        """What the library raises when the provider refuses, or cannot be reached."""
        ...

    async def turn(self) -> Turn:
        """Ask the model for its next turn, and keep it. Raises `errors`."""
        ...

    def answer(self, answers: Sequence[tuple[ToolCall, str, bool]]) -> None:
        """Keep the answers of the tools: the call, the text, and True for a failure."""
        ...


class Exchanges:
    """Bounded: the oldest make way. Each is a list of messages that belong together."""

    def __init__(self, first: list[dict[str, Any]], tokens: int) -> None:
        self._first = first
        self._most = tokens * CHARACTERS
        self._kept: list[tuple[int, list[dict[str, Any]]]] = []

    def begin(self, message: dict[str, Any]) -> None:
        self._kept.append((_length(message), [message]))

    def add(self, messages: list[dict[str, Any]]) -> None:
        """To the exchange that was begun last."""
        length, kept = self._kept[-1]
        self._kept[-1] = (length + sum(map(_length, messages)), kept + messages)
        while len(self._kept) > 1 and sum(length for length, _ in self._kept) > self._most:
            del self._kept[0]

    def messages(self) -> list[dict[str, Any]]:
        return [*self._first, *(message for _, kept in self._kept for message in kept)]


def _length(message: dict[str, Any]) -> int:
    return len(json.dumps(message))


class Anthropic:
    """The Messages API. Tools and system prompt, and the conversation so far, are cached by the provider."""

    def __init__(self, model: str, system: str, prompt: str, tools: Sequence[Described], tokens: int) -> None:
        from anthropic import APIError, AsyncAnthropic

        self.errors = APIError
        self._client = AsyncAnthropic(max_retries=RETRIES)
        self._model = model
        self._fixed: dict[str, Any] = {
            "tools": [
                {"name": each.name, "description": each.purpose, "input_schema": each.schema}
                for each in tools
            ]
        }
        if self._fixed["tools"]:
            self._fixed["tools"][-1]["cache_control"] = CACHED
        if system:
            self._fixed["system"] = [{"type": "text", "text": system, "cache_control": CACHED}]
        first = {"role": "user", "content": [{"type": "text", "text": prompt}]}
        self._exchanges = Exchanges([first], tokens)

    async def turn(self) -> Turn:
        messages: list[Any] = self._exchanges.messages()
        *rest, last = messages[-1]["content"]
        messages[-1] = {**messages[-1], "content": [*rest, {**last, "cache_control": CACHED}]}
        reply = await self._client.messages.create(
            model=self._model, max_tokens=MAX_REPLY, messages=messages, **self._fixed
        )
        content = [block.model_dump(exclude_none=True) for block in reply.content]
        self._exchanges.begin({"role": "assistant", "content": content})
        calls = [
            ToolCall(block["id"], block["name"], block["input"])
            for block in content
            if block["type"] == "tool_use"
        ]
        return Turn(reply.id, content, calls, reply.usage.model_dump(exclude_none=True))

    def answer(self, answers: Sequence[tuple[ToolCall, str, bool]]) -> None:
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": is_error}
            for call, text, is_error in answers
        ]
        self._exchanges.add([{"role": "user", "content": results}])


class OpenAI:
    """Chat completions, of OpenAI or of any endpoint that speaks like it (`OPENAI_BASE_URL`)."""

    def __init__(self, model: str, system: str, prompt: str, tools: Sequence[Described], tokens: int) -> None:
        from openai import AsyncOpenAI, OpenAIError

        self.errors = OpenAIError
        self._client = AsyncOpenAI(max_retries=RETRIES)
        self._model = model
        self._tools: list[Any] = [
            {
                "type": "function",
                "function": {"name": each.name, "description": each.purpose, "parameters": each.schema},
            }
            for each in tools
        ]
        first = [{"role": "system", "content": system}] if system else []
        self._exchanges = Exchanges([*first, {"role": "user", "content": prompt}], tokens)

    async def turn(self) -> Turn:
        messages: list[Any] = self._exchanges.messages()
        reply = await self._client.chat.completions.create(
            model=self._model, messages=messages, tools=self._tools
        )
        said = reply.choices[0].message
        wanted = [call for call in said.tool_calls or () if call.type == "function"]
        message: dict[str, Any] = {"role": "assistant", "content": said.content or ""}
        if wanted:
            message["tool_calls"] = [call.model_dump(exclude_none=True) for call in wanted]
        self._exchanges.begin(message)
        calls = [
            ToolCall(call.id, call.function.name, _arguments(call.function.arguments)) for call in wanted
        ]
        content: list[dict[str, Any]] = [{"type": "text", "text": said.content}] if said.content else []
        content += [
            {"type": "tool_use", "id": id_, "name": name, "input": given} for id_, name, given in calls
        ]
        used = reply.usage
        usage = (
            {}
            if used is None
            else {"input_tokens": used.prompt_tokens, "output_tokens": used.completion_tokens}
        )
        return Turn(reply.id, content, calls, usage)

    def answer(self, answers: Sequence[tuple[ToolCall, str, bool]]) -> None:
        self._exchanges.add(
            [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text, _ in answers]
        )


def _arguments(text: str) -> Mapping[str, Any]:
    """What a model wrote as arguments. The tool refuses what does not fit, and says what would."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {"text": text}
    return found if isinstance(found, dict) else {"value": found}


# Model, system prompt, prompt, tools, tokens of the conversation.
Make = Callable[[str, str, str, Sequence[Described], int], Speaker]

SPEAKERS: Final[Mapping[str, Make]] = {"anthropic": Anthropic, "openai": OpenAI}
