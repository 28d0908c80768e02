"""The command line: one command per file."""

try:
    from moothall.cli._imports import imports_that_stay

    with imports_that_stay():
        from moothall.cli.main import main
except KeyboardInterrupt:  # Ctrl-C before the commands are even read is no reason for a traceback either
    raise SystemExit(130) from None  # as `exits.INTERRUPTED`, which may not be there yet

__all__ = ["main"]
