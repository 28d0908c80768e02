"""The compiled build beside the pure one, in the same rounds.

`make build-wheel` makes the wheel, and installs it into build/wheel, an environment that `--compiled` can name.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.servers import SERVERS
from benchmarks.workloads import Bound, Contender, Workload

COMPILED: Final = ", compiled"  # after the label of the pure one


class NotCompiled(Exception):
    """The message says which environment, and what to do."""


def check(venv: Path) -> None:
    """Raise NotCompiled unless a hall of this environment runs compiled modules."""
    if not any(venv.glob("lib/python*/site-packages/moothall/**/*.so")):
        raise NotCompiled(
            f"There is no compiled moothall in {venv}.\n"
            "Run `make build-wheel`, and name build/wheel; or install the wheel of dist/ there with `pip install`."
        )


def beside_compiled(workload: Workload, venv: Path) -> Workload:
    """Each hall of the workload is followed by its twin, and has the same bounds."""
    contenders: list[Contender] = []
    twins: dict[str, str] = {}
    for contender in workload.contenders:
        contenders.append(contender)
        if contender.server is not None and SERVERS[contender.server].is_hall:
            twins[contender.label] = contender.label + COMPILED
            contenders.append(replace(contender, label=contender.label + COMPILED, venv=venv))
    bounds: list[Bound] = []
    for bound in workload.bounds:
        bounds.append(bound)
        if bound.measured in twins:
            against = twins.get(bound.against, bound.against) if bound.against else None
            bounds.append(replace(bound, measured=twins[bound.measured], against=against))
    return replace(workload, contenders=tuple(contenders), bounds=tuple(bounds))
