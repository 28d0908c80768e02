"""The programs that speak to a model, behind one small protocol: each says how a session is started.

The guard starts the program, and gives it the token as a variable of its environment. None of them runs in the
process of the runner.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from moothall.errors import UsageError
from moothall.extras import install_command
from moothall.worker.agent_folder import GUARD_STATE
from moothall.worker.runner.conversation import Conversation
from moothall.worker.supervisor.registration import BUDGET_VARIABLE, SERVER

NO_GRO: Final = "the runtime gro is not offered here"
MODEL: Final = "claude-haiku-5-5"
TOKEN_VARIABLE: Final = "CLAUDE_CODE_OAUTH_TOKEN"  # noqa: S105  # its name
CONTEXT_TOKENS: Final = 100_000  # of a conversation over an API; then its oldest exchanges are left out
LEAST_TOKENS: Final = 4096
MOST_TOKENS: Final = 10_000_000
CONTAINER_BINARY: Final = Path("/usr/local/bin/.claude-supervisor")  # seed 001: not to be found as `claude`
BUILT_IN: Final = (
    "rg",
    "bfs",
    "ugrep",
)  # tools in the program of Claude Code, which it starts under these names
FETCHES: Final = "fetch"  # an agent with this in its name reads pages of strangers (agentchat wire 19.4)
RESTRICTED: Final = '{"permissions": {"deny": ["Bash", "Edit", "Write", "NotebookEdit"]}}'
MAX_ARGUMENT: Final = 128 * 1024 - 1  # bytes (Linux, MAX_ARG_STRLEN)


@dataclass(frozen=True, slots=True)
class Session:
    """What a session is about, and the files that hold it."""

    name: str
    number: int
    prompt: str
    system: str
    prompt_file: Path
    system_file: Path
    mcp_servers: Path
    model: str = MODEL
    conversation: Conversation | None = None  # one that goes on; None: a new one each time


class Launch(NamedTuple):
    """`has_events`: the program prints JSON events, as `events.py` reads them."""

    words: list[str]
    variables: Mapping[str, str] = {}
    token_variable: str = TOKEN_VARIABLE
    has_events: bool = False
    only_one: str | None = None  # a file that may run once at a time
    also_as: tuple[str, ...] = ()  # names under which that file is another program


class Backend(Protocol):
    def launch(self, session: Session, environment: Mapping[str, str]) -> Launch:
        """How to start the program. Raises UsageError if it is not there."""
        ...


@dataclass(frozen=True, slots=True)
class Cli:
    """`claude -p`, with our tools and no others."""

    container_binary: Path = field(default=CONTAINER_BINARY)

    def launch(self, session: Session, environment: Mapping[str, str]) -> Launch:
        words = [self._binary(environment), "-p", session.prompt, "--model", session.model]
        if session.system:
            words += ["--append-system-prompt", session.system]
        if session.conversation is not None:
            flag = "--resume" if session.conversation.is_begun else "--session-id"
            words += [flag, session.conversation.id]
        if settings := environment.get("SETTINGS_FILE") or (RESTRICTED if FETCHES in session.name else None):
            words += ["--settings", settings]
        words += ["--mcp-config", str(session.mcp_servers), "--strict-mcp-config"]
        words += ["--allowedTools", f"mcp__{SERVER}", "--output-format", "stream-json", "--verbose"]
        return Launch(_bounded(words), has_events=True, only_one=words[0], also_as=BUILT_IN)

    def _binary(self, environment: Mapping[str, str]) -> str:
        if given := environment.get("CLAUDE_CMD"):
            return shutil.which(given, path=environment.get("PATH")) or given
        if os.access(self.container_binary, os.X_OK):
            return str(self.container_binary)
        found = shutil.which("claude", path=environment.get("PATH"))
        if found is None:
            raise UsageError(
                "there is no program claude in PATH: install Claude Code, name it with CLAUDE_CMD, or choose"
                " another runtime. For containers, `make image ARGS='--model-cli /path/to/claude'` puts it into"
                " the image"
            )
        return found


class Command:
    """Any program: `AGENT_COMMAND`, as a shell would split it. It reads its prompt from files."""

    def launch(self, session: Session, environment: Mapping[str, str]) -> Launch:
        try:
            words = shlex.split(environment.get("AGENT_COMMAND", ""))
        except ValueError as error:
            raise UsageError(f"AGENT_COMMAND cannot be read: {error}") from None
        if not words:
            raise UsageError(
                "AGENT_COMMAND is missing: the runtime `command` starts the program that it names"
            )
        return Launch(
            words,
            {
                "AGENT_SESSION": str(session.number),
                "AGENT_PROMPT_FILE": str(session.prompt_file),
                "AGENT_SYSTEM_FILE": str(session.system_file),
                "AGENT_MCP_CONFIG": str(session.mcp_servers),
            },
        )


@dataclass(frozen=True, slots=True)
class ToolLoop:
    """Our own program for an API of models (`tool_loop.py`), with the SDK of the provider."""

    sdk: str  # the module, and the extra that installs it
    token_variable: str
    default_model: str | None

    def launch(self, session: Session, environment: Mapping[str, str]) -> Launch:
        if find_spec(self.sdk) is None:
            raise UsageError(f"this AGENT_RUNTIME needs the extra {self.sdk}: {install_command(self.sdk)}")
        model = environment.get("AGENT_MODEL") or self.default_model
        if model is None:
            raise UsageError("AGENT_MODEL is missing: name a model that the endpoint serves")
        words = [sys.executable, "-P", "-m", "moothall.worker.runner.tool_loop", self.sdk, model]
        words += [str(session.prompt_file), str(session.system_file), str(session.mcp_servers)]
        words.append(str(_context_tokens(environment)))
        variables = {
            "MOOTHALL_NAME": session.name,
            BUDGET_VARIABLE: str(session.mcp_servers.with_name(GUARD_STATE)),
        }
        return Launch(words, variables, self.token_variable, has_events=True)


BACKENDS: Final[Mapping[str, Callable[[], Backend]]] = {
    "cli": Cli,
    "command": Command,
    "api": lambda: ToolLoop("anthropic", "ANTHROPIC_API_KEY", MODEL),
    "openai": lambda: ToolLoop("openai", "OPENAI_API_KEY", None),
}


def _context_tokens(environment: Mapping[str, str]) -> int:
    text = environment.get("AGENT_CONTEXT_TOKENS") or str(CONTEXT_TOKENS)
    if not text.isascii() or not text.isdigit() or not LEAST_TOKENS <= int(text[:9]) <= MOST_TOKENS:
        raise UsageError(
            f"AGENT_CONTEXT_TOKENS {text[:40]!r}: give a number from {LEAST_TOKENS:,} to {MOST_TOKENS:,}"
        )
    return int(text)


def named(runtime: str) -> Backend:
    """Raises UsageError for a runtime that does not exist."""
    make = BACKENDS.get(runtime)
    if make is None:
        reason = NO_GRO if runtime == "gro" else f"AGENT_RUNTIME {runtime[:40]!r} is not known"
        raise UsageError(f"{reason}: choose one of {', '.join(BACKENDS)}")
    return make()


def _bounded(words: list[str]) -> list[str]:
    for word in words:
        if len(word.encode(errors="replace")) > MAX_ARGUMENT:
            raise UsageError(
                "the prompt is longer than an argument of a program can be: shorten the mission or the personality"
            )
    return words
