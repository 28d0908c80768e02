"""What users may spell in several ways: one name or a list of them, a channel with or without its #."""

from collections.abc import Iterable

from moothall.wire.agentchat.names import is_channel_name, with_hash


def several(names: str | Iterable[str]) -> tuple[str, ...]:
    """A text is one name, not a list of letters."""
    return (names,) if isinstance(names, str) else tuple(names)


def target(word: str) -> str:
    """Where a message goes: an @agent or a channel, which needs no #."""
    return word if word.startswith("@") else with_hash(word)


def channel_names(channels: str | Iterable[str]) -> tuple[str, ...]:
    """With their #. Raises ValueError for what no hall takes as the name of a channel."""
    return tuple(_channel_name(channel) for channel in several(channels))


def _channel_name(word: object) -> str:
    if not isinstance(word, str) or not is_channel_name(name := with_hash(word)):
        raise ValueError(f"{word!r} is not the name of a channel: # and 1 to 31 letters, digits, - or _")
    return name
