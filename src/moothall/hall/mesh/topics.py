"""Named topics of the mesh, and which connections hear them (mesh wire 4, 6.2).

The three fixed topics are not here: every connection with a key hears them.
"""

from collections.abc import Callable, Collection
from typing import Final, Generic, TypeVar

from moothall.wire.mesh.broadcast_items import MAX_TOPIC

MAX_TOPICS: Final = 64  # named ones of one connection

Member = TypeVar("Member")


class TooManyTopics(Exception):
    """The connection hears as many named topics as it may."""


class BadTopic(Exception):
    """No topic has this name."""


class Topics(Generic[Member]):
    def __init__(self, changed: Callable[[str], None] = lambda topic: None) -> None:
        """`changed` is called with a topic when the first connection hears it, and when the last one has left."""
        self._changed = changed
        self._members: dict[str, dict[Member, None]] = {}  # by topic; none is empty
        self._topics: dict[Member, dict[str, None]] = {}  # in the order of subscription; none is empty

    def __len__(self) -> int:
        """Topics that at least one connection hears."""
        return len(self._members)

    def members(self, topic: str) -> Collection[Member]:
        return self._members.get(topic, {}).keys()

    def of(self, member: Member) -> tuple[str, ...]:
        return tuple(self._topics.get(member, ()))

    def subscribe(self, member: Member, topic: str) -> bool:
        """True if this is new. Raises TooManyTopics or BadTopic."""
        topics = self._topics.get(member, {})
        if topic in topics:
            return False
        if not 0 < len(topic.encode(errors="replace")) <= MAX_TOPIC:
            raise BadTopic(f"The name of a topic has 1 to {MAX_TOPIC} bytes")
        if len(topics) >= MAX_TOPICS:
            raise TooManyTopics(f"A connection hears at most {MAX_TOPICS} named topics; unsubscribe from one")
        self._topics.setdefault(member, {})[topic] = None
        members = self._members.setdefault(topic, {})
        members[member] = None
        if len(members) == 1:
            self._changed(topic)
        return True

    def unsubscribe(self, member: Member, topic: str) -> bool:
        """False if the connection did not hear it."""
        topics = self._topics.get(member, {})
        if topic not in topics:
            return False
        del topics[topic]
        if not topics:
            del self._topics[member]
        self._forget(member, topic)
        return True

    def leave(self, member: Member) -> None:
        """The connection has ended."""
        for topic in self._topics.pop(member, ()):
            self._forget(member, topic)

    def _forget(self, member: Member, topic: str) -> None:
        members = self._members[topic]
        del members[member]
        if not members:
            del self._members[topic]
            self._changed(topic)
