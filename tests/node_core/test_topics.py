"""The named topics that a node hears."""

import pytest

from moothall.errors import NodeRefused
from moothall.node import topics
from moothall.node.topics import NamedTopics
from moothall.wire.mesh.broadcast_items import MAX_TOPIC


class Host:
    def __init__(self) -> None:
        self.topics: list[str] = []

    def join(self, topic: str) -> None:
        self.topics.append(topic)

    def leave(self, topic: str) -> None:
        self.topics.remove(topic)


def test_a_topic_is_joined_once_and_left_with_the_last_watch() -> None:
    host = Host()
    named = NamedTopics(host)
    first, second = named.watch("news"), named.watch("news")
    assert (host.topics, len(named)) == (["/0x01/v1/t/news"], 1)
    first()
    first()
    assert host.topics == ["/0x01/v1/t/news"]
    second()
    assert (host.topics, len(named)) == ([], 0)


def test_an_agent_that_spoke_hears_the_topic_as_long_as_the_node_runs() -> None:
    host = Host()
    named = NamedTopics(host)
    named.spoke("news")
    named.spoke("news")
    named.watch("news")()
    assert host.topics == ["/0x01/v1/t/news"]


@pytest.mark.parametrize("slug", ["", "x" * (MAX_TOPIC + 1), "ä" * MAX_TOPIC])
def test_names_that_no_topic_has(slug: str) -> None:
    with pytest.raises(NodeRefused, match="bytes") as refused:
        NamedTopics(Host()).watch(slug)
    assert refused.value.status == 400


def test_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_TOPICS", 2)
    host = Host()
    named = NamedTopics(host)
    leave = named.watch("one")
    named.spoke("two")
    named.spoke("three")
    with pytest.raises(NodeRefused, match="limit") as refused:
        named.watch("three")
    assert refused.value.status == 503
    named.watch("one")()  # one that is heard already
    leave()
    named.watch("three")
    assert host.topics == ["/0x01/v1/t/two", "/0x01/v1/t/three"]
