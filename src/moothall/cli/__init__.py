"""The command line: one command per file."""

from moothall.cli.main import main

__all__ = ["main"]
