"""A hall that an agent visits cannot be the agent in another hall."""

import asyncio
import json
import multiprocessing
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from moothall import Agent, SyncAgent, VerificationFailed, known_halls
from moothall.app import App
from moothall.errors import ConnectionFailed, UntrustedHall, UsageError
from moothall.known_halls import KnownHalls, Pin, check_challenge, place_of
from moothall.wire.agentchat.server import Challenge
from moothall.wire.agentchat.signing import bound_nonce
from tests.client.conftest import OpenHall
from tests.client.reference import Reference
from tests.identity.vectors import ALICE, BOB
from tests.support.agentchat import AgentChat

URL = "wss://hall.example.org"
PLACE = "hall.example.org:443"
KEY, OTHER = "ab" * 32, "cd" * 32
RANDOM = "00112233445566778899aabbccddeeff"


def challenge(host: str = "hall.example.org", key: str = KEY, **changed: Any) -> Challenge:
    fields: dict[str, Any] = {
        "ts": 1,
        "challenge_id": "chal_1",
        "nonce": bound_nonce(key, RANDOM, host),
        "expires_at": 2,
        "hall_key": key,
        "hall_random": RANDOM,
        "hall_host": host,
        **changed,
    }
    return Challenge(**fields)


UNNAMED: dict[str, Any] = {"hall_key": None, "hall_random": None, "hall_host": None}


# -- what is signed --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "host"),
    [
        (URL, "hall.example.org"),
        (URL, "HALL.example.org:443"),
        (URL.upper(), "hall.example.org"),
        ("ws://hall.example.org", "hall.example.org:80"),
        ("ws://127.0.0.1:6667", "127.0.0.1:6667"),
        ("ws://[::1]:6667", "[0:0::1]:6667"),
        ("ws://localhost:7000", "localhost:7000"),
    ],
)
def test_a_challenge_of_the_hall_that_was_dialled_is_signed(url: str, host: str) -> None:
    assert check_challenge(url, challenge(host), {}) == KEY
    assert check_challenge(url, challenge(host), {place_of(url): Pin(KEY)}) == KEY


def test_a_server_that_does_not_name_itself_is_served_as_before() -> None:
    assert check_challenge(URL, challenge(**UNNAMED), {}) is None
    assert check_challenge(URL, challenge(**UNNAMED), {"other.example.org:443": Pin(KEY)}) is None


def test_a_hall_that_named_itself_before_has_to_go_on_doing_so() -> None:
    with pytest.raises(UntrustedHall, match=f"moothall identity unpin {PLACE}"):
        check_challenge(URL, challenge(**UNNAMED), {PLACE: Pin(KEY)})


@pytest.mark.parametrize("changed", [{"nonce": "0" * 32}, {"hall_random": "1" * 32}, {"hall_key": OTHER}])
def test_a_nonce_that_does_not_follow_from_the_name_is_not_signed(changed: dict[str, Any]) -> None:
    with pytest.raises(UntrustedHall, match="not its own"):
        check_challenge(URL, challenge(**changed), {})


@pytest.mark.parametrize(
    "changed",
    [
        {"hall_key": None},
        {"hall_random": None},
        {"hall_host": None},
        {"hall_key": KEY.upper()},
        {"hall_key": KEY[:-1]},
        {"hall_random": RANDOM + "|x"},
        {"hall_random": ""},
    ],
)
def test_half_a_name_is_not_signed(changed: dict[str, Any]) -> None:
    with pytest.raises(UntrustedHall, match="form unknown"):
        check_challenge(URL, challenge(**changed), {})


@pytest.mark.parametrize(
    "host", ["evil.example.org", "hall.example.org:8443", "hall.example.org.evil.org", "", "a|b", "\ud800"]
)
def test_the_challenge_of_another_host_is_not_signed(host: str) -> None:
    with pytest.raises(UntrustedHall, match="public_url") as raised:
        check_challenge(URL, challenge(host), {PLACE: Pin(KEY)})
    assert f"moothall identity pin {URL} KEY" in str(raised.value)


def test_a_user_may_say_that_an_address_leads_to_a_hall_of_another_name() -> None:
    pins = {"localhost:7000": Pin(KEY, by_user=True), PLACE: Pin(KEY)}
    assert check_challenge("ws://127.0.0.1:7000", challenge(), pins) == KEY
    with pytest.raises(UntrustedHall, match="another key"):
        check_challenge("ws://127.0.0.1:7000", challenge(key=OTHER), pins)


def test_a_hall_with_another_key_than_at_the_first_contact_is_not_served() -> None:
    with pytest.raises(UntrustedHall, match=f"moothall identity unpin {PLACE}"):
        check_challenge(URL, challenge(), {PLACE: Pin(OTHER)})


def test_a_hall_that_is_known_under_another_address_is_not_served() -> None:
    """A server that is visited for the first time may send its own Host to that hall."""
    evil = "wss://evil.example.org"
    with pytest.raises(UntrustedHall, match=f"you know as {PLACE}"):
        check_challenge(evil, challenge("evil.example.org"), {PLACE: Pin(KEY)})
    assert check_challenge(evil, challenge("evil.example.org", key=OTHER), {PLACE: Pin(KEY)}) == OTHER


def test_a_hall_on_this_machine_may_have_another_port_the_next_time() -> None:
    pins = {"localhost:6667": Pin(KEY)}
    assert check_challenge("ws://127.0.0.1:7000", challenge("127.0.0.1:7000"), pins) == KEY
    with pytest.raises(UntrustedHall):
        check_challenge(URL, challenge(), pins)


def test_but_not_the_hall_behind_a_tunnel_that_the_user_pinned() -> None:
    known = {"localhost:7000": Pin(KEY, by_user=True)}
    with pytest.raises(UntrustedHall, match="that you know as localhost:7000"):
        check_challenge("ws://localhost:9000", challenge("localhost:9000"), known)
    assert check_challenge("ws://localhost:7000", challenge("localhost:7000"), known) == KEY


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_whatever_a_server_says_is_signed_only_if_it_is_its_own(
    key: str, random: str, host: str, nonce: str
) -> None:
    sent = challenge(hall_key=key, hall_random=random, hall_host=host, nonce=nonce)
    with pytest.raises(UntrustedHall):
        check_challenge(URL, sent, {})


def test_the_names_of_loopback_are_one_place() -> None:
    names = ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::]")  # noqa: S104 - dialled, not bound
    assert {place_of(f"ws://{name}:6667") for name in names} == {"localhost:6667"}
    assert place_of("WSS://Hall.example.org/") == PLACE
    with pytest.raises(ConnectionFailed):
        place_of("nonsense")


# -- the file --------------------------------------------------------------------------------------------


def test_a_pin_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    halls = KnownHalls(tmp_path / "new" / "halls.json")
    assert halls.read() == {}
    halls.pin(PLACE, KEY)
    assert halls.read()[PLACE].key == KEY
    assert stat.S_IMODE(halls.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(halls.path.parent.stat().st_mode) == 0o700
    assert halls.unpin(PLACE)
    assert not halls.unpin(PLACE)
    assert halls.read() == {}


def test_the_first_pin_stays_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    halls = KnownHalls(tmp_path / "halls.json")
    halls.pin(PLACE, KEY)
    since = halls.read()[PLACE].since
    halls.pin(PLACE, KEY)
    assert halls.read()[PLACE] == Pin(KEY, since)
    with pytest.raises(UntrustedHall, match="another program"):
        halls.pin(PLACE, OTHER)
    assert halls.read()[PLACE].key == KEY
    halls.pin(PLACE, OTHER, by_user=True)
    assert halls.read()[PLACE]._replace(since="") == Pin(OTHER, "", by_user=True)


def test_a_hall_of_the_user_replaces_the_pin_of_an_earlier_one_on_its_port(tmp_path: Path) -> None:
    halls = KnownHalls(tmp_path / "halls.json")
    assert not halls.meet_own_hall(6667, KEY)
    assert not halls.path.exists()  # the first agent pins it
    halls.pin("localhost:6667", KEY)
    halls.pin("localhost:6668", KEY)
    assert not halls.meet_own_hall(6667, KEY)
    assert halls.meet_own_hall(6667, OTHER)
    assert {place: pin.key for place, pin in halls.read().items()} == {
        "localhost:6667": OTHER,
        "localhost:6668": KEY,
    }


def test_a_hall_of_the_user_does_not_replace_what_the_user_pinned(tmp_path: Path) -> None:
    halls = KnownHalls(tmp_path / "halls.json")
    halls.pin("localhost:6667", KEY, by_user=True)
    assert not halls.meet_own_hall(6667, OTHER)
    assert halls.read()["localhost:6667"].key == KEY


@pytest.mark.parametrize("by_user", [False, True])
def test_a_hall_that_was_here_for_a_short_time(tmp_path: Path, *, by_user: bool) -> None:
    halls = KnownHalls(tmp_path / "halls.json")
    halls.pin("localhost:6667", KEY, by_user=by_user)
    former = halls.at_own_port(6667)
    assert former is not None
    assert halls.meet_own_hall(6667, OTHER) is not by_user
    halls.leave_own_hall(6667, OTHER, former)
    assert halls.at_own_port(6667) == former


def test_a_hall_that_was_met_for_the_first_time_is_forgotten_when_it_is_gone(tmp_path: Path) -> None:
    halls = KnownHalls(tmp_path / "halls.json")
    halls.leave_own_hall(6667, KEY, None)
    assert not halls.path.exists()
    halls.pin("localhost:6667", KEY)
    halls.leave_own_hall(6667, OTHER, None)
    assert halls.at_own_port(6667) is not None
    halls.leave_own_hall(6667, KEY, None)
    assert halls.at_own_port(6667) is None


def test_a_hall_does_not_replace_pins_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sudo moothall serve` would leave a file that the agents of the user cannot read."""
    halls = KnownHalls(tmp_path / "halls.json")
    halls.pin("localhost:6667", KEY)
    monkeypatch.setattr("os.geteuid", lambda: halls.path.stat().st_uid + 1)
    assert not halls.meet_own_hall(6667, OTHER)
    assert halls.read()["localhost:6667"].key == KEY


def test_old_pins_of_loopback_make_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_halls, "MAX_LOCAL", 2)
    halls = KnownHalls(tmp_path / "halls.json")
    halls.pin("localhost:1", KEY, by_user=True)
    for port in (2, 3, 4):
        halls.pin(f"localhost:{port}", KEY)
    halls.pin(PLACE, KEY)
    assert list(halls.read()) == ["localhost:1", "localhost:3", "localhost:4", PLACE]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"7",
        b"{",
        b"\xff",
        b'{"a": 7}',
        b'{"a": {}}',
        b'{"a": {"key": "x"}}',
        b'{"a": {"key": 7}}',
        b'{"a": {"key": "' + KEY.encode() + b'", "since": 7}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "halls.json"
    path.write_bytes(content)
    for use in (KnownHalls(path).read, lambda: KnownHalls(path).pin(PLACE, KEY)):
        with pytest.raises(UsageError) as raised:
            use()
        assert str(path) in str(raised.value)
        assert "\n" not in str(raised.value)
    assert path.read_bytes() == content


def test_a_file_that_others_can_change_is_not_believed(tmp_path: Path) -> None:
    halls = KnownHalls(tmp_path / "halls.json")
    halls.pin(PLACE, KEY)
    halls.path.chmod(0o622)
    with pytest.raises(UsageError, match="chmod 600"):
        halls.read()


def test_links_are_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("{}")
    halls = KnownHalls(tmp_path / "halls.json")
    halls.path.symlink_to(precious)
    with pytest.raises(UsageError, match=r"halls\.json"):
        halls.read()
    halls.path.unlink()
    (tmp_path / ".halls.json.lock").symlink_to(precious)
    with pytest.raises(OSError, match="lock"):
        halls.pin(PLACE, KEY)
    assert precious.read_text() == "{}"


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        KnownHalls(tmp_path).read()


def _pin_many(path: Path, first: int) -> None:
    for number in range(first, first + 20):
        KnownHalls(path).pin(f"hall{number}.example.org:443", KEY)


def test_processes_that_pin_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "halls.json"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_pin_many, args=(path, first)) for first in (0, 20, 40)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert len(KnownHalls(path).read()) == 60
    assert sorted(found.name for found in tmp_path.iterdir()) == [".halls.json.lock", "halls.json"]


def test_the_file_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(known_halls.PATH_VARIABLE, str(tmp_path / "there.json"))
    assert KnownHalls().path == tmp_path / "there.json"
    monkeypatch.delenv(known_halls.PATH_VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert KnownHalls().path == tmp_path / ".agentchat" / "known-halls.json"


def test_without_a_home_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(known_halls.PATH_VARIABLE)
    monkeypatch.setattr(Path, "expanduser", homeless)
    halls = KnownHalls()
    assert halls.read() == {}
    with pytest.raises(OSError, match="no-home"):
        halls.pin(PLACE, KEY)


# -- agents and halls ------------------------------------------------------------------------------------


async def test_the_first_contact_pins(hall: App) -> None:
    for _ in range(2):
        async with Agent("alice", identity=ALICE).connected(hall.url):
            pass
    (pin,) = KnownHalls().read().values()
    assert pin.key == hall.hall.public_key


async def test_an_agent_without_a_key_has_nothing_to_protect(hall: App) -> None:
    async with Agent("visitor").connected(hall.url):
        pass
    assert KnownHalls().read() == {}


async def test_a_refused_agent_pins_nothing(open_hall: OpenHall) -> None:
    async with open_hall(allowlist=True) as app:
        with pytest.raises(Exception, match="approved keys"):
            await Agent("alice", identity=ALICE).connect(app.url)
    assert KnownHalls().read() == {}


async def test_another_hall_at_the_same_address_is_not_served(hall: App) -> None:
    KnownHalls().pin(place_of(hall.url), OTHER)
    with pytest.raises(UntrustedHall, match="moothall identity unpin localhost:"):
        await Agent("alice", identity=ALICE).connect(hall.url)
    assert hall.hall.roster.agents == {}

    def meet() -> None:
        with SyncAgent("alice", identity=ALICE, url=hall.url):
            pass

    with pytest.raises(UntrustedHall):
        await asyncio.to_thread(meet)
    KnownHalls().unpin(place_of(hall.url))
    await asyncio.to_thread(meet)


async def test_a_public_url_is_what_has_to_be_dialled(open_hall: OpenHall) -> None:
    async with open_hall(public_url="wss://hall.example.org") as app:
        with pytest.raises(UntrustedHall, match=r"calls itself 'hall\.example\.org'"):
            await Agent("alice", identity=ALICE).connect(app.url)
        KnownHalls().pin(place_of(app.url), app.hall.public_key, by_user=True)
        async with Agent("alice", identity=ALICE).connected(app.url):
            pass


async def test_a_file_that_cannot_be_written_does_not_keep_an_agent_out(
    hall: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(
        known_halls.PATH_VARIABLE, "/proc/halls.json"
    )  # where nobody makes files, root neither
    async with Agent("alice", identity=ALICE).connected(hall.url):
        assert "is not remembered" in caplog.text


async def test_servers_without_a_name_keep_working(tmp_path: Path) -> None:
    async with Reference() as server, Agent("alice", identity=ALICE).connected(server.url) as alice:
        assert alice.is_connected
    assert KnownHalls().read() == {}


# -- the attack ------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], dict[str, Any]]


@asynccontextmanager
async def evil_hall(real: App, change: Change) -> AsyncIterator[tuple[str, list[str]]]:
    """It passes on everything between its guests and the real hall; `change` is what it does to CHALLENGE. What
    the real hall answered is in the list."""
    heard: list[str] = []

    async def relay(guest: ServerConnection) -> None:
        async with connect(real.url, proxy=None) as inside:

            async def inwards() -> None:
                async for text in guest:
                    await inside.send(text)
                await inside.close()

            async def outwards() -> None:
                async for text in inside:
                    message = json.loads(text)
                    heard.append(message["type"])
                    is_challenge = message["type"] == "CHALLENGE"
                    await guest.send(json.dumps(change(message) if is_challenge else message))

            await asyncio.gather(inwards(), outwards())

    async with serve(relay, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}", heard


def untouched(message: dict[str, Any]) -> dict[str, Any]:
    return message


def stripped(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if not name.startswith("hall_")}


def renamed(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "hall_host": "127.0.0.1:1", "hall_key": OTHER}


@pytest.mark.parametrize("change", [untouched, renamed])
async def test_a_relayed_challenge_is_not_signed(hall: App, change: Change) -> None:
    async with evil_hall(hall, change) as (url, heard):
        with pytest.raises(UntrustedHall):
            await Agent("alice", identity=ALICE).connect(url)
        assert heard == ["CHALLENGE"]
    assert hall.hall.roster.agents == {}


async def test_a_challenge_without_its_name_is_of_no_use_to_the_relay(hall: App) -> None:
    """The server looks like one that has no name, so the agent signs; but the signed time tells the real hall."""
    async with evil_hall(hall, stripped) as (url, heard):
        with pytest.raises(VerificationFailed, match="relays"):
            await Agent("alice", identity=ALICE).connect(url)
        assert heard == ["CHALLENGE", "ERROR"]
    assert hall.hall.roster.agents == {}
    assert hall.hall.tally.security["challenge_relayed"] == 1


async def test_a_relay_that_gives_the_hall_its_own_name_is_known(open_hall: OpenHall) -> None:
    """It sends its own Host. With public_url the hall does not believe it; else the agent knows the hall's key."""

    def lying(message: dict[str, Any]) -> dict[str, Any]:
        """What the real hall would have sent, had it been asked under this name."""
        name = url.removeprefix("ws://")
        nonce = bound_nonce(message["hall_key"], message["hall_random"], name)
        return {**message, "hall_host": name, "nonce": nonce}

    async with open_hall() as app, evil_hall(app, lying) as (url, heard):
        KnownHalls().pin(PLACE, app.hall.public_key)
        with pytest.raises(UntrustedHall, match=f"you know as {PLACE}"):
            await Agent("alice", identity=ALICE).connect(url)
        assert heard == ["CHALLENGE"]


async def test_other_clients_come_in_as_before(hall: App) -> None:
    async with await AgentChat.connect(hall.url, "bob", BOB) as bob:
        sent = next(message for message in bob.received if message["type"] == "CHALLENGE")
    assert sent["hall_key"] == hall.hall.public_key
    assert sent["hall_host"] == hall.url.removeprefix("ws://")
    assert sent["nonce"] == bound_nonce(sent["hall_key"], sent["hall_random"], sent["hall_host"])
