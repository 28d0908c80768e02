"""Text of others, with what cannot be seen made visible.

Some characters steer a terminal, turn the direction of text, or are not shown at all. Then a person does not see
what a model reads. In texts that we hand out they are written as escapes. In JSON that is the same value; the
structured content of an answer keeps the characters themselves.
"""

import re
from typing import Final

# Controls beyond ASCII, marks and overrides of direction, invisible spaces and operators, line separators, tags and
# the selectors beside them. Joiners stay: scripts and emoji need them.
_UNSEEN: Final = (
    "\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff"
)
_in_json: Final = re.compile(f"[{_UNSEEN}]").sub
_in_words: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]").sub


def in_json(text: str) -> str:
    """JSON with the same value."""
    return _in_json(_escape, text)


def in_words(text: str) -> str:
    """A text for reading. Tabs and the ends of lines stay."""
    return _in_words(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
