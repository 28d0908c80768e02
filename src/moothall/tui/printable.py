"""Text that strangers wrote, made safe to put on a terminal.

A name or a message may carry anything. Escape sequences would let it move the cursor, rewrite what others
said or set the clipboard; direction marks and line separators would let it look like another message.
Characters whose width terminals disagree about would push the rest of a row out of its column.
"""

import re
import unicodedata
from typing import Final

MAX_SHOWN: Final = 10_000  # characters of one message; some halls take two million
MAX_NAME: Final = 32  # the longest name a hall lets in (agentchat wire 3.3)
MAX_MARKS: Final = 3  # combining marks on one letter; no language needs more, and a stack covers other rows
ELLIPSIS: Final = "…"

# C0 without the newline, DEL and C1 (a terminal may take U+009B for ESC [); line and paragraph separators;
# the marks that turn the direction of text around; halves of a surrogate pair, which no terminal can encode.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_TAB: Final = "    "

# Characters that show nothing themselves (Default_Ignorable_Code_Point), and skin tones. The joiner U+200D and the
# variation selectors make one picture of several characters in some terminals and leave several in others. The
# non-joiner U+200C stays: Persian is misspelt without it, and its width is zero everywhere.
_UNSTEADY: Final = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff]"
)


def printable(text: str) -> str:
    """The text with its line breaks, and without anything that would steer a terminal."""
    text = text.replace("\r\n", "\n").replace("\t", _TAB)
    return _UNPRINTABLE.sub("", text)


def steady(text: str) -> str:
    """Printable text that takes the same number of cells in every terminal, as far as Unicode allows.

    An emoji that is made of several, such as a family or a skin tone, is shown as its parts.
    """
    text = printable(text)
    if text.isascii():
        return text
    return _without_stacks(_UNSTEADY.sub("", text))


def shortened(text: str) -> str:
    """As much of a text as a screen should hold; a longer one ends with a note that says so."""
    if len(text) <= MAX_SHOWN:
        return text
    return f"{text[:MAX_SHOWN]}… ({len(text):,} characters; `moothall listen` shows all of them)"


def one_line(text: str) -> str:
    """The same on a single line."""
    return " ".join(printable(text).split("\n"))


def steady_line(text: str) -> str:
    """Steady text on a single line."""
    return " ".join(steady(text).split("\n"))


def exactly(text: str) -> str:
    """Every character of the text visible, on one line: what has no shape of its own is written as an escape.

    For text that is about to be signed. Two different texts never look alike because of a character that a
    terminal hides.
    """
    return "".join(_visible(letter) for letter in text)


def shown_name(name: str) -> str:
    """A name as any hall should have checked it; a hall that did not is not allowed to flood the line."""
    name = one_line(name)
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}{ELLIPSIS}"


def indented(text: str, margin: str) -> str:
    """Later lines stand under the first, so that no line of a message can pass for a message of its own."""
    return printable(text).replace("\n", f"\n{margin}")


def _without_stacks(text: str) -> str:
    kept: list[str] = []
    marks = 0
    for letter in text:
        marks = marks + 1 if unicodedata.combining(letter) else 0
        if marks <= MAX_MARKS:
            kept.append(letter)
    return "".join(kept)


def _visible(letter: str) -> str:
    if letter == "\\":
        return r"\\"
    is_plain = letter.isprintable() and not unicodedata.combining(letter) and not _UNSTEADY.match(letter)
    if is_plain and (letter == " " or not letter.isspace()):
        return letter
    return letter.encode("unicode_escape").decode()
