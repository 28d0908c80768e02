"""Credits on the command line: decimals with up to six places, such as 2.5. Elsewhere they are millionths."""

import re
from typing import Annotated, Final

import typer

from moothall.errors import UsageError
from moothall.market.credits import MAX_AMOUNT, MILLIONTHS, shown

__all__ = ["AmountArgument", "AmountOption", "millionths", "shown"]

PLACES: Final = 6

_AMOUNT: Final = re.compile(r"(?P<whole>[0-9]{1,39})(?:\.(?P<part>[0-9]{1,6}))?", re.ASCII)

AmountArgument = Annotated[
    str, typer.Argument(metavar="CREDITS", help="As in 20 or 2.5.", show_default=False)
]
AmountOption = Annotated[
    str, typer.Option("--amount", "-a", metavar="CREDITS", help="The price, as in 20 or 2.5; 0 is none.")
]


def millionths(text: str) -> int:
    """Raises UsageError unless the text is an amount that can be exact."""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text!r} is not an amount of credits, such as 20 or 2.5, with at most {PLACES} places"
        )
    amount = int(found["whole"]) * MILLIONTHS + int((found["part"] or "").ljust(PLACES, "0"))
    if amount > MAX_AMOUNT:
        raise UsageError(f"{text} credits are more than a hall can keep, {shown(MAX_AMOUNT)}")
    return amount
