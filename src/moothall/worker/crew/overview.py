"""How a crew is, for people and programs: read from files and from the runtime, also without a keeper."""

from contextlib import suppress
from typing import Any, Final

from moothall.worker import state_file
from moothall.worker.agent_folder import GUARD_STATE, SESSION_NUMBER, STATE
from moothall.worker.crew import runtimes
from moothall.worker.crew.own_hall import OwnHall
from moothall.worker.crew.places import Places
from moothall.worker.crew.processes import KILLED
from moothall.worker.crew.record import Record
from moothall.worker.crew.runtime import Standing
from moothall.worker.log_lines import utc

_WAITING: Final = {"crashed": "waiting after a crash", "killed": "waiting after a kill"}


def overview(places: Places, record: Record, *, is_kept: bool) -> dict[str, Any]:
    """Everything that `ps --json` shows. Raises UsageError."""
    runtime = runtimes.open_runtime(record.isolation, record.crew, places)
    standings = {each.name: each for each in runtime.standing()}
    names = [member.name for member in record.crew.members]
    names += sorted({*record.aims, *standings} - set(names))
    return {
        "crew": record.crew.name,
        "file": str(record.crew.file),
        "folder": str(places.root),
        "hall": record.hall,
        "hall_is_own": record.crew.hall is None,
        "hall_running": OwnHall(places.hall, {}).is_running() if record.crew.hall is None else None,
        "isolation": record.isolation,
        "isolated": runtime.isolates,
        "keeper_running": is_kept,
        "agents": [_agent(name, places, record, standings.get(name)) for name in names],
    }


def _agent(name: str, places: Places, record: Record, standing: Standing | None) -> dict[str, Any]:
    own = places.member(name)
    state, guard = _object(own.state / STATE), _object(own.state / GUARD_STATE)
    aim = record.aims.get(name)
    member = next((each for each in record.crew.members if each.name == name), None)
    return {
        "name": name,
        "state": _state(standing, state, is_wanted=aim is None or aim.is_to_run),
        "running": standing is not None and standing.is_running,
        "wanted": aim.wanted.value if aim is not None else None,
        "status": state.get("status"),
        "last_error": _error(state),
        "exit_code": standing.exit_code if standing is not None else None,
        "restarts": standing.restarts if standing is not None else 0,
        "since": utc(standing.since) if standing is not None else None,
        "session": _number(own.state / SESSION_NUMBER),
        "tokens": guard.get("tokensTotal"),
        "protected": member.protected if member is not None else False,
        "mission": member.mission if member is not None else None,
        "state_folder": str(own.state),
        "workspace": str(own.workspace),
    }


def _state(standing: Standing | None, state: dict[str, Any], *, is_wanted: bool) -> str:
    """One word, or a few: how the agent is."""
    if standing is None:
        return "not started"
    status = state.get("status")
    if standing.is_running:
        if status == "starting" and state.get("backoff"):
            return "waiting after an end"
        return _WAITING.get(str(status), "running")
    if standing.exit_code == 0:
        return "failed for good" if status == "fatal" else "stopped"
    if standing.exit_code == KILLED and not is_wanted:
        return "killed"
    return f"ended with {standing.exit_code}"


def _error(state: dict[str, Any]) -> str | None:
    """With the reason of the guard, which an exit code does not tell."""
    error, reason = state.get("last_error"), state.get("niki_reason")
    if not error or not reason or str(reason) in str(error):
        return error or None
    return f"{error}, guard: {reason}"


def _object(path: Any) -> dict[str, Any]:
    with suppress(OSError):
        return state_file.read_object(path) or {}
    return {}


def _number(path: Any) -> int | None:
    with suppress(OSError, ValueError):
        return int((state_file.read(path) or b"")[:20])
    return None
