"""`moothall` itself: commands, help, one-line errors, exit codes, and what is imported for them."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

import moothall
from moothall import __version__, errors
from moothall.cli import _exits
from moothall.cli._addresses import channel_name, hall_url, looks_like_url, web_url
from moothall.cli._exits import exit_code, explain
from moothall.cli.main import COMMANDS, GROUPS, app
from moothall.compiled import build
from moothall.errors import MoothallError, Refusal, UsageError
from moothall.tui import entry
from tests.support.server import PROGRAM, environment, running_hall
from tests.support.terminal import in_terminal

# What only a hall needs, or an agent that does more than to say a line.
NEEDLESS = (
    *(
        "moothall.hall",
        "moothall.market",
        "moothall.court",
        "moothall.settings",
        "moothall.store",
        "moothall.mesh",
    ),
    *(
        "moothall.client.admin",
        "moothall.client.sync",
        "moothall.client.background",
        "moothall.client.case_import",
    ),
    *("sqlite3", "cryptography"),
)
HEAVY = ("moothall.app", "moothall.gateways", "textual", "prometheus_client", "structlog", "uvloop", "rich")

SINGLE_COMMANDS = [name for name in COMMANDS if not hasattr(import_module(f"moothall.cli.{name}"), "app")]


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments, prog_name="moothall")
    assert "Traceback" not in result.output
    return result


def complaint(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == _exits.USAGE, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def imported_by(*arguments: str) -> set[str]:
    """The modules that the program has loaded when such a command has ended."""
    program = (
        "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        "from moothall.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    return set(result.stderr.split())


def test_ctrl_c_before_the_commands_are_read() -> None:
    program = """
import sys
class CtrlC:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
from moothall.cli import main
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (_exits.INTERRUPTED, "")


# help and version


def test_version() -> None:
    assert run("--version").stdout == f"moothall {__version__}\n"


@pytest.mark.parametrize("words", [("--version", "-v"), ("-v", "--version"), ("--verbose", "--version")])
def test_version_with_the_build(words: tuple[str, ...]) -> None:
    first, *details = run(*words).stdout.splitlines()
    assert first == f"moothall {__version__}"
    shown = dict(line.split(maxsplit=1) for line in details)
    assert shown["build"] == build()
    assert shown["python"].startswith(platform.python_version())
    assert shown["from"] == str(Path(moothall.__file__).parent)


def test_verbose_is_for_the_version_alone() -> None:
    assert "--version" in complaint("-v", "context", "list")


@pytest.mark.parametrize("group", [name for name in COMMANDS if name not in SINGLE_COMMANDS])
def test_completion_is_installed_for_the_program_and_not_for_a_part_of_it(group: str) -> None:
    assert "--install-completion" in run("--help").stdout
    assert "--install-completion" not in run(group, "--help").stdout


def test_without_a_command_the_help_is_shown() -> None:
    result = run()
    assert result.exit_code == _exits.USAGE
    for command in COMMANDS:
        assert f"  {command} " in result.output


@pytest.mark.parametrize("command", SINGLE_COMMANDS)
def test_every_command_has_a_short_help_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == _exits.OK
    assert f"  moothall {command}" in result.stdout
    assert len(result.stdout.splitlines()) <= 50
    summary = next(line for line in run("--help").stdout.splitlines() if line.startswith(f"  {command} "))
    assert not summary.endswith("...")


def test_commands_are_grouped() -> None:
    shown = run("--help").stdout
    for title, names in GROUPS.items():
        section = shown.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == list(names)


def every_command(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, groups too, with the words that call it."""
    yield path, command
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from every_command(command.get_command(context, name), *path, name)


ALL = {" ".join(path): command for path, command in every_command(typer.main.get_command(app))}


@pytest.mark.parametrize("command", ALL)
def test_the_help_is_for_people(command: str) -> None:
    """Short, the same with -h, and without the names that Python and its libraries have for types."""
    result = run(*command.split(), "-h")
    assert result.exit_code == _exits.OK
    assert result.stdout == run(*command.split(), "--help").stdout
    options = result.stdout.partition("Options:\n")
    assert re.search(r"<[a-z]|[{}]|list\[|\bx[<>]=", options[0] + options[2]) is None
    assert re.search(r"\.\.\.$", options[2], re.MULTILINE) is None  # no summary is cut off
    usage = result.stdout.splitlines()[0]
    assert usage.startswith(f"Usage: moothall {command}".rstrip())
    for param in ALL[command].params:
        assert param.metavar or getattr(param, "is_flag", False), param.name


# key files


SOMETHING = {"verdict": "disputant", "judgement": "approve", "amount": "2.5", "score": "80"}


def required(command: Any) -> Iterator[str]:
    """Something for every argument that the command cannot do without."""
    for param in command.params:
        if param.required and param.param_type_name == "option":
            yield param.opts[-1]
        if param.required:
            yield SOMETHING.get(param.name, "1f3a9c02")


WITH_KEY = {
    " ".join(path): (*path, *required(command))
    for path, command in every_command(typer.main.get_command(app))
    if any("--identity" in param.opts for param in command.params)
}


@pytest.mark.parametrize("command", sorted(WITH_KEY.keys() - {"chat", "doctor", "identity new"}))
def test_a_missing_key_file_is_refused_and_not_made(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    arguments = WITH_KEY[command]
    if command == "court evidence":
        arguments = (*arguments, "--statement", "x")
    if command == "mesh deliver":
        arguments = (*arguments, "--text", "x")
    if command == "file send":
        arguments = (*arguments[:-1], "/")
    assert "`moothall identity new typo.json`" in complaint(*arguments, "-i", "typo.json")
    assert list(tmp_path.iterdir()) == []


# pipes and terminals


@pytest.mark.parametrize(
    "arguments", [("config",), ("config", "--json"), ("--help",), ("market", "simulate", "--hours", "1")]
)
def test_a_closed_pipe_is_not_an_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [PROGRAM, *arguments],
            cwd=tmp_path,
            env=environment(),
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    assert (result.returncode, result.stderr) == (0, b"")


def test_an_error_that_cannot_be_told_is_still_an_exit_code(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [PROGRAM, "frobnicate"], cwd=tmp_path, env=environment(), stderr=writer, timeout=60, check=False
        )
    finally:
        os.close(writer)
    assert result.returncode == _exits.USAGE


def test_colours_are_for_terminals_whose_users_want_them(tmp_path: Path) -> None:
    assert "\x1b[" in in_terminal(tmp_path, "config").text
    assert "\x1b[" not in in_terminal(tmp_path, "config", environ={"NO_COLOR": "1"}).text
    assert "\x1b[" not in in_terminal(tmp_path, "doctor", environ={"NO_COLOR": "1"}).text
    assert "\x1b[" not in run("config").stdout


# errors


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    assert "perhaps you mean listen" in complaint("lisen")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("send",), "quote '#channel'"),
        (("send", "general", "hi", "--nome", "x"), "moothall send --help"),
        (("channels", "--timeout", "soon"), "'--timeout': 'soon' is not a number"),
        (("serve", "--port", "abc"), "'--port' / '-p': 'abc' is not a whole number"),
        (("listen", "--max", "0"), "0 is less than 1"),
        (("rating", "--history", "5000"), "5000 is more than 1000"),
        (("send", "general", "hi", "--wait"), "No such option: --wait"),
        (("health", "--timeout", "0"), "between 0 and"),
        (("health", "--timeout", "inf"), "between 0 and"),
        (("listen", "--timeout", "nan"), "between 0 and"),
        (("channels", "ftp://example.org"), "ws://127.0.0.1:6667"),
        (("agents", "no such channel"), "31 letters"),
        (("create", "#"), "31 letters"),
        (("create", "council", "--private"), "--identity"),
        (("send", "general", "hi", "-n", "no such name"), "1 to 32"),
        (("send", "general", "hi", "--lines"), "standard input"),
        (("send", "general", ""), "empty"),
        (("identity", "frobnicate"), "moothall identity --help"),
    ],
)
def test_wrong_usage_is_one_line_that_says_what_to_do(arguments: tuple[str, ...], hint: str) -> None:
    assert hint in complaint(*arguments)


@pytest.mark.parametrize("refusal", [Refusal.by_code[code] for code in sorted(Refusal.by_code)])
def test_a_refusal_shows_its_code(refusal: type[Refusal]) -> None:
    error = refusal("No \x1b[31mway\n")
    assert exit_code(error) == _exits.REFUSED
    assert explain(error).startswith(f"{refusal.code}: No [31mway")
    assert len(explain(error).splitlines()) == 1


def test_a_code_that_a_hall_made_up_does_not_steer_the_terminal() -> None:
    assert explain(errors.UnknownRefusal("no", "MADE\x1b[2J\nUP")) == "MADE[2J UP: no"


def test_how_long_to_wait_is_said_by_the_hall_alone() -> None:
    """Some limits are for seconds, others for a day."""
    assert explain(errors.RateLimited("Try again after midnight")) == "RATE_LIMITED: Try again after midnight"


def everything(kind: type[MoothallError]) -> list[type[MoothallError]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in everything(child))]


FIRST = {errors.EnvelopeRejected: ("Rule",), errors.NodeRefused: (409,)}  # what they say besides the reason


@pytest.mark.parametrize("kind", everything(MoothallError), ids=lambda kind: kind.__name__)
def test_every_error_has_an_exit_code_that_is_explained(kind: type[MoothallError]) -> None:
    error = kind(*FIRST.get(kind, ()), "why")
    assert exit_code(error) in _exits.MEANINGS
    assert "why" in explain(error)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConnectionFailed("x"), 3),
        (errors.ConnectionLost("x"), 3),
        (errors.Displaced("x"), 3),
        (errors.NotInvited("x"), 4),
        (errors.Kicked("x"), 4),
        (errors.OutOfOrder("x"), 4),
        (errors.EnvelopeRejected("NonceReplay", "x"), 4),
        (errors.ReplyTimeout("x"), 5),
        (errors.KeyFileError("x"), 2),
        (errors.InvalidCertificate("x"), 1),
    ],
)
def test_exit_codes_say_what_went_wrong(error: MoothallError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("error", "advised"),
    [
        (errors.Unanswered("the hall did not answer MSG within 2 s"), True),
        (errors.ReplyTimeout("ws://x accepted the connection but did not answer: is it a hall?"), False),
        (errors.ReplyTimeout("prop_1 is still pending after 2 s"), False),
        (errors.ConnectionLost("the connection to ws://x was lost"), True),
        (errors.NotConnected("the agent is not connected"), True),
        (errors.Displaced("run each identity once"), False),
    ],
)
def test_who_is_left_alone_by_the_hall_is_told_what_to_try(error: MoothallError, advised: bool) -> None:
    assert ("moothall health" in explain(error)) == advised


# addresses


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("ws://host:7000", "ws://host:7000"),
        ("wss://hall.example.org/path", "wss://hall.example.org/path"),
        ("http://127.0.0.1:6667", "ws://127.0.0.1:6667"),
        ("https://hall.example.org", "wss://hall.example.org"),
        ("localhost:6667", "ws://localhost:6667"),
        ("[::1]:6667", "ws://[::1]:6667"),
    ],
)
def test_the_address_of_a_hall_in_many_spellings(given: str, url: str) -> None:
    assert looks_like_url(given)
    assert hall_url(given) == url


@pytest.mark.parametrize(
    "given",
    [
        "ftp://host",
        "ws://",
        "ws://host:0",
        "ws://host:99999",
        "ws://[::1",
        "://",
        "ws://a..b",
        "ws://" + "x" * 70,
        "ws://host:6667#general",
    ],
)
def test_what_is_no_address(given: str) -> None:
    assert looks_like_url(given)
    with pytest.raises(UsageError, match="not the address of a hall"):
        hall_url(given)


@pytest.mark.parametrize("host", ["localhost", "hall.example.org", "[::1]"])
def test_a_host_alone_has_the_usual_port(host: str) -> None:
    assert hall_url(host) == f"ws://{host}:6667"


@pytest.mark.parametrize("word", ["#general", "general", "@1f3a9c02", "hello", "-", "max_frame=3"])
def test_other_words_are_no_addresses(word: str) -> None:
    assert not looks_like_url(word)


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCHAT_URL", "wss://hall.example.org")
    assert hall_url(None) == "wss://hall.example.org"
    assert hall_url("ws://other") == "ws://other"
    monkeypatch.setenv("AGENTCHAT_URL", "")
    assert hall_url(None) == "ws://127.0.0.1:6667"


def test_pages_are_on_the_same_port() -> None:
    assert web_url("ws://host:7000/path?x", "/health") == "http://host:7000/health"
    assert web_url("wss://host", "/health") == "https://host/health"


def test_a_channel_needs_no_hash() -> None:
    assert channel_name("general") == channel_name("#general") == "#general"


# the page about it

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"(^|`)moothall {command}\b", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize("code", _exits.MEANINGS)
def test_every_exit_code_is_documented(code: int) -> None:
    assert f"\n| {code} | " in PAGE.read_text()


@pytest.mark.parametrize("command", entry.COMMANDS)
def test_every_command_of_chat_is_documented(command: str) -> None:
    usage = entry.COMMANDS[command]
    arguments = f" {usage.arguments}" if usage.arguments else ""
    assert f"| `/{command}{arguments}` | " in PAGE.with_name("chat.md").read_text()


# start-up


@pytest.mark.slow
def test_little_is_imported_for_little() -> None:
    for command in (["--version"], ["--help"], ["send", "--help"]):
        loaded = imported_by(*command)
        assert "moothall.cli.main" in loaded
        assert loaded.isdisjoint(HEAVY), command
    assert imported_by("--version").isdisjoint({"asyncio", "websockets", "nacl", "msgspec"})


@pytest.mark.slow
def test_sending_imports_neither_the_server_nor_what_only_other_agents_need(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--no-limits") as hall:
        loaded = imported_by("send", hall.url, "general", "hello")
    assert "moothall.client.connection" in loaded
    assert loaded.isdisjoint(HEAVY)
    assert loaded.isdisjoint(NEEDLESS)


# completion


def test_completion_is_offered() -> None:
    shown = run("--show-completion", "bash")
    assert "_MOOTHALL_COMPLETE" in shown.output


@pytest.mark.parametrize("arguments", [("config",), ("--help",), ("identity", "--help")], ids=" ".join)
def test_output_that_cannot_be_written_is_one_line_too(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [PROGRAM, *arguments],
            cwd=tmp_path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.stderr == "error: the output cannot be written: No space left on device\n"
    assert ended.returncode == _exits.FAILED
