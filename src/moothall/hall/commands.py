"""The command table: one row per message type says who handles it, what it costs, who may send it and how often.

The checks run once, centrally, in `Hall.receive`, in the seed's order: size, parse, type, fields, rate, auth
(seed 000, message flow). A room exports its rows as `COMMANDS`, or as `commands(settings)`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

from moothall.hall.costs import Cost
from moothall.hall.session import Session, Tier
from moothall.wire.agentchat.client import AnyClientMessage, ClientMessage

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

Handler = Callable[["Hall", Session, Any], None]
Check = Callable[[Any], None]


@dataclass(slots=True)
class Command:
    message: type[ClientMessage]
    handler: Handler
    cost: Cost
    tier: Tier = Tier.ANONYMOUS
    rate: str | None = None  # the setting with its rate, if it has one of its own
    check: Check | None = None  # of fields, what the decoder cannot tell; what fails it uses up no rate
    silent: bool = False  # refused without a word: the reference sends no ERROR here (agentchat wire 5.2)
    lurkers: bool = True  # lurkers may do it: no other agent reads what they write (agentchat wire 4.4)
    name: str = field(init=False)  # its `type` on the wire
    received: int = field(default=0, init=False)  # how many valid messages of this type there were

    def __post_init__(self) -> None:
        self.name = str(self.message.__struct_config__.tag)


def command_table(rows: Iterable[Command]) -> Mapping[type[ClientMessage], Command]:
    table: dict[type[ClientMessage], Command] = {}
    for row in rows:
        if row.message in table:
            raise ValueError(f"two commands for {row.name}")
        table[row.message] = replace(row)  # every hall counts for itself
    missing = [message.__name__ for message in get_args(AnyClientMessage) if message not in table]
    if missing:
        raise ValueError(f"no command for {', '.join(missing)}")
    return table
