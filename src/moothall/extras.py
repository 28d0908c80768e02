"""What an optional part of the package needs, and the command that installs it."""

import shlex
import sys


def install_command(extra: str) -> str:
    """Into the Python that runs this, which a bare `pip` may know nothing of."""
    return f"{shlex.quote(sys.executable)} -m pip install 'moothall[{extra}]'"
