"""How a crew is, for people and programs: read from files and from the runtime, also without a keeper."""

from contextlib import suppress
from pathlib import Path
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

MAX_TEXT: Final = 500  # characters of what an agent's files say
MAX_NUMBER: Final = 2**53

_DIGITS: Final = 20
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
    state = state_file.object_of_agent(own.state / STATE)
    guard = state_file.object_of_agent(own.state / GUARD_STATE)
    aim = record.aims.get(name)
    member = next((each for each in record.crew.members if each.name == name), None)
    return {
        "name": name,
        "state": _state(standing, state, is_wanted=aim is None or aim.is_to_run),
        "running": standing is not None and standing.is_running,
        "wanted": aim.wanted.value if aim is not None else None,
        "status": _text(state.get("status")),
        "last_error": _error(state),
        "exit_code": standing.exit_code if standing is not None else None,
        "restarts": standing.restarts if standing is not None else 0,
        "since": utc(standing.since) if standing is not None else None,
        "session": _number(own.state / SESSION_NUMBER),
        "tokens": _whole(guard.get("tokensTotal")),
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
    error, reason = _text(state.get("last_error")), _text(state.get("niki_reason"))
    if error is None or reason is None or reason in error:
        return error
    return f"{error}, guard: {reason}"


def _text(value: Any) -> str | None:
    return value[:MAX_TEXT] or None if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_NUMBER else None


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return _whole(int(state_file.read(path, _DIGITS) or b""))
    return None
