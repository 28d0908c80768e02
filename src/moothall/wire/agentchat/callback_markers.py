"""Where a content has callback markers, such as `@@cb:30s#ops@@look again` (agentchat wire 9.5)."""

import re
from collections.abc import Iterator
from typing import Final

MARKER: Final = "@@cb:"
FIRED: Final = "@@cb-fire@@"  # what the content of a fired callback starts with (agentchat wire 6.2)

_HEAD: Final = re.compile(r"@@cb:([0-9]+(?:\.[0-9]+)?)s(#[a-zA-Z0-9_-]{1,31})?@@")


def find_callbacks(content: str) -> Iterator[tuple[re.Match[str], int]]:
    """The head of each marker, and where its payload ends: at the next `@@cb:`, well-formed or not.

    The groups of the head are the seconds, and the channel if there is one.
    """
    start = content.find(MARKER)
    while start >= 0:
        head = _HEAD.match(content, start)
        following = content.find(MARKER, head.end() if head else start + len(MARKER))
        if head:
            yield head, following if following >= 0 else len(content)
        start = following
