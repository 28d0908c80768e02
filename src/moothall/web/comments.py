"""Comments stay in the sources of the page, and are not sent to browsers.

They are a seventh of the page. What browsers get is still the source, line by line, with its names and its layout.
Libraries of others are sent as they are: their hashes are listed.

A line of a template or a regular expression may look like a comment, and patterns cannot tell. So
tests/web/test_comments.py parses every module of the page with and without its comments, and compares the trees.
"""

import re
from typing import Final

_BLOCK: Final = re.compile(rb"^[ \t]*/\*(?!!)(?:[^*]|\*(?!/))*\*/[ \t]*\n", re.MULTILINE)
_LINE: Final = re.compile(rb"^[ \t]*//[^\n]*\n", re.MULTILINE)
# At the end of a statement or an opening line. With a quotation mark or a backtick it may be a string: it is sent.
_TRAILING: Final = re.compile(rb"(?<=[;,{(\[})\]]) // [^\"'`\n]*$", re.MULTILINE)


def without_comments(name: str, content: bytes) -> bytes:
    """`name` is that of a file below the folder of the page."""
    if name.startswith("vendor/") or not name.endswith((".js", ".css")):
        return content
    content = _BLOCK.sub(b"", content)
    if name.endswith(".js"):
        content = _TRAILING.sub(b"", _LINE.sub(b"", content))
    return content.lstrip(b"\n")
