"""The named topics that a node hears (mesh wire 5). It leaves a topic when the last watch of it has ended."""

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from moothall.errors import NodeRefused
from moothall.wire.mesh.broadcast_items import MAX_TOPIC
from moothall.wire.mesh.msg_types import NAMED_TOPIC

MAX_TOPICS: Final = 256


class Joins(Protocol):
    """The host, as topics use it. Topics have their full names."""

    def join(self, topic: str) -> None: ...

    def leave(self, topic: str) -> None: ...


class NamedTopics:
    def __init__(self, host: Joins) -> None:
        self._host = host
        self._asked: Counter[str] = Counter()  # how often, by the short name

    def __len__(self) -> int:
        return len(self._asked)

    def watch(self, slug: str) -> Callable[[], None]:
        """Join a topic, and return what ends that. Raises NodeRefused (400 or 503)."""
        if not 0 < len(slug.encode()) <= MAX_TOPIC:
            raise NodeRefused(400, f"The name of a topic has 1 to {MAX_TOPIC} bytes.")
        if not self._has_room(slug):
            raise NodeRefused(
                503, f"This node hears {MAX_TOPICS} topics, which is its limit. Leave one first."
            )
        self._asked[slug] += 1
        if self._asked[slug] == 1:
            self._host.join(NAMED_TOPIC + slug)
        is_over = False

        def unwatch() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._ended(slug)

        return unwatch

    def spoke(self, slug: str) -> None:
        """An agent that speaks in a topic hears it from then on, if there is room."""
        if slug not in self._asked and self._has_room(slug):
            self.watch(slug)

    def _has_room(self, slug: str) -> bool:
        return slug in self._asked or len(self._asked) < MAX_TOPICS

    def _ended(self, slug: str) -> None:
        self._asked[slug] -= 1
        if not self._asked[slug]:
            del self._asked[slug]
            self._host.leave(NAMED_TOPIC + slug)
