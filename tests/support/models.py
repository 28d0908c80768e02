"""A stand-in for the companies and programs that serve language models, on a free port of 127.0.0.1.

It speaks two HTTP interfaces, as far as one answer without streaming goes: Anthropic's messages, and OpenAI's chat
completions, which most local servers speak too. What a provider would refuse, it refuses in the provider's form. So
the official client libraries can be run against it.
"""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from queue import Queue
from threading import Thread
from typing import Any, Final

from tests.support.server import PATIENCE

KEY: Final = "test-key"
MODEL: Final = "stand-in"
MESSAGES: Final = "/v1/messages"
COMPLETIONS: Final = "/v1/chat/completions"


class Unacceptable(Exception):
    """What the provider would say no to."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


@dataclass(frozen=True)
class Asked:
    """One request, as the model got it."""

    path: str
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """What the user said."""
        content = self.body["messages"][-1]["content"]
        assert isinstance(content, str)
        return content


@dataclass(frozen=True)
class Wanted:
    """A tool that the model wants to have called."""

    tool: str
    arguments: dict[str, Any]


@dataclass
class Models:
    """`answer` says what the model says; None holds the request until the client gives up."""

    url: str = ""
    answer: "Callable[[Asked], str | Wanted | None]" = lambda asked: "I am a stand-in"
    asked: "Queue[Asked]" = field(default_factory=Queue)
    refused: "Queue[str]" = field(default_factory=Queue)
    abandoned: "Queue[Asked]" = field(default_factory=Queue)

    @property
    def environment(self) -> dict[str, str]:
        """What the client libraries, and our examples, need to find it."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": KEY,
            "MODEL": MODEL,
        }


@contextmanager
def running_models() -> Iterator[Models]:
    models = Models()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(models))
    server.daemon_threads = True
    models.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield models
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


def _handler(models: Models) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                body = _checked(self.path, dict(self.headers.items()), content)
            except Unacceptable as error:
                models.refused.put(str(error))
                self._send(error.status, _error(self.path, error))
                return
            asked = Asked(self.path, body)
            models.asked.put(asked)
            said = models.answer(asked)
            if said is None:
                self.connection.settimeout(PATIENCE)
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    models.abandoned.put(asked)
                self.close_connection = True
                return
            self._send(200, _message(body, said) if self.path == MESSAGES else _completion(body, said))

        def _send(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
            """Nothing: what is of interest is in the queues."""

    return Handler


def _checked(path: str, headers: dict[str, str], content: bytes) -> dict[str, Any]:
    given = {name.lower(): value for name, value in headers.items()}
    body = json.loads(content)
    if path == MESSAGES:
        if KEY not in (given.get("x-api-key"), given.get("authorization", "").removeprefix("Bearer ")):
            raise Unacceptable(401, "authentication_error", "invalid key")
        if not given.get("anthropic-version"):
            raise Unacceptable(400, "invalid_request_error", "anthropic-version: header is required")
        _require(body, {"model": str, "max_tokens": int, "messages": list})
        _check_roles(body["messages"], ("user", "assistant"))
        if body["messages"][0]["role"] != "user":
            raise Unacceptable(400, "invalid_request_error", "messages: first message must use the user role")
    elif path == COMPLETIONS:
        if given.get("authorization") != f"Bearer {KEY}":
            raise Unacceptable(401, "invalid_request_error", "Incorrect API key provided")
        _require(body, {"model": str, "messages": list})
        _check_roles(body["messages"], ("system", "user", "assistant", "tool"))
    else:
        raise Unacceptable(404, "not_found_error", f"{path} is not served")
    if body.get("stream"):
        raise Unacceptable(400, "invalid_request_error", "the stand-in does not stream")
    return dict(body)


def _require(body: object, fields: dict[str, type]) -> None:
    if not isinstance(body, dict):
        raise Unacceptable(400, "invalid_request_error", "an object is required")
    for name, kind in fields.items():
        if not isinstance(body.get(name), kind) or not body[name]:
            raise Unacceptable(400, "invalid_request_error", f"{name}: field required")


def _check_roles(messages: list[Any], roles: tuple[str, ...]) -> None:
    for number, message in enumerate(messages):
        if message.get("role") not in roles or not (message.get("content") or message.get("tool_calls")):
            raise Unacceptable(400, "invalid_request_error", f"messages.{number}: role or content")


def _error(path: str, error: Unacceptable) -> dict[str, Any]:
    if path == MESSAGES:
        return {"type": "error", "error": {"type": error.kind, "message": str(error)}}
    return {"error": {"type": error.kind, "message": str(error), "param": None, "code": None}}


_ids = count(1)


def _message(body: dict[str, Any], said: str | Wanted) -> dict[str, Any]:
    """Models may think before they speak, or not speak at all."""
    number = next(_ids)
    content: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "What might a moot be?", "signature": "c2lnbmVk"}
    ]
    if isinstance(said, Wanted):
        content.append(
            {"type": "tool_use", "id": f"toolu_{number}", "name": said.tool, "input": said.arguments}
        )
    elif said:
        content.append({"type": "text", "text": said})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if isinstance(said, Wanted) else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _completion(body: dict[str, Any], said: str | Wanted) -> dict[str, Any]:
    number = next(_ids)
    message: dict[str, Any] = {"role": "assistant", "content": said}
    if isinstance(said, Wanted):
        function = {"name": said.tool, "arguments": json.dumps(said.arguments)}
        calls = [{"id": f"call_{number}", "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
