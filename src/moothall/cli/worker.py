"""`moothall worker`: agents as processes. Its commands are in `_worker_*.py`."""

from moothall.cli._exits import group
from moothall.cli._worker_agent import exec_, rm, wake
from moothall.cli._worker_guard import guard
from moothall.cli._worker_logs import logs
from moothall.cli._worker_ps import ps
from moothall.cli._worker_run import run
from moothall.cli._worker_stop import kill, stop
from moothall.cli._worker_supervise import supervise
from moothall.cli._worker_up import up

app = group("worker", None)


@app.callback()
def worker() -> None:
    """Run agents that are restarted and limited: one, or a crew."""


app.command()(up)
app.command()(ps)
app.command()(logs)
app.command()(stop)
app.command()(kill)
# The first word that is not an option begins the command, whose own options follow.
_COMMAND_FOLLOWS = {"allow_interspersed_args": False}
app.command("exec", context_settings=_COMMAND_FOLLOWS)(exec_)
app.command()(wake)
app.command()(rm)
app.command()(supervise)
app.command()(run)
app.command(context_settings=_COMMAND_FOLLOWS)(guard)
