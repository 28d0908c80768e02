"""The flags of the reference's `agentchat daemon`, as commands of `moothall daemon` (agentchat wire 19.2).

agentchat daemon wss://hall.example.org -b -n bob      moothall daemon start wss://hall.example.org -n bob
agentchat daemon -n bob --stop                         moothall daemon stop -n bob
"""

from collections.abc import Collection, Sequence
from typing import Final

from moothall.cli._addresses import looks_like_url

_COMMANDS: Final = {
    "-s": ("status",),
    "--status": ("status",),
    "-l": ("list",),
    "--list": ("list",),
    "--stop": ("stop",),
    "--stop-all": ("stop", "--all"),
}
_BACKGROUND: Final = frozenset(("-b", "--background"))
_HELP: Final = frozenset(("-h", "--help"))


def translate(arguments: Sequence[str], commands: Collection[str]) -> list[str]:
    """Return the arguments with the command that the flags stand for; unchanged if a command is named."""
    words = list(arguments)
    if not words or words[0] in commands or not _HELP.isdisjoint(words):
        return words
    for flag, command in _COMMANDS.items():
        if flag in words:
            words.remove(flag)
            return [*command, *words]
    if not words[0].startswith("-") and not looks_like_url(words[0]):
        return words
    if _BACKGROUND.isdisjoint(words):
        return ["start", "--foreground", *words]
    return ["start", *(word for word in words if word not in _BACKGROUND)]
