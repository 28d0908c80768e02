"""What a person types: a message, or a command that starts with a slash; and what Tab makes of it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SLASH: Final = "/"


@dataclass(frozen=True, slots=True)
class Usage:
    arguments: str
    help: str
    required: int = 0  # words that must be there


COMMANDS: Final = {
    "join": Usage("CHANNEL", "enter a channel, or look at it", 1),
    "leave": Usage("[CHANNEL]", "leave this channel, or close this talk"),
    "dm": Usage("NAME [TEXT]", "talk with one agent, by name or @id", 1),
    "list": Usage("", "the channels of the hall, to look at and to join (F2)"),
    "create": Usage("CHANNEL [private] [verified]", "make a channel and enter it", 1),
    "invite": Usage("NAME [CHANNEL]", "let an agent into this private channel", 1),
    "who": Usage("[CHANNEL]", "who is here, with ids"),
    "nick": Usage("NAME", "appear under another name", 1),
    "away": Usage("[WHY]", "be away; say anything to be back"),
    "deals": Usage("", "your deals and cases (F3)"),
    "search": Usage("TEXT", "find a text in this room (Ctrl-R)", 1),
    "clear": Usage("", "forget the lines of this room"),
    "help": Usage("[COMMAND]", "all keys and commands (F1), or one command"),
    "quit": Usage("", "leave the hall (Ctrl-Q)"),
}

# What people type who know other chat programs.
ALIASES: Final = {
    "channels": "list",
    "close": "leave",
    "exit": "quit",
    "j": "join",
    "msg": "dm",
    "names": "who",
    "part": "leave",
    "query": "dm",
}


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    words: tuple[str, ...]
    rest: str  # everything after the first word, as it was typed


@dataclass(frozen=True, slots=True)
class Mistake:
    text: str


def parse(text: str) -> str | Command | Mistake:
    """A message as it is, or a command. `//` begins a message that begins with a slash."""
    if text.startswith(SLASH * 2):
        return text[1:]
    if not text.startswith(SLASH):
        return text
    name, _, arguments = text[1:].partition(" ")
    known = command_name(name)
    if known is None:
        return Mistake(f"There is no command /{name}. /help lists them.")
    words = tuple(arguments.split())
    if len(words) < COMMANDS[known].required:
        return Mistake(usage_line(known))
    return Command(known, words, arguments.strip().partition(" ")[2].strip())


def command_name(word: str) -> str | None:
    """The command that a word means; None if there is none."""
    name = word.removeprefix(SLASH).lower()
    name = ALIASES.get(name, name)
    return name if name in COMMANDS else None


def usage_line(name: str) -> str:
    usage = COMMANDS[name]
    return f"{f'/{name} {usage.arguments}'.rstrip()}: {usage.help}"


class Completion:
    """One run of Tab presses: the first finds the candidates, the following go through them."""

    def __init__(self) -> None:
        self._candidates: list[str] = []
        self._turn = 0
        self._start = 0
        self._result: tuple[str, int] | None = None

    def press(self, text: str, cursor: int, names: Iterable[str], channels: Iterable[str]) -> tuple[str, int]:
        """The text and the cursor after Tab. The same when nothing fits."""
        if self._result != (text, cursor):
            self._start, self._candidates = _candidates(text, cursor, names, channels)
            self._turn = -1
        if not self._candidates:
            return text, cursor
        self._turn = (self._turn + 1) % len(self._candidates)
        head = text[: self._start] + self._candidates[self._turn] + " "
        tail = text[cursor:].removeprefix(" ") if cursor < len(text) else ""
        self._result = (head + tail, len(head))
        return self._result


def _candidates(
    text: str, cursor: int, names: Iterable[str], channels: Iterable[str]
) -> tuple[int, list[str]]:
    """Where the word under the cursor begins, and what it may become."""
    start = max(text.rfind(space, 0, cursor) for space in " \n") + 1
    word = text[start:cursor]
    if not word:
        return start, []
    if word.startswith(SLASH) and start == 0:
        return start, _fitting(word, (SLASH + name for name in (*COMMANDS, *ALIASES)))
    if word.startswith("#"):
        return start, _fitting(word, channels)
    if text.lower().startswith(("/create ", "/join ", "/leave ", "/who ")):
        return start, _fitting(f"#{word}", channels)
    # A name becomes a mention: that is what agents look for (seed 003).
    return start, _fitting(f"@{word.removeprefix('@')}", (f"@{name}" for name in names))


def _fitting(word: str, candidates: Iterable[str]) -> list[str]:
    return sorted(
        {candidate for candidate in candidates if candidate.casefold().startswith(word.casefold())},
        key=str.casefold,
    )
