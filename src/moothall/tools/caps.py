"""How much of what an agent heard fits into one answer. A model's context is small: an answer never floods it.

Items are counted in messages, in characters and in estimated tokens, whichever cap is reached first. An item is
shown whole, or not at all. One exception: an item that no answer could hold is cut, and says so.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

MESSAGES: Final = 50
CHARACTERS: Final = 32_000
MOST_MESSAGES: Final = 500
LEAST_CHARACTERS: Final = 1000
MOST_CHARACTERS: Final = 200_000
LEAST_TOKENS: Final = 300
SHORTEST: Final = 200  # characters; ids, keys and signatures are never cut

_ASCII_PER_TOKEN: Final = 4  # English and JSON; other scripts have about one token per character


class Caps(NamedTuple):
    messages: int = MESSAGES
    characters: int = CHARACTERS
    tokens: int | None = None


class Size(NamedTuple):
    """What an item takes."""

    characters: int
    tokens: int


def tokens_in(text: str) -> int:
    """Estimate how many tokens a model reads in a text, for all models: rather too many than too few."""
    plain = len(text) if text.isascii() else sum(character < "\x80" for character in text)
    return -(-plain // _ASCII_PER_TOKEN) + len(text) - plain


def size_of(text: str) -> Size:
    return Size(len(text), tokens_in(text))


def fitting(sizes: Iterable[Size], caps: Caps) -> int:
    """How many of the items fit, taken in their order. The first one counts, even if it alone is too large."""
    characters = tokens = taken = 0
    for size in sizes:
        characters += size.characters
        tokens += size.tokens
        is_over = characters > caps.characters or (caps.tokens is not None and tokens > caps.tokens)
        if taken == caps.messages or (is_over and taken):
            break
        taken += 1
    return taken


def fits(size: Size, caps: Caps) -> bool:
    """True if an answer can hold the item."""
    return size.characters <= caps.characters and (caps.tokens is None or size.tokens <= caps.tokens)


def room_for_text(text: str, other: Size, caps: Caps) -> int:
    """How many characters of a text fit beside the rest of its item, which has the size `other`."""
    most = max(0, min(len(text), caps.characters - other.characters))
    if caps.tokens is None:
        return most
    room = caps.tokens - other.tokens
    low, high = 0, most  # the longest beginning with few enough tokens
    while low < high:
        middle = (low + high + 1) // 2
        if tokens_in(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def newest(sizes: Sequence[Size], caps: Caps) -> int:
    """How many of the items fit, taken from the end."""
    return fitting(reversed(sizes), caps)


# -- whole documents --------------------------------------------------------------------------------------


class Shortened(NamedTuple):
    value: Any
    cut: int  # characters that are left out


def shortened(value: Any, characters: int = CHARACTERS) -> Shortened:
    """A JSON value whose texts together fit: the longest texts are cut first, all to one length.

    Names, numbers and short texts stay, so a document of very many parts can remain larger.
    """
    lengths = list(_lengths(value))
    if sum(lengths) <= characters:
        return Shortened(value, 0)
    low, high = SHORTEST, max(SHORTEST, *lengths)  # the greatest length with which all texts fit
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(length, middle) for length in lengths) <= characters:
            low = middle
        else:
            high = middle - 1
    return Shortened(_cut_texts(value, low), sum(max(0, length - low) for length in lengths))


def _lengths(value: Any) -> Iterator[int]:
    if isinstance(value, str):
        yield len(value)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _lengths(each)
    elif isinstance(value, list):
        for each in value:
            yield from _lengths(each)


def _cut_texts(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return value[:most]
    if isinstance(value, dict):
        return {name: _cut_texts(each, most) for name, each in value.items()}
    return [_cut_texts(each, most) for each in value] if isinstance(value, list) else value
