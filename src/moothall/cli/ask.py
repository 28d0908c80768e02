"""`moothall ask`: a question, and its answer on standard output."""

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from moothall.cli import _completion
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Url, Visit, seconds
from moothall.cli._exits import tell
from moothall.cli._reading import STANDARD_INPUT, read_content
from moothall.errors import UsageError
from moothall.tui.printable import one_line, printable, shown_name

if TYPE_CHECKING:
    from moothall import Message

PATIENCE: Final = 60.0  # seconds, as `Agent.ask` has it


def ask(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A channel, or an agent as @id or @name.",
            autocompletion=_completion.channels,
            show_default=False,
        ),
    ],
    question: Annotated[
        list[str],
        typer.Argument(metavar="QUESTION", help="What to ask; - reads standard input.", show_default=False),
    ],
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", callback=seconds, help="How long to wait for the answer.")
    ] = PATIENCE,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask a channel or an agent, and print the answer.

    The answer is the first reply, or what the agent says next that has claimed the question. Its text goes to
    standard output, and who answered to standard error. No answer in time is exit code 6.

    \b
    moothall ask general 'Which port does the hall use?'
    moothall ask @reviewer 'Is this safe?' --timeout 300
    git diff | moothall ask @1f3a9c02 - > review.txt
    """
    text = _text(question)
    visit = Visit(url, name, identity, min(timeout, DEFAULT_TIMEOUT))
    _show(visit.ask(lambda agent: agent.ask(target, text, timeout=timeout)), as_json=as_json)


def _text(question: list[str]) -> str:
    if question == [STANDARD_INPUT]:
        text = read_content(STANDARD_INPUT).decode(errors="replace").removesuffix("\n")
    else:
        text = " ".join(question).encode(errors="replace").decode()  # bytes that were not UTF-8
    if not text.strip():
        raise UsageError("there is nothing to ask: the question is empty")
    return text


def _show(answer: "Message", *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(answer.raw))
        return
    where = "directly" if answer.is_dm else f"in {one_line(answer.to)}"
    mark = "✓" if answer.verified else ""
    tell(f"{shown_name(answer.sender_name)}{mark} ({one_line(answer.sender)}) answers {where}:")
    typer.echo(printable(answer.content))
