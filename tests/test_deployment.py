"""Files for operators of several nodes: they fit their schemas, and name what exists.

None of them is started here: there is no Docker and no Kubernetes in the suite. NATS reads its configuration.
"""

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import grafana_foundation_sdk.cog.plugins
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from jsonschema import Draft7Validator, Draft202012Validator  # type: ignore[import-untyped]  # it has no types

from moothall.bus.embedded import find_program
from moothall.settings.fields import described
from tests.support.server import PATIENCE

ROOT = Path(__file__).parents[1]
SCHEMAS = Path(__file__).parent / "schemas"
CLUSTER = ROOT / "contrib" / "cluster"
MANIFESTS = list(yaml.safe_load_all((ROOT / "contrib" / "kubernetes" / "moothall.yaml").read_text()))
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
DASHBOARD = json.loads((CLUSTER / "grafana" / "moothall.json").read_text())
NODES = ("one", "two", "three")

GROUPS = {
    "v1": "io.k8s.api.core.v1",
    "apps/v1": "io.k8s.api.apps.v1",
    "policy/v1": "io.k8s.api.policy.v1",
}


def variables() -> set[str]:
    """The variables of the environment that a hall reads."""
    return {f"MOOTHALL_{field.name.upper()}" for field in described()} | {"MOOTHALL_CONFIG"}


def metrics() -> set[str]:
    return set(re.findall(r"^\| `(moothall_\w+)", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))


def unknown_metrics(expression: str) -> set[str]:
    used = set(re.findall(r"\bmoothall_\w+", expression))
    return {each for each in used if each not in metrics() and not each.startswith("moothall_process_")}


# -- Compose -----------------------------------------------------------------------------------------------


def test_compose_fits_its_schema() -> None:
    schema = json.loads((SCHEMAS / "compose-spec.json").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(COMPOSE)] == []


def test_compose_mounts_what_is_there() -> None:
    mounted = [
        volume.split(":")[0]
        for service in COMPOSE["services"].values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    ]
    assert len(mounted) >= 4
    assert [path for path in mounted if not (ROOT / path).exists()] == []


def test_compose_opens_ports_to_this_machine_only() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert len(ports) == len(set(ports)) >= len(NODES)
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("node", NODES)
def test_a_node_of_compose_has_its_name_and_folder(node: str) -> None:
    service = COMPOSE["services"][node]
    assert service["environment"]["MOOTHALL_NODE_NAME"] == node
    assert set(service["environment"]) <= variables()
    assert f"{node}:/data" in service["volumes"]


def test_secrets_are_made_once_and_for_the_owner_alone(tmp_path: Path) -> None:
    script = shutil.copy(CLUSTER / "secrets.sh", tmp_path)
    subprocess.run([script], check=True, capture_output=True, timeout=PATIENCE)
    made = {path.name: _environment(path) for path in (tmp_path / "secrets").iterdir()}
    for path in (tmp_path / "secrets", *(tmp_path / "secrets").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert set(made["node.env"]) <= variables()
    assert made["nats.env"]["NATS_PASSWORD"] in made["node.env"]["MOOTHALL_BUS"]
    assert made["postgres.env"]["POSTGRES_PASSWORD"] in made["node.env"]["MOOTHALL_STORE"]
    wanted = {
        Path(file).name
        for service in COMPOSE["services"].values()
        if (file := service.get("env_file")) is not None
    }
    assert wanted == set(made)
    again = subprocess.run([script], check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert again.returncode != 0
    assert "there already" in again.stderr
    assert {path.name: _environment(path) for path in (tmp_path / "secrets").iterdir()} == made


def _environment(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


# -- NATS, Prometheus, Grafana -----------------------------------------------------------------------------


def test_nats_takes_its_configuration(tmp_path: Path) -> None:
    checked = subprocess.run(
        [find_program(), "--config", str(CLUSTER / "nats.conf"), "-t"],
        env={**os.environ, "NATS_PASSWORD": "secret"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_prometheus_asks_every_node() -> None:
    config = yaml.safe_load((CLUSTER / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [f"{node}:6667" for node in NODES]
    assert [name for name in config["rule_files"] if not (CLUSTER / name).exists()] == []


def test_alerts_ask_for_metrics_that_exist() -> None:
    groups = yaml.safe_load((CLUSTER / "alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 5
    for rule in rules:
        assert set(rule) == {"alert", "expr", "for", "annotations"}
        assert unknown_metrics(rule["expr"]) == set(), rule["alert"]


def test_the_dashboard_is_one_that_grafana_reads() -> None:
    """Nothing is lost or changed when Grafana's own model has read it."""
    grafana_foundation_sdk.cog.plugins.register_default_plugins()
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    assert list(_lost(DASHBOARD, read)) == []


def _lost(ours: Any, read: Any, path: str = "") -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(read, dict):
        for key, value in ours.items():
            yield from _lost(value, read.get(key), f"{path}/{key}")
    elif isinstance(ours, list) and isinstance(read, list) and len(ours) == len(read):
        for number, (own, other) in enumerate(zip(ours, read, strict=True)):
            yield from _lost(own, other, f"{path}/{number}")
    elif ours != read:
        yield path


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    panels = DASHBOARD["panels"]
    assert len(panels) >= 10
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        for target in panel["targets"]:
            assert unknown_metrics(target["expr"]) == set(), panel["title"]


def test_no_panel_covers_another() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for one, other in combinations(places, 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y


# -- Kubernetes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_a_manifest_fits_its_schema(manifest: dict[str, Any]) -> None:
    schema = json.loads((SCHEMAS / "kubernetes-1.37.json").read_text())
    kind = f"{GROUPS[manifest['apiVersion']]}.{manifest['kind']}"
    validator = Draft202012Validator({"$ref": f"#/$defs/{kind}", **schema})
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(manifest)] == []


def test_the_schema_refuses_what_kubernetes_would() -> None:
    schema = json.loads((SCHEMAS / "kubernetes-1.37.json").read_text())
    validator = Draft202012Validator({"$ref": "#/$defs/io.k8s.api.apps.v1.StatefulSet", **schema})
    wrong = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicaz": 3}}
    assert not validator.is_valid(wrong)


def test_manifests_belong_together() -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for manifest in MANIFESTS:
        by_kind.setdefault(manifest["kind"], []).append(manifest)
    (nodes,) = by_kind["StatefulSet"]
    labels = nodes["spec"]["template"]["metadata"]["labels"].items()
    (container,) = nodes["spec"]["template"]["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    for service in by_kind["Service"]:
        assert service["spec"]["selector"].items() <= labels
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    assert nodes["spec"]["serviceName"] in {service["metadata"]["name"] for service in by_kind["Service"]}
    (budget,) = by_kind["PodDisruptionBudget"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels
    assert 0 < budget["spec"]["minAvailable"] < nodes["spec"]["replicas"]
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": "agentchat"}
    assert {each["name"] for each in container["env"]} <= variables()


def test_a_pod_has_what_a_node_takes() -> None:
    (pod,) = (each["spec"]["template"]["spec"] for each in MANIFESTS if each["kind"] == "StatefulSet")
    # MOOTHALL_PORT would be the address of the Service named moothall.
    assert pod["enableServiceLinks"] is False
    # The folder of a volume is open to the group or to all, which a node refuses.
    (container,) = pod["containers"]
    flag, directory = container["args"]
    places = {Path(mount["mountPath"]): mount["name"] for mount in container["volumeMounts"]}
    assert flag == "--data-dir"
    assert Path(directory) not in places
    assert places[Path(directory).parent] in {volume["name"] for volume in pod["volumes"]}


# -- systemd -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit_of_a_node(tmp_path: Path) -> None:
    text = (ROOT / "contrib" / "moothall-node@.service").read_text()
    unit = tmp_path / "moothall-node@one.service"
    unit.write_text(text.replace("/opt/moothall/bin/moothall", "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_unit_of_a_node_is_that_of_a_hall() -> None:
    """It has the same walls around it."""
    lines = [
        (ROOT / "contrib" / name).read_text().splitlines()
        for name in ("moothall.service", "moothall-node@.service")
    ]
    hall, node = (
        {line for line in each if re.match(r"(Protect|Private|Restrict|System|Cap)", line)} for each in lines
    )
    assert len(hall) > 15
    assert node == hall
