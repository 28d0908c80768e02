"""Credits on the command line: decimals with up to six places, such as 2.5. Elsewhere they are millionths."""

import re
from typing import Annotated, Final

import typer

from moothall.errors import UsageError

MILLION: Final = 1_000_000
PLACES: Final = 6
LARGEST: Final = 2**63 - 1  # millionths; every store can hold it

_AMOUNT: Final = re.compile(r"(?P<whole>[0-9]{1,13})(?:\.(?P<part>[0-9]{1,6}))?", re.ASCII)

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
    amount = int(found["whole"]) * MILLION + int((found["part"] or "").ljust(PLACES, "0"))
    if amount > LARGEST:
        raise UsageError(f"{text} credits are more than a hall can keep, {shown(LARGEST)}")
    return amount


def shown(amount: int) -> str:
    """Without zeros that say nothing: 2.5, 20."""
    whole, part = divmod(abs(amount), MILLION)
    digits = f"{whole}.{part:0{PLACES}}".rstrip("0").rstrip(".")
    return f"-{digits}" if amount < 0 else digits
