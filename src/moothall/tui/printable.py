"""Text that strangers wrote, made safe to put on a terminal.

A name or a message may carry anything. Escape sequences would let it move the cursor, rewrite what others
said or set the clipboard; direction marks and line separators would let it look like another message.
"""

import re
from typing import Final

MAX_NAME: Final = 32  # the longest name a hall lets in (agentchat wire 3.3)

# C0 without the newline, DEL and C1 (a terminal may take U+009B for ESC [); line and paragraph separators;
# the marks that turn the direction of text around; halves of a surrogate pair, which no terminal can encode.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_TAB: Final = "    "


def printable(text: str) -> str:
    """The text with its line breaks, and without anything that would steer a terminal."""
    text = text.replace("\r\n", "\n").replace("\t", _TAB)
    return _UNPRINTABLE.sub("", text)


def one_line(text: str) -> str:
    """The same on a single line."""
    return " ".join(printable(text).split("\n"))


def shown_name(name: str) -> str:
    """A name as any hall should have checked it; a hall that did not is not allowed to flood the line."""
    name = one_line(name)
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def indented(text: str, margin: str) -> str:
    """Later lines stand under the first, so that no line of a message can pass for a message of its own."""
    return printable(text).replace("\n", f"\n{margin}")
