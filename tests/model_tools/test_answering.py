"""What a model gets for a call of a tool."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moothall.errors import MoothallError, UsageError
from moothall.tools import answering
from moothall.tools.options import Options
from moothall.tools.session import Session
from moothall.tools.table import READS, Call, NoArguments, Result, Tool


class Said(Result):
    text: str


class Silent:
    is_wanted = False

    async def __call__(self, done: float, total: float | None, message: str) -> None:
        """Nothing."""


def run(raised: Exception | None, arguments: dict[str, Any]) -> Result | str:
    async def function(call: Call, given: NoArguments) -> Said:
        if raised is not None:
            raise raised
        return Said(text="done")

    async def answer() -> Result | str:
        session = Session(Options())
        tool = Tool("a_tool", "A tool", "Does it.", NoArguments, Said, function, READS)
        return await answering.run(tool, Call(session, Silent()), arguments)

    return asyncio.run(answer())


def test_a_result_is_a_result() -> None:
    assert run(None, {}) == Said(text="done")


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (UsageError("Choose another."), "Choose another."),
        (
            OSError(28, "No space left on device", str(Path("/x"))),
            "A file or the network failed: No space left",
        ),
        (ZeroDivisionError("secret"), "a mistake in moothall (ZeroDivisionError)"),
    ],
)
def test_a_failure_is_a_text_without_a_traceback(raised: Exception, text: str) -> None:
    found = run(raised, {})
    assert isinstance(found, str)
    assert text in found
    assert "Traceback" not in found
    assert isinstance(raised, MoothallError) or "secret" not in found


def test_arguments_that_do_not_fit_are_explained() -> None:
    assert "The arguments of a_tool do not fit" in str(run(None, {"x": 1}))
