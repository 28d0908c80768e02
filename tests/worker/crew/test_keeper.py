"""A crew of real processes: it comes up, survives a `kill -9` of each process, and ends without a trace."""

import http.client
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from moothall.errors import UsageError
from tests.support.crews import FILE, Band, band, kill
from tests.support.workers import environment_of, is_alive, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_band(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Band]:
    with band(tmp_path_factory.mktemp("band")) as found:
        yield found


@pytest.fixture
def crew(one_band: Band) -> Band:
    """One for all tests, which is up again for each."""
    one_band.file.write_text(FILE)
    one_band.up()
    return one_band


def answers(url: str) -> bool:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=20)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def test_up_starts_the_hall_and_all_agents_and_says_that_nothing_isolates_them(crew: Band) -> None:
    shown = crew.shown()
    assert (shown["hall_running"], shown["keeper_running"], shown["isolated"]) == (True, True, False)
    assert answers(shown["hall"])
    assert [(each["name"], each["running"], each["protected"]) for each in shown["agents"]] == [
        ("player", True, False),
        ("boss", True, True),
    ]
    before = crew.left()
    said = crew.up()
    assert "no isolation" in " ".join(said)
    assert "player runs already" in said
    assert "boss runs already" in said
    assert set(before) <= set(crew.left())


def test_an_agent_has_its_own_folders_and_no_more_of_the_users_environment(crew: Band) -> None:
    pid = crew.supervisor("player")
    own = crew.places.member("player")
    assert Path(f"/proc/{pid}/cwd").readlink() == own.workspace
    names = environment_of(pid).keys()
    assert "MOOTHALL_CREWS" not in names
    assert {"STATE_DIR", "CREW_FOLDER", "AGENTCHAT_URL", "MOOTHALL_IDENTITY"} <= names


def test_a_keeper_that_is_killed_is_replaced_and_nothing_else_is(crew: Band) -> None:
    keeper, understudy = crew.keeper, crew.understudy
    others = crew.hall, crew.supervisor("player"), crew.supervisor("boss")
    kill(keeper)
    until(lambda: crew.pids("moothall.worker.crew.keeper") == [understudy], "the understudy takes over")
    assert crew.understudy != understudy
    crew.wake("player")  # it takes orders
    assert (crew.hall, crew.supervisor("player"), crew.supervisor("boss")) == others


def test_an_understudy_that_is_killed_is_replaced(crew: Band) -> None:
    keeper, understudy = crew.keeper, crew.understudy
    kill(understudy)
    until(lambda: crew.pids("crew.understudy") not in ([], [understudy]), "another understudy")
    assert crew.keeper == keeper


def test_an_order_outlives_the_keeper_that_got_it(crew: Band) -> None:
    kill(crew.keeper)
    crew.stop("player")  # waits for the next keeper, or does it without one
    assert not crew.agent("player")["running"]
    crew.up()
    assert crew.agent("player")["running"]


def test_a_hall_that_is_killed_is_started_again_on_its_port(crew: Band) -> None:
    url, pid = crew.shown()["hall"], crew.hall
    kill(pid)
    until(lambda: crew.pids("moothall\0serve") not in ([], [pid]), "another hall")
    until(lambda: answers(url), "the hall on its port")
    assert crew.shown()["hall"] == url


def test_a_supervisor_that_is_killed_is_started_again(crew: Band) -> None:
    pid = crew.supervisor("player")
    kill(pid)
    until(lambda: crew.agent("player")["restarts"] == 1, "the restart policy")
    assert crew.supervisor("player") != pid
    assert crew.agent("player")["running"]


def test_an_agent_that_was_stopped_stays_stopped_until_it_is_woken(crew: Band) -> None:
    crew.stop("player")
    kill(crew.keeper)
    crew.wake("boss")  # by now there is another keeper
    assert [each["running"] for each in crew.shown()["agents"]] == [False, True]
    crew.wake("player")
    assert crew.agent("player")["running"]


def test_a_kill_leaves_no_process_of_the_agent(crew: Band) -> None:
    until(lambda: crew.pids("sleep\x00100000") != [], "a model runs")
    crew.stop("player", "boss", at_once=True)
    assert crew.pids("worker.supervisor") == []
    assert crew.pids("sleep\x00100000") == []


def test_a_changed_file_says_what_has_changed(crew: Band) -> None:
    text = FILE.replace('mission = "Play."', 'mission = "Play on."\nbudget = 5')
    crew.file.write_text(text + '[agents.newcomer]\nmission = "Learn."\n')
    said = crew.up()
    assert any("player runs with its old mission, budget" in line for line in said)
    assert "newcomer is up" in said
    crew.file.write_text(FILE)
    assert any("newcomer is no longer in the file" in line for line in crew.up())
    with pytest.raises(UsageError, match="newcomer runs: stop it first"):
        crew.remove("newcomer")
    crew.stop("newcomer")
    crew.remove("newcomer")
    assert [each["name"] for each in crew.shown()["agents"]] == ["player", "boss"]
    own = crew.places.member("newcomer")
    assert [folder.exists() for folder in (*own.folders, own.identity)] == [False] * 4 + [True]
    crew.file.write_text(FILE.replace("[defaults]", 'hall = "ws://127.0.0.1:1"\n[defaults]'))
    with pytest.raises(UsageError, match=r"\[crew\] hall has changed while agents run"):
        crew.up()


def test_the_kill_switch_stops_agents_that_are_not_protected(crew: Band) -> None:
    switch = crew.home / ".agentchat" / "KILL"
    switch.parent.mkdir(exist_ok=True)
    switch.touch()
    try:
        until(lambda: not crew.agent("player")["running"], "the agent stops")
        assert crew.agent("boss")["running"]
        with pytest.raises(UsageError, match="the kill switch is on"):
            crew.up()
    finally:
        switch.unlink()


def test_stop_without_names_spares_the_protected_and_then_nothing_is_left(crew: Band) -> None:
    assert crew.stop() == {"spared": ["boss"], "is_over": False}
    assert [each["running"] for each in crew.shown()["agents"]] == [False, True]
    hall = crew.hall
    assert crew.stop("boss")["is_over"]
    assert not is_alive(hall)
    crew.until_nothing_is_left()
    assert not crew.office.is_kept()
    assert crew.stop() == {"spared": [], "is_over": True}  # again: there is nothing to do


def test_a_crew_without_keeper_and_understudy_can_be_stopped(crew: Band) -> None:
    for pid in (crew.understudy, crew.keeper):
        os.kill(pid, 9)
    until(lambda: not crew.office.is_kept(), "there is no keeper")
    crew.stop("boss")
    crew.stop()
    crew.until_nothing_is_left()


def test_a_keeper_that_is_told_to_end_leaves_the_crew_to_the_next(crew: Band) -> None:
    supervisor = crew.supervisor("player")
    os.kill(crew.keeper, 15)
    until(lambda: not crew.pids("moothall.worker.crew"), "keeper and understudy have ended")
    assert is_alive(supervisor)
    crew.up()
    assert crew.supervisor("player") == supervisor
