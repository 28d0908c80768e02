"""How a command ends: one line on standard error that says what to do next, and an exit code."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from typing import Any, Final, TextIO

import typer
from typer.core import TyperGroup

from moothall import errors
from moothall.cli._help_text import Commands
from moothall.tui.printable import one_line

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
CONNECTION: Final = 3
REFUSED: Final = 4
TIMEOUT: Final = 5
NO_ANSWER: Final = 6
INTERRUPTED: Final = 130  # what shells give for Ctrl-C

MEANINGS: Final = {
    OK: "done",
    FAILED: "a check failed: `doctor` found a fault, a proof does not hold, a message or a file did not arrive",
    USAGE: "the command, a setting or a file of yours is wrong",
    CONNECTION: "no connection to the hall, or it was lost",
    REFUSED: "the hall refused; its code is in the message",
    TIMEOUT: "the hall did not answer in time",
    NO_ANSWER: "no agent answered the question, or took or offered files, in time",
    INTERRUPTED: "interrupted with Ctrl-C",
}

# The first class that fits decides.
_CODES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (errors.NoAnswer, NO_ANSWER),
    (errors.TransferTimeout, NO_ANSWER),
    (errors.TransferFailed, FAILED),
    (TimeoutError, TIMEOUT),
    (errors.Refusal, REFUSED),
    (errors.Kicked, REFUSED),
    (errors.OutOfOrder, REFUSED),
    (errors.EnvelopeRejected, REFUSED),
    (errors.ClientError, CONNECTION),
    (errors.UsageError, USAGE),
    (errors.MoothallError, FAILED),
)

_DISK_FAULTS: Final = frozenset((EDQUOT, EFBIG, EIO, ENOSPC))

# What a person can do about a refusal, where the hall's own words do not say it.
_ADVICE: Final = {
    errors.ChannelNotFound.code: "`moothall channels` lists them, `moothall create` makes one",
    errors.ChannelExists.code: "choose another name, or `moothall listen` to it",
    errors.AgentNotFound.code: "`moothall agents` lists the ids of those who are here",
    errors.NotInvited.code: "ask a member to run `moothall invite CHANNEL YOUR_ID`",
    errors.AuthRequired.code: "use --identity FILE; if you did, ask the operator for `moothall admin grant`",
    errors.SignatureRequired.code: "prove who you are with --identity FILE",
    errors.VerificationRequired.code: "prove who you are with --identity FILE",
    errors.VerificationFailed.code: "`moothall doctor` compares your clock and your key file",
    errors.NotAllowed.code: "ask the operator to approve your key; `moothall identity show` prints it",
    errors.Banned.code: "only the operator can lift it",
    errors.InvalidName.code: "choose another --name",
    errors.ProposalNotFound.code: "`moothall proposals` lists your deals",
    errors.InvalidProposal.code: "`moothall proposals` shows how it stands",
    errors.InsufficientReputation.code: "`moothall rating` shows what you can stake",
    errors.DisputeAlreadyExists.code: "`moothall court show PROPOSAL` shows how it stands",
    errors.DisputeNotFound.code: "`moothall court list` shows those you have a part in",
    errors.DisputeNotParty.code: "use the key of a party with --identity FILE",
    errors.DisputeCommitmentMismatch.code: "the secret is beside the key that filed it: run `court reveal` there",
    errors.DisputeNotArbiter.code: "`moothall court list` shows where you are asked to judge",
    errors.DisputeDeadlinePassed.code: "`moothall court show DISPUTE` shows what there is",
    errors.DisputeInvalidPhase.code: "`moothall court show DISPUTE` shows how far it is",
    errors.InsufficientArbiters.code: "try again when more agents are here; `moothall dispute` needs none",
    errors.InternalError.code: "the operator's log says more",
    errors.Unavailable.code: "wait a little, then run it again; the operator's log says more",
}

_CHANNEL_ARGUMENTS: Final = ("to", "text", "channel")

# What is wrong with a value, in our words: those of the library name types of Python and not the value.
_WRONG_VALUES: Final = {
    "int_parsing": "{input!r} is not a whole number",
    "int_parsing_size": "{input!r} is too large",
    "float_parsing": "{input!r} is not a number",
    "greater_than_equal": "{input} is less than {ge:g}",
    "less_than_equal": "{input} is more than {le:g}",
}


class OneLineErrors(TyperGroup):
    """Commands that end as this module says, however they fail."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(
                args, prog_name, complete_var, standalone_mode=False, windows_expand_args=False, **extra
            )
        except (errors.MoothallError, typer.TyperException) as error:
            if not standalone_mode:
                raise
            tell(f"error: {explain(error)}")
            code = exit_code(error)
        except OSError as error:
            if not standalone_mode or error.errno not in _DISK_FAULTS:
                raise
            drop_output()
            tell(f"error: the output cannot be written: {error.strerror}")
            code = FAILED
        if not standalone_mode:
            return code
        sys.exit(code or OK)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        with _closed_pipe_is_an_end():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        if os.environ.get("NO_COLOR"):  # https://no-color.org
            ctx.color = False
        with _closed_pipe_is_an_end():
            return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing and not self.invoke_without_command:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(USAGE)
        return super().parse_args(ctx, args)


@contextmanager
def _closed_pipe_is_an_end() -> Iterator[None]:
    """The reader of our output has seen enough, as `head` has after some lines."""
    try:
        yield
    except BrokenPipeError:
        drop_output()
        raise typer.Exit(OK) from None


def group(name: str, purpose: str | None, cls: type[OneLineErrors] = OneLineErrors) -> typer.Typer:
    """A command that has commands of its own. Without a purpose, the docstring of its callback is its help."""
    options: dict[str, Any] = {} if purpose is None else {"help": purpose}
    return Commands(
        name=name,
        cls=cls,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        **options,
    )


def tell(text: str) -> None:
    """A line on standard error. A reader of it that has left does not end the command."""
    try:
        typer.echo(text, err=True)
    except BrokenPipeError:
        _drop(sys.stderr)


def drop_output() -> None:
    """Discard what is written from now on, and what waits to be flushed when the program ends."""
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def exit_code(error: BaseException) -> int:
    if isinstance(error, typer.TyperException):
        return error.exit_code
    return next(code for fitting, code in _CODES if isinstance(error, fitting))


def explain(error: BaseException) -> str:
    """One line; what a server wrote cannot steer the terminal."""
    if isinstance(error, typer.TyperException):
        return _with_help(error)
    text = one_line(str(error))
    if isinstance(error, errors.Refusal):
        text = f"{one_line(error.code)}: {text}"
        notes: list[str] = getattr(error, "__notes__", [])  # what the command itself advises
        if advice := "; ".join(notes) or _ADVICE.get(error.code):
            text = f"{text.rstrip('.')}; {advice}"
    elif isinstance(error, errors.OutOfOrder):
        text = f"{text.rstrip('.')}; `moothall mesh conversations` shows how yours stand"
    elif isinstance(error, errors.EnvelopeRejected):
        text = f"{one_line(error.fault)}: {text}"
    elif isinstance(error, errors.NoAnswer):
        text = f"{text}; `moothall agents` shows who is there, and a longer --timeout waits longer"
    elif isinstance(error, errors.Unanswered | errors.ConnectionLost | errors.NotConnected):
        text = f"{text}; try again, `moothall health` tells whether the hall is well"
    return text


def _with_help(error: typer.TyperException) -> str:
    if isinstance(error, typer.BadParameter) and (words := _wrong_value(error.__cause__)):
        error.message = words
    text = one_line(error.format_message()).rstrip(".")
    if _missing(error) in _CHANNEL_ARGUMENTS:
        text += " (the shell takes # for a comment: quote '#channel', or leave the # out)"
    context = getattr(error, "ctx", None)
    return f"{text}; see {context.command_path} --help" if context else text


def _missing(error: typer.TyperException) -> str | None:
    """The argument that is missing, if one is: that is the one BadParameter with a class of its own."""
    if isinstance(error, typer.BadParameter) and type(error) is not typer.BadParameter and error.param:
        return error.param.name
    return None


def _wrong_value(cause: Any) -> str | None:
    """What a check of a value found, if `cause` is one; None where the library's own words are as good."""
    if not hasattr(cause, "errors"):
        return None
    found = cause.errors()[0]
    words = _WRONG_VALUES.get(found["type"])
    return words and words.format(input=found["input"], **found.get("ctx", {}))
