"""The import path that keep programs already have. Everything is in `moothall.keep`."""

from keep.client import KeepClient
from moothall import __version__
from moothall.keep.server import ensure_server

__all__ = ["KeepClient", "__version__", "ensure_server"]
