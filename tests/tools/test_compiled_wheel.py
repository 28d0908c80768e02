"""The build hook that compiles the hot path into the wheel: when it runs, and what it adds.

`make wheel` builds the real one, and runs this suite on it.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from moothall.compiled import COMPILED, build
from tools.compiled_wheel import SOURCES, listed_modules, sources

ROOT = Path(__file__).parents[2]
MODULES = listed_modules(ROOT)
# One function with a type, so that the compiler of mypyc has work, and a caller in pure Python.
HOUSE = {
    "__init__.py": "",
    "sums.py": "def divide(number: int, by: int) -> int:\n    return number // by\n",
    "shown.py": (
        "from moothall import sums\n\nprint(sums.divide(84, 2), sums.__file__, flush=True)\nsums.divide(84, 0)\n"
    ),
}
CAN_COMPILE = shutil.which("cc") is not None and find_spec("setuptools") is not None


def test_the_list_is_sorted_and_each_module_is_in_it_once() -> None:
    assert sorted(set(MODULES)) == MODULES


def test_each_listed_module_exists() -> None:
    assert len(sources(ROOT, MODULES)) == len(MODULES)


def test_a_module_that_is_gone_stops_the_build() -> None:
    with pytest.raises(FileNotFoundError, match=r"moothall/gone/away\.py"):
        sources(ROOT, ["moothall.hall.hall", "moothall.gone.away"])


@pytest.mark.parametrize("module", MODULES)
def test_a_listed_module_has_no_class_that_would_change(module: str) -> None:
    """msgspec sees no fields of a struct that is compiled. A dataclass with slots fails at import."""
    (source,) = sources(ROOT, [module])
    for node in ast.walk(ast.parse((ROOT / SOURCES / source).read_text())):
        if isinstance(node, ast.ClassDef):
            bases = " ".join(map(ast.unparse, node.bases))
            assert "Struct" not in bases, f"move {node.name} to a module that is not listed"
            assert node.keywords == [], f"mypyc ignores the keywords of {node.name}"
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            assert "slots=True" not in decorators, f"{node.name} needs no slots when it is compiled"


@pytest.mark.parametrize("module", MODULES)
def test_each_listed_module_is_of_the_build_under_test(module: str) -> None:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    assert spec.origin.endswith(".py") is (build() != COMPILED)


def test_the_hook_is_off_unless_the_environment_turns_it_on(house: Path) -> None:
    wheel = built(house)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert all(name.endswith(".py") for name in names_of(wheel) if "dist-info" not in name)


@pytest.mark.slow
@pytest.mark.skipif(not CAN_COMPILE, reason="needs a C compiler and setuptools")
def test_a_compiled_wheel_has_both_forms_its_platform_and_tracebacks(house: Path, tmp_path: Path) -> None:
    wheel = built(house, HATCH_BUILD_HOOK_ENABLE_CUSTOM="true")
    names = names_of(wheel)
    assert re.search(r"-cp3\d+-cp3\d+-\w+\.whl$", wheel.name)
    assert "moothall/sums.py" in names
    assert [name for name in names if re.fullmatch(r"moothall/sums\.\S+\.(so|pyd)", name)]
    assert not [name for name in names if name.startswith("moothall/shown.") and not name.endswith(".py")]
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    shown = subprocess.run(
        [sys.executable, "-m", "moothall.shown"], cwd=installed, capture_output=True, text=True, check=False
    )
    number, file = shown.stdout.split()
    assert number == "42"
    assert not file.endswith(".py")
    assert '"moothall/sums.py", line 2, in divide\n    return number // by\nZeroDivisionError' in shown.stderr


@pytest.mark.skipif(find_spec("setuptools") is None, reason="needs setuptools")
def test_without_a_compiler_it_says_what_to_install(house: Path) -> None:
    ended = build_wheel(house, HATCH_BUILD_HOOK_ENABLE_CUSTOM="true", CC="/no/such/compiler")
    assert ended.returncode != 0
    last = ended.stderr.splitlines()[-1]
    assert "build-essential and python3-dev" in last
    assert "/no/such/compiler" in last
    assert "Traceback" not in ended.stderr


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A checkout with our build settings and a few lines of code."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    project = (ROOT / "pyproject.toml").read_text()
    listed = re.compile(r"^modules = \[.*?^\]", re.DOTALL | re.MULTILINE)
    (folder / "pyproject.toml").write_text(listed.sub('modules = ["moothall.sums"]', project))
    for package, files in {"moothall": HOUSE, "keep": {"__init__.py": ""}}.items():
        (folder / "src" / package).mkdir(parents=True)
        for name, text in files.items():
            (folder / "src" / package / name).write_text(text)
    return folder


def build_wheel(folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
        cwd=folder,
        env=os.environ | variables,
        check=False,
        capture_output=True,
        text=True,
    )


def built(folder: Path, **variables: str) -> Path:
    ended = build_wheel(folder, **variables)
    assert ended.returncode == 0, ended.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def names_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()
