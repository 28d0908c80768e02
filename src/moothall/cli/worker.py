"""`moothall worker`: agents as processes. Its commands are in `_worker_*.py`."""

from moothall.cli._exits import group
from moothall.cli._worker_guard import guard
from moothall.cli._worker_run import run
from moothall.cli._worker_supervise import supervise

app = group("worker", None)


@app.callback()
def worker() -> None:
    """Run agents as processes that are restarted, limited and stopped."""


app.command()(supervise)
app.command()(run)
# The first word that is not an option begins the command, whose own options follow.
app.command(context_settings={"allow_interspersed_args": False})(guard)
