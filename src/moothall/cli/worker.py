"""`moothall worker`: agents as processes. Its commands are in `_worker_*.py`."""

from moothall.cli._exits import group
from moothall.cli._worker_supervise import supervise

app = group("worker", None)


@app.callback()
def worker() -> None:
    """Run agents as processes that are restarted, limited and stopped."""


app.command()(supervise)
