"""The metrics of several nodes as one text."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from moothall.gateways.gathering import merged


def text(agents: int) -> str:
    registry = CollectorRegistry()
    Gauge("agents", "Agents", registry=registry).set(agents)
    messages = Counter("messages", "Messages by type", ["type"], registry=registry)
    messages.labels('MSG {a} "b"').inc(agents)
    Histogram("fanout", "Members", buckets=(1, 2), registry=registry).observe(agents)
    return generate_latest(registry).decode()


def test_each_sample_has_its_node() -> None:
    families = {
        family.name: family
        for family in text_string_to_metric_families(merged({"node1": text(1), "node2": text(2)}))
    }
    agents = {sample.labels["node"]: sample.value for sample in families["agents"].samples}
    assert agents == {"node1": 1, "node2": 2}
    messages = [sample for sample in families["messages"].samples if sample.name == "messages_total"]
    assert {sample.labels["node"]: sample.labels["type"] for sample in messages} == dict.fromkeys(
        ("node1", "node2"), 'MSG {a} "b"'
    )
    assert families["fanout"].type == "histogram"
    assert families["messages"].documentation == "Messages by type"


def test_comments_appear_once() -> None:
    lines = merged({"node1": text(1), "node2": text(2)}).splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert len(comments) == len(set(comments))


def test_a_node_that_told_nothing_is_left_out() -> None:
    told = text(1)
    assert merged({"node1": told, "node2": ""}) == merged({"node1": told})
    assert merged({}) == ""
