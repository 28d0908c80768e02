"""The exit code of a session, from how the guard and the model's program ended (agentchat wire 19.4). Pure."""

import re
from collections.abc import Iterable
from typing import Final

CLEAN: Final = 0
FAILED: Final = 1
HOPELESS: Final = 2  # another start would not help: no budget, no credit, no valid token
TERMINATED: Final = 143

LINES: Final = 50  # of the program's own last words
BUDGET: Final = "budget"  # a reason of the guard (agentchat wire 19.5)

_NO_LOGIN_OR_CREDIT: Final = re.compile(
    r"authentication[_ ](?:error|failed)|invalid (?:x-)?api[ -]key|invalid bearer token"
    r"|oauth token (?:has expired|revoked)|incorrect api key"
    r"|please run /login|credit balance is too low|insufficient[_ ]quota|billing[_ ]error",
    re.IGNORECASE,
)


def exit_code(code: int, guard_reason: str | None, own_words: Iterable[str], *, has_events: bool) -> int:
    """`code` is what the guard returned. `own_words` are lines of the program itself, if it prints events.

    A stranger's message that says `invalid api key` is not among them, and ends nothing. A program without events
    decides by its exit code alone.
    """
    if guard_reason == BUDGET:
        return HOPELESS
    if not has_events or code == CLEAN:
        return code
    if any(_NO_LOGIN_OR_CREDIT.search(line) for line in own_words):
        return HOPELESS
    return FAILED if code == HOPELESS else code  # its 2 says that its arguments were wrong
