"""Which crew a command is about: the one of this folder, or one by its file or its name."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from moothall.errors import UsageError
from moothall.worker import state_file
from moothall.worker.crew import plan
from moothall.worker.crew.places import Places, crews_folder, places_of


def find(given: str | None, here: Path, environment: Mapping[str, str]) -> Places:
    """The folder of a crew that was up before. Raises UsageError, which says how to name one.

    A folder that another user can change is refused: what it says is obeyed, and what it names is deleted.
    """
    places = _find(given, here, environment)
    places.make()
    return places


def _find(given: str | None, here: Path, environment: Mapping[str, str]) -> Places:
    if given is not None and "/" not in given and not given.endswith(".toml"):
        return _by_name(given, environment)
    file = (here / (given or plan.FILE)).absolute()
    if file.is_dir():
        file /= plan.FILE
    for places in crews(environment):
        if _file_of(places) == file:  # so a file that cannot be read any more does not hide its crew
            return places
    if given is None and not file.exists():
        known = ", ".join(sorted(places.root.name for places in crews(environment)))
        raise UsageError(
            f"there is no {plan.FILE} in this folder: go to the folder of a crew, or name one with --crew"
            + (f" ({known})" if known else "")
        )
    places = places_of(plan.read(file).name, environment)
    if not places.record.exists():
        raise places.never_up()
    return places


def crews(environment: Mapping[str, str]) -> Iterator[Places]:
    """All crews that were up before."""
    for record in sorted(crews_folder(environment).glob("*/crew.json")):
        yield Places(record.parent)


def _by_name(name: str, environment: Mapping[str, str]) -> Places:
    known = {places.root.name: places for places in crews(environment)}
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 1)
    hint = f", perhaps you mean {near[0]}" if near else f": there are {', '.join(known) or 'none'}"
    raise UsageError(f"there is no crew {name[:40]!r}{hint}")


def _file_of(places: Places) -> Path | None:
    with suppress(OSError):
        file = (state_file.read_object(places.record) or {}).get("file")
        return Path(file) if isinstance(file, str) else None
    return None
