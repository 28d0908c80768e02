"""Compile the hot path of the hall into the wheel, with mypyc.

The build backend runs this as a build hook, but only if HATCH_BUILD_HOOK_ENABLE_CUSTOM is `true`, as `make wheel`
sets it. So neither a checkout nor `pip install .` needs a C compiler. pyproject.toml lists the modules. The wheel
has each of them twice: compiled, which Python takes first, and as source, for MOOTHALL_PURE=1 and for readers of
tracebacks.
"""

import contextlib
import tomllib
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES: Final = "src"
WORK: Final = "build/mypyc"  # C sources, objects and extension modules
# The modules are in one library, moothall__mypyc, and call each other without Python in between.
GROUP: Final = "moothall"
HIDDEN: Final = "-fvisibility=hidden"  # calls within the library are direct


class CompiledWheel(BuildHookInterface):  # type: ignore[type-arg]  # of the class of its configuration
    """Add extension modules to a wheel, and say in its name which platform they are for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # a checkout runs its sources
            return
        root = Path(self.root)
        built = compile_modules(root, sources(root, self.config["modules"]))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        places = {str(path): str(path.relative_to(root / WORK / "lib")) for path in built}
        build_data["force_include"].update(places)


def listed_modules(root: Path) -> list[str]:
    """The names in pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    return [str(name) for name in hook["modules"]]


def sources(root: Path, modules: list[str]) -> list[str]:
    """The file of each module, from SOURCES. A module that was moved is an error, not a slower wheel."""
    files = [f"{module.replace('.', '/')}.py" for module in modules]
    missing = [file for file in files if not (root / SOURCES / file).is_file()]
    if missing:
        raise FileNotFoundError(
            f"pyproject.toml lists modules to compile that do not exist: {', '.join(missing)}"
        )
    return files


def compile_modules(root: Path, files: list[str]) -> list[Path]:
    """The extension modules. Raises SystemExit if there is no C compiler, and after mypy has printed why, if mypyc
    cannot compile a module.

    Tracebacks name a file as it is named here: from SOURCES, as below site-packages. So Python finds the lines when
    a program ends with an exception. In logs, a traceback has file and line number only.
    """
    from mypyc.build import mypycify

    work = root / WORK
    check_compiler(work / "probe")
    with contextlib.chdir(root / SOURCES):
        settings = ["--config-file", str(root / "pyproject.toml")]
        extensions = mypycify(
            [*settings, *files], target_dir=str(work / "c"), group_name=GROUP, debug_level="0"
        )
        for extension in extensions:  # they have one list of arguments in common
            extension.extra_compile_args = [*extension.extra_compile_args, HIDDEN]
        return _built(extensions, work)


def check_compiler(folder: Path) -> None:
    """Raises SystemExit. mypyc would need a minute before it calls the compiler, and end in a long traceback."""
    from setuptools import Extension
    from setuptools.errors import BaseError, CCompilerError

    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "probe.c"
    source.write_text(
        "#include <Python.h>\nPyObject *PyInit_probe(void) { return NULL; }\n", encoding="utf-8"
    )
    try:
        _built([Extension("probe", [str(source)])], folder)
    except (BaseError, CCompilerError) as error:
        raise SystemExit(
            f"error: nothing can be compiled here: {error}. A compiled wheel needs a C compiler and the headers of"
            " Python: install them (on Debian build-essential and python3-dev). `pip install .` needs neither, and"
            " installs the same program in pure Python"
        ) from None


def _built(extensions: list[Any], work: Path) -> list[Path]:
    from setuptools import Distribution

    command: Any = Distribution({"name": GROUP, "ext_modules": extensions}).get_command_obj("build_ext")
    command.build_lib = str(work / "lib")
    command.build_temp = str(work / "objects")
    command.ensure_finalized()
    command.run()
    return [Path(path) for path in command.get_outputs()]
