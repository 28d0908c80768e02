"""Which runtime a crew has: containers where they can run, else plain processes."""

from typing import NamedTuple

from moothall.errors import UsageError
from moothall.worker.crew import podman_program
from moothall.worker.crew.places import Places
from moothall.worker.crew.plan import Crew
from moothall.worker.crew.podman import PodmanRuntime
from moothall.worker.crew.processes import Processes
from moothall.worker.crew.record import PODMAN, PROCESS
from moothall.worker.crew.runtime import Runtime

NO_ISOLATION = (
    "no isolation: each agent can read and change what you can. Use podman for agents that strangers reach"
)

NO_LIMITS = (
    "no limits: podman cannot limit memory, processors and processes of your containers here, so an agent can use"
    " up the machine. It can as root, or with cgroups 2 that are delegated to you"
)


class Choice(NamedTuple):
    isolation: str  # as the record of a crew names it
    note: str | None = None  # what the user should know of it


def choose(crew: Crew) -> Choice:
    """The runtime for the crew. Raises UsageError if the one that the file names cannot be had."""
    if crew.isolation == PROCESS:
        return Choice(PROCESS)
    try:
        podman_program.find(crew)
    except UsageError as error:
        if crew.isolation == PODMAN:
            raise
        return Choice(PROCESS, f"without containers: {error}")
    return Choice(PODMAN, None if podman_program.has_limits(crew) else NO_LIMITS)


def open_runtime(isolation: str, crew: Crew, places: Places) -> Runtime:
    """The runtime that was chosen. Raises UsageError."""
    return PodmanRuntime(crew, places) if isolation == PODMAN else Processes(places)
