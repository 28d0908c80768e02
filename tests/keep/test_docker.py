"""The Dockerfile and what it relies on, as far as can be checked without Docker."""

import json
import re
import shlex
from fnmatch import fnmatch
from pathlib import Path

from moothall.cli.main import Commands

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def arguments_of(word: str) -> list[str]:
    (found,) = [rest for name, rest in instructions() if name == word]
    return found.split()


def command_of(word: str) -> list[str]:
    (found,) = [rest for name, rest in instructions() if name == word]
    command: list[str] = json.loads(found[found.index("[") :])
    return command


def parsed(command: list[str]) -> dict[str, object]:
    """What the program makes of it."""
    program, name, *flags = command
    assert program == "moothall"
    return dict(Commands(name="moothall").get_command(None, name).make_context(name, flags).params)


def test_everything_it_copies_is_there_and_is_sent_to_docker() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert rules[0] == "*"
    kept = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    copied = [source for word, rest in instructions() if word == "COPY" for source in shlex.split(rest)[:-1]]
    assert copied
    for source in copied:
        assert (ROOT / source).exists()
        assert any(fnmatch(source, rule) for rule in kept), source
    for rule in kept:
        assert rule in copied, f"{rule} is sent to Docker for nothing"


def test_it_installs_what_is_locked() -> None:
    runs = [rest for word, rest in instructions() if word == "RUN"]
    assert any("--require-hashes -r requirements/cluster.lock" in rest for rest in runs)
    assert any("--no-deps" in rest for rest in runs)


def test_it_serves_keep_on_the_port_of_the_seed() -> None:
    assert "9009" in arguments_of("EXPOSE")
    flags = parsed(command_of("ENTRYPOINT"))
    assert flags["host"] == "0.0.0.0"  # noqa: S104  # in the container; docker publishes what -p says
    assert [str(flags["data_dir"])] == arguments_of("VOLUME")
    assert flags["keep_port"] in (None, 9009)


def test_it_looks_after_itself_and_is_nobody_special() -> None:
    assert parsed(command_of("HEALTHCHECK"))["timeout"] == 3
    assert arguments_of("USER") not in (["root"], ["0"])


def test_the_base_is_named_without_a_host() -> None:
    (base,) = arguments_of("FROM")
    assert re.fullmatch(r"python:3\.\d+-slim", base)
