"""What the state file of the guard says of a command (agentchat wire 19.5)."""

import os
import signal
from typing import Any

from moothall.worker.guard.watch import Kill, Watch


def fields(
    watch: Watch, now: float, status: int | None, kill: Kill | None, second_runs: int
) -> dict[str, Any]:
    """`status` is the wait status of the command, None while it runs. `second_runs` and the budget are ours."""
    by_signal = status is not None and os.WIFSIGNALED(status)
    found = {
        "tokensIn": watch.tokens_in,
        "tokensOut": watch.tokens_out,
        "tokensTotal": watch.tokens_in + watch.tokens_out,
        "budget": watch.limits.budget,
        "toolCalls": watch.tool_calls,
        "sendCalls": watch.send_calls,
        "toolCallsThisMinute": watch.tools_this_minute(now),
        "sendCallsThisMinute": watch.sends_this_minute(now),
        "exitCode": None if status is None or by_signal else os.waitstatus_to_exitcode(status),
        "exitSignal": signal.Signals(os.WTERMSIG(status)).name if status is not None and by_signal else None,
        "killedBy": None if kill is None else str(kill.reason),
        "duration": round(now - watch.began),
        "stallEvents": watch.stalls,
        "nudges": watch.nudges,
        "deadAirChecks": watch.dead_air_checks,
        "gotFirstOutput": watch.got_first_output,
        "secondRuns": second_runs,
    }
    if kill is not None:
        found["killDetail"] = kill.detail
    return found
