"""`python -m tests.support.slow_commits serve ...`: a hall on a disk that takes its time.

On a fast disk an answer that leaves too early is true before anybody has read it. Here whoever gets it can be
quicker than the disk.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from moothall.cli import main
from moothall.store.postgres import PgWorker
from moothall.store.sqlite import SqliteStore

# Seconds. SQLite shares a commit among all who wait; PostgreSQL makes one for each unit, four at a time.
SQLITE_COMMIT: Final = 0.01
POSTGRES_COMMIT: Final = 0.002


def slowed(commit: Callable[..., float], seconds: float) -> Callable[..., float]:
    def slow_commit(*arguments: Any) -> float:
        time.sleep(seconds)
        return commit(*arguments)

    return slow_commit


if __name__ == "__main__":
    SqliteStore._commit = slowed(SqliteStore._commit, SQLITE_COMMIT)  # type: ignore[method-assign]
    PgWorker._commit = slowed(PgWorker._commit, POSTGRES_COMMIT)  # type: ignore[method-assign]
    main()
