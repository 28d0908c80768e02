"""The metrics of a hall of several node processes. Any of them may be asked, and answers for all."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

LABEL: Final = "node"


class Gathering(Protocol):
    def offer(self, text: Callable[[], bytes]) -> None:
        """`text` has the metrics of this node."""

    def ask(self, told: Callable[[bytes], None]) -> None:
        """Call `told` with the metrics of all nodes."""


def merged(texts: Mapping[str, str]) -> str:
    """Metrics in Prometheus's format, by the names of nodes: each sample gets its node as a label."""
    families: dict[str, tuple[dict[str, None], list[str]]] = {}  # comments, each once, and samples
    for node, text in texts.items():
        comments: dict[str, None] = {}
        samples: list[str] = []
        for line in text.splitlines():
            if line.startswith("# HELP "):
                comments, samples = families.setdefault(line.split(" ", 3)[2], ({}, []))
            if line.startswith("#"):
                comments[line] = None
            elif line:
                samples.append(_labelled(line, node))
    return "".join(f"{line}\n" for family in families.values() for lines in family for line in lines)


def _labelled(sample: str, node: str) -> str:
    name, brace, rest = sample.partition("{")
    if brace and " " not in name:
        return f'{name}{{{LABEL}="{node}",{rest}'
    name, _, value = sample.partition(" ")
    return f'{name}{{{LABEL}="{node}"}} {value}'
