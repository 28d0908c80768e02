"""How commands give orders to the keeper: one line of JSON on its socket, and lines of JSON back.

An order is `{"do": NAME, ...}`. The answer is any number of `{"say": TEXT}`, and at last `{"done": {...}}` or
`{"error": TEXT}`. If the connection ends without the last line, the keeper has gone. Then the order can be given to
the next one.
"""

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from moothall.errors import MoothallError, UsageError
from moothall.worker.crew.desk import Desk, Over, Say

MAX_LINE: Final = 2 * 1024 * 1024  # bytes
PATIENCE: Final = 5.0  # seconds for the last words of a keeper that ends

Order = dict[str, Any]


async def carry_out(desk: Desk, order: Order, say: Say) -> dict[str, Any]:
    """Do what the order says. Returns what is to be told at the end. Raises MoothallError, OSError or Over."""
    try:
        act = _ORDERS[order["do"]]
    except (KeyError, TypeError):
        raise UsageError("the keeper does not know this order: it may be older than this command") from None
    return await act(desk, order, say)


async def _up(desk: Desk, order: Order, say: Say) -> dict[str, Any]:
    return {"failed": await desk.up(order["tables"], Path(order["file"]), say)}


async def _stop(desk: Desk, order: Order, say: Say) -> dict[str, Any]:
    spared = await desk.stop(order["names"], say, at_once=order["at_once"])
    return {"spared": spared, "is_over": desk.is_over}


async def _wake(desk: Desk, order: Order, say: Say) -> dict[str, Any]:
    await desk.wake(order["name"], say)
    return {}


async def _remove(desk: Desk, order: Order, say: Say) -> dict[str, Any]:
    await desk.remove(order["name"], say, with_folders=order["with_folders"])
    return {}


_ORDERS: Final[dict[str, Callable[[Desk, Order, Say], Awaitable[dict[str, Any]]]]] = {
    "up": _up,
    "stop": _stop,
    "wake": _wake,
    "remove": _remove,
}


class Counter:
    """Takes connections, and has the desk carry out their orders. `after` is called after each."""

    def __init__(self, desk: Desk, log: Say, after: Callable[[], None]) -> None:
        self._desk = desk
        self._log = log
        self._after = after
        self._answering: set[asyncio.Task[Any] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection. A user who has left does not end the order."""

        def tell(fields: dict[str, Any]) -> None:
            if not writer.is_closing():
                writer.write(json.dumps(fields).encode() + b"\n")

        task = asyncio.current_task()
        self._answering.add(task)
        try:
            tell(await self._answer(await reader.readline(), tell))
            await writer.drain()
        except (Over, OSError, ValueError):
            pass  # no last line: the command asks the next keeper, or has gone
        finally:
            writer.close()
            self._answering.discard(task)
            self._after()

    async def close(self) -> None:
        """Let the last words go out."""
        if answering := [task for task in self._answering if task is not None]:
            await asyncio.wait(answering, timeout=PATIENCE)

    async def _answer(self, line: bytes, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        try:
            order = json.loads(line)
            return {"done": await carry_out(self._desk, order, lambda text: tell({"say": text}))}
        except MoothallError as error:
            return {"error": str(error)}
        except OSError as error:
            self._log(f"an order failed: {error}")
            return {"error": f"{error.filename or 'the keeper'}: {error.strerror}"}
        except (KeyError, TypeError, AttributeError):  # an order of another version, or a fault of ours
            self._log(f"an order failed: {traceback.format_exc()}")
            return {"error": f"the keeper failed: {self._desk.places.log} says why"}
