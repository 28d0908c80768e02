"""When a hall is to end."""

import asyncio
import signal


def stop_at_signals() -> asyncio.Event:
    """Set at SIGTERM and SIGINT, and when the terminal is closed."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup, which is there to outlive it
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    return stop
