"""Which runtime a crew has: containers where they can run, else plain processes."""

from moothall.errors import UsageError
from moothall.worker.crew.places import Places
from moothall.worker.crew.plan import Crew
from moothall.worker.crew.processes import Processes
from moothall.worker.crew.record import PODMAN, PROCESS
from moothall.worker.crew.runtime import Runtime

NO_ISOLATION = (
    "no isolation: each agent can read and change what you can. Use podman for agents that strangers reach"
)


def choose(crew: Crew) -> str:
    """The runtime for the crew, as its record names it. Raises UsageError if it cannot be had."""
    if crew.isolation == PODMAN:
        raise UsageError('podman is not supported yet: use isolation = "process"')
    return PROCESS


def open_runtime(isolation: str, crew: Crew, places: Places) -> Runtime:
    """The runtime that was chosen. Raises UsageError."""
    return Processes(places)
