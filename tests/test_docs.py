"""The docs are complete: every setting, metric, error code, command and close reason has its line."""

import re
from dataclasses import Field
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from moothall.bus.nats_bus import NatsBus
from moothall.cli.main import COMMANDS
from moothall.errors import Refusal
from moothall.gateways.bus_metrics import BusMetrics
from moothall.settings import PROFILES, load
from moothall.settings.fields import described
from moothall.tools.table import Tool
from moothall.tools.toolbox import TOOLS
from tests.support.server import running_hall
from tests.support.world import World
from tools import api_reference, http_reference, wire_reference

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.mark.parametrize("entry", described(), ids=lambda entry: entry.name)
def test_every_setting_has_its_row(entry: Field[Any]) -> None:
    rows = (DOCS / "settings.md").read_text().splitlines()
    (row,) = [row for row in rows if row.startswith(f"| `{entry.name}` |")]
    assert entry.metadata["help"] in row
    _, default, in_profile, *_ = [cell.strip() for cell in row.strip("|").split("|")]
    assert default == _shown(entry.default)
    reference = PROFILES["agentchat-0.36"]
    assert in_profile == (_shown(reference[entry.name]) if entry.name in reference else "")
    for variable in entry.metadata["known_as"]:
        assert variable.name in row
    if entry.metadata["reference"]:
        assert entry.metadata["reference"].name in row


def _shown(value: object) -> str:
    if value in (None, "", ()):
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if type(value) is tuple else str(value)


def test_every_profile_is_named() -> None:
    text = (DOCS / "settings.md").read_text()
    for profile in PROFILES:
        assert profile == "seeds" or profile in text


@pytest.mark.parametrize("code", sorted(Refusal.by_code))
def test_every_error_code_has_its_row(code: str) -> None:
    text = (DOCS / "errors.md").read_text()
    assert f"| `{code}` | `{Refusal.by_code[code].__name__}` |" in text


async def test_every_metric_has_its_row_with_its_labels(tmp_path: Path) -> None:
    text = (DOCS / "metrics.md").read_text()
    rows = {
        name.removesuffix("_total"): set(filter(None, labels.strip("{}").split(",")))
        for name, labels in re.findall(r"^\| `(moothall_\w+)(\{[\w,]*\})?` \|", text, re.MULTILINE)
    }
    with running_hall(tmp_path, "--mesh-port", "0") as hall:
        _, _, body = await hall.get("/metrics")
    families = [
        family
        for family in text_string_to_metric_families(body)
        if not family.name.startswith("moothall_process_")
    ]
    bus = NatsBus(["nats://127.0.0.1"], "docs", structlog.get_logger())
    families += BusMetrics(bus, World().hall).collect()
    assert rows.keys() == {family.name for family in families}
    for family in families:
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == rows[family.name], sample.name


def test_every_error_that_has_a_row_exists() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| `(\w+)` \|", (DOCS / "errors.md").read_text(), re.MULTILINE)
    assert rows
    assert {code: Refusal.by_code[code].__name__ for code, _ in rows} == dict(rows)


def test_every_command_has_its_line() -> None:
    text = (DOCS / "command-line.md").read_text()
    for name in COMMANDS:
        assert f"moothall {name}" in text, name


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_every_tool_has_its_row(tool: Tool[Any, Any]) -> None:
    required = set(tool.input_schema.get("required", ()))
    words = [f"`{name}`" if name in required else f"`{name}?`" for name in tool.input_schema["properties"]]
    row = f"| `{tool.name}` | {', '.join(words) or chr(0x2013)} | {tool.purpose} |"
    assert row in (DOCS / "mcp.md").read_text()


def test_curl_uses_https_where_tls_is_on() -> None:
    asked = []
    for page in (*DOCS.glob("*.md"), *ROOT.glob("*.md")):
        for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
            if "--cert" in block:
                asked += [line for line in block.splitlines() if line.startswith("curl ")]
    assert asked
    assert all("https://" in line for line in asked)


PAGES = (*DOCS.glob("*.md"), *ROOT.glob("*.md"), ROOT / "benchmarks" / "README.md")


def prose_of(page: Path) -> str:
    """Without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def links_of(page: Path) -> list[tuple[Path, str]]:
    """Where its relative links lead: files, and places in them."""
    found = re.findall(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)", prose_of(page))
    return [((page.parent / target).resolve() if target else page, place) for target, place in found]


def places_in(page: Path) -> set[str]:
    """The anchors of its headings, as code hosts make them."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        anchors.add(anchor if anchor not in anchors else f"{anchor}-1")
    return anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, place in links_of(page):
        assert target.exists(), f"{target} does not exist"
        assert not place or place in places_in(target), f"{target.name} has no heading #{place}"


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, next_ones = set[Path](), [DOCS / "index.md"]
    while next_ones:
        page = next_ones.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            next_ones += [target for target, _ in links_of(page)]
    assert {page.resolve() for page in PAGES} <= reached | {ROOT / "README.md"}


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_the_index_has_every_page(page: Path) -> None:
    """Not by way of another page: a reader looks for a page in the index first."""
    assert page.name == "index.md" or page.resolve() in {target for target, _ in links_of(DOCS / "index.md")}


def test_the_readme_leads_to_the_index() -> None:
    assert (DOCS / "index.md").resolve() in {target for target, _ in links_of(ROOT / "README.md")}


def test_what_is_generated_is_current() -> None:
    assert api_reference.PAGE.read_text() == api_reference.page(), "run `make docs`"
    assert http_reference.PAGE.read_text() == http_reference.page(), "run `make docs`"
    for path, entries in wire_reference.pages().items():
        assert path.read_text() == wire_reference.renew(path.read_text(), entries), "run `make docs`"


# -- coming from agentchat -----------------------------------------------------------------------------


MIGRATION = (ROOT / "README.md").read_text().partition("## Coming from agentchat")[2].partition("\n## ")[0]


@pytest.mark.parametrize("setting", ["trusted_proxies", "allowed_origins", "max_frame", "max_content"])
def test_the_migration_names_the_setting_for_what_users_of_the_reference_meet(setting: str) -> None:
    assert f"`{setting}`" in MIGRATION or f"--set {setting}=" in MIGRATION
    assert setting in {entry.name for entry in described()}


def test_the_settings_that_the_migration_shows_can_be_set() -> None:
    shown = dict(re.findall(r"--set (\w+)=([^`\s]+)", MIGRATION))
    assert shown.keys() >= {"trusted_proxies", "allowed_origins", "max_frame"}
    for name, text in shown.items():
        assert load({name: text}, {}).origins[name] == "flag"
