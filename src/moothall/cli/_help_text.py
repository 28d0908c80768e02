"""What `--help` shows of a command: names that users write, and no types of the library that parses them."""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperCommand

_BETWEEN: Final = re.compile(r"([\d.]+)<=x<=([\d.]+)")
_AT_LEAST: Final = re.compile(r"x>=([\d.]+)")

Function = TypeVar("Function", bound=Callable[..., Any])


class PlainCommand(TyperCommand):
    """A command whose arguments appear as TO, [FILE] or TEXT..., in the usage and in the list below it."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return ["[OPTIONS]", *(_in_usage(argument) for argument in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                name = record[0] if param.param_type_name == "option" else _shown(param)
                records[param.param_type_name].append((name, _in_words(record[1])))
        for kind, title in (("argument", "Arguments"), ("option", "Options")):
            if records[kind]:
                with formatter.section(title):
                    formatter.write_dl(records[kind])


class Commands(typer.Typer):
    """Commands that appear as `PlainCommand` does, unless they name a class of their own."""

    def command(self, *args: Any, **options: Any) -> Callable[[Function], Function]:
        options.setdefault("cls", PlainCommand)
        return super().command(*args, **options)


def _in_words(text: str) -> str:
    """`1<=x<=1000` is `1 to 1000`, and `x>=1` is `at least 1`."""
    return _AT_LEAST.sub(r"at least \1", _BETWEEN.sub(r"\1 to \2", text))


def _shown(argument: Any) -> str:
    name: str = argument.metavar or argument.name.upper()
    return name.strip("[]")


def _in_usage(argument: Any) -> str:
    name = _shown(argument)
    if not argument.required:
        name = f"[{name}]"
    return f"{name}..." if argument.nargs != 1 else name
