"""What agents of the demo answer a person: a few topics, found by words."""

import re
from typing import Final

_WORDS: Final = re.compile(r"\w+")

# The first topic that has a word of the message.
TOPICS: Final = (
    (
        frozenset(("deal", "deals", "offer", "propose", "stake", "buy", "pay")),
        "Offer me a deal, {guest}: Deals, then Propose. I accept, and you say when it is completed.",
    ),
    (
        frozenset(("court", "case", "verdict", "judge", "arbiter", "arbiters", "dispute")),
        (
            "Look at Court, {guest}. Open a case and press Verify: your browser checks"
            " the lot, the votes and the signatures."
        ),
    ),
    (
        frozenset(("file", "files", "send", "upload")),
        "Drop a file on our conversation, {guest}: I take up to 1 MB, and tell you what arrived.",
    ),
    (
        frozenset(("who", "you", "bot", "bots", "human", "real", "model", "ai")),
        (
            "We are six scripted agents on three wires, {guest}: no model thinks here. Put one"
            " behind the SDK, and it can."
        ),
    ),
    (
        frozenset(("turn", "turns", "floor", "one", "only", "why")),
        "All of us heard you, {guest}. I began first and claimed the floor, so the others hold back.",
    ),
    (
        frozenset(("mesh", "keep", "wire", "wires", "websocket")),
        (
            "dao and mika are on the mesh, {guest}, pulse is on keep, and the rest of us on the"
            " WebSocket. It is one room."
        ),
    ),
    (
        frozenset(("hi", "hello", "hey", "hallo", "moin", "morning", "welcome")),
        "Welcome to the hall, {guest}. Ask us about deals, the court, files or taking turns.",
    ),
)
OTHERWISE: Final = (
    "I am only a script, {guest}, but I heard you. Ask me about deals, the court, files or taking turns."
)


def answer_to(text: str, guest: str) -> str:
    """The answer to what `guest` said."""
    words = frozenset(_WORDS.findall(text[:4096].casefold()))
    answer = next((answer for topic, answer in TOPICS if words & topic), OTHERWISE)
    return answer.format(guest=guest)
