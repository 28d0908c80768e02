"""Agents whose model is behind an API: the real libraries, a stand-in for the provider, a real hall."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.models import KEY, MODEL, Asked, Models, Wanted, running_models
from tests.support.server import HallProcess, running_hall
from tests.support.workers import Workplace, finish

pytestmark = pytest.mark.slow

RUNTIMES = ("api", "openai")
CONNECT = Wanted("agentchat_connect", {"name": "alice", "channels": ["#general"]})
SEND = Wanted("agentchat_send", {"target": "#general", "message": "Hello from a model"})


@pytest.fixture
def models() -> Iterator[Models]:
    with running_models() as running:
        yield running


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall")) as running:
        yield running


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def script(*turns: str | Wanted) -> Callable[[Asked], str | Wanted]:
    left = iter(turns)
    return lambda _asked: next(left)


def session(
    place: Workplace, models: Models, runtime: str, url: str, token: str = KEY, **variables: str
) -> int:
    told = {key: value for key, value in models.environment.items() if key.endswith("BASE_URL")}
    return finish(
        place.run_session(
            AGENT_RUNTIME=runtime,
            AGENT_MODEL=MODEL,
            AGENTCHAT_URL=url,
            HOME=str(place.root),
            token=token,
            **told,
            **variables,
        )
    )[0]


def requests(models: Models) -> list[dict[str, Any]]:
    return [models.asked.get_nowait().body for _ in range(models.asked.qsize())]


def test_the_model_talks_in_the_hall_through_its_tools(
    place: Workplace, models: Models, hall: HallProcess, runtime: str
) -> None:
    models.answer = script(CONNECT, SEND, "I have said hello.")
    assert session(place, models, runtime, hall.url) == 0
    transcript = place.transcript()
    assert '[tool] agentchat_send {"target": "#general", "message": "Hello from a model"}' in transcript
    assert transcript.count('"success":true') == 2
    assert "I have said hello." in transcript
    counted = json.loads((place.folder / "niki-state.json").read_text())
    assert (counted["tokensTotal"], counted["toolCalls"], counted["sendCalls"]) == (6, 2, 1)
    first, second, third = requests(models)
    assert json.dumps(place.prompt()) in json.dumps(first["messages"])
    assert [len(each["messages"]) for each in (first, second, third)] == [1, 3, 5]
    assert '\\"success\\":true' in json.dumps(third["messages"][-1])


def test_the_provider_caches_what_does_not_change(
    place: Workplace, models: Models, hall: HallProcess, tmp_path: Path
) -> None:
    (tmp_path / "alice.md").write_text("Be kind.")
    models.answer = script(CONNECT, "done")
    assert session(place, models, "api", hall.url, PERSONALITY_DIR=str(tmp_path)) == 0
    cached = {"type": "ephemeral"}
    for body in requests(models):
        assert body["system"] == [{"type": "text", "text": "Be kind.", "cache_control": cached}]
        assert body["tools"][-1]["cache_control"] == cached
        assert body["messages"][-1]["content"][-1]["cache_control"] == cached
        marked = [
            block for message in body["messages"] for block in message["content"] if "cache_control" in block
        ]
        assert len(marked) == 1


def test_a_tool_that_fails_is_explained_to_the_model(
    place: Workplace, models: Models, hall: HallProcess, runtime: str
) -> None:
    models.answer = script(Wanted("no_such_tool", {}), Wanted("agentchat_send", {"to": 1}), "I give up.")
    assert session(place, models, runtime, hall.url) == 0
    assert "There is no tool 'no_such_tool'" in place.transcript()
    assert "The arguments of agentchat_send do not fit" in place.transcript()


def test_a_key_that_is_not_accepted_is_final(place: Workplace, models: Models, runtime: str) -> None:
    assert session(place, models, runtime, "ws://127.0.0.1:1", token="another-key") == 2
    assert "[error] AuthenticationError" in place.transcript()
    assert "another-key" not in place.transcript()


def test_a_used_up_budget_is_final(place: Workplace, models: Models, hall: HallProcess, runtime: str) -> None:
    models.answer = lambda _asked: Wanted("agentchat_channels", {})
    assert session(place, models, runtime, hall.url, NIKI_BUDGET="5", NIKI_MAX_TOOLS="1000") == 2
    assert json.loads((place.folder / "niki-state.json").read_text())["killedBy"] == "budget"
