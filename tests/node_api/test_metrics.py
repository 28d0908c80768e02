"""`/metrics` of a running node, and what the docs say of it."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_every_metric_has_its_row(alice: NodeProcess) -> None:
    rows = dict(
        re.findall(r"^\| `(mesh_node_\w+?)(?:_total)?(\{[\w,]*\})?` \|", PAGE.read_text(), re.MULTILINE)
    )
    families = [
        family
        for family in text_string_to_metric_families(alice.ask("GET", "/metrics").text)
        if not family.name.startswith("mesh_node_process_")
    ]
    assert rows.keys() == {family.name for family in families}
    for family in families:
        for sample in family.samples:
            assert set(sample.labels) == set(filter(None, rows[family.name].strip("{}").split(",")))
