"""The command table: one row per message type says who handles it, what it costs, who may send it and how often.

The checks run once, centrally, in `Hall.receive`, in the seed's order: size, parse, type, fields, rate, auth
(seed 000, message flow). A room exports its rows as `COMMANDS`, or as `commands(settings)`.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, get_args

from moothall.hall.costs import Cost
from moothall.hall.session import Session, Tier
from moothall.settings import Settings
from moothall.settings.limits import Rate
from moothall.wire.agentchat.client import ClientMessage
from moothall.wire.agentchat.requests import AnyClientMessage

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

Message = TypeVar("Message", bound=ClientMessage)


class CommandRate(NamedTuple):
    """How often one agent may send a message of this type."""

    setting: str  # its name, for the docs
    of: Callable[[Settings], Rate]
    is_of_key: bool = False  # all sessions of a key share it, one after the other; otherwise each has its own


class Command(Generic[Message]):
    """A row. Each message reads most of it, so it is a class that compiles well, which a dataclass does not."""

    __slots__ = (
        "channel",
        "check",
        "cost",
        "handler",
        "is_heavy",
        "lurkers",
        "message",
        "name",
        "rate",
        "silent",
        "tier",
    )

    def __init__(
        self,
        message: type[Message],
        handler: Callable[["Hall", Session, Message], None],
        cost: Cost,
        tier: Tier = Tier.ANONYMOUS,
        *,
        rate: CommandRate | None = None,
        check: Callable[[Message], None] | None = None,
        silent: bool = False,
        channel: str | None = None,
        lurkers: bool = True,
    ) -> None:
        self.message: Final = message
        self.name: Final = str(message.__struct_config__.tag)  # its `type` on the wire
        self.handler: Final = handler
        self.cost: Final = cost
        self.is_heavy: Final = cost.is_heavy  # the price is charged before anything else is done
        self.tier: Final = tier
        self.rate: Final = rate  # if it has one of its own
        # Of fields, what the decoder cannot tell. What fails it uses up no rate.
        self.check: Final = check
        # Refused without a word: the reference sends no ERROR here (agentchat wire 5.2).
        self.silent: Final = silent
        # The field that names the channel at whose home it runs, in a hall of several nodes
        self.channel: Final = channel
        # Lurkers may do it: no other agent reads what they write (agentchat wire 4.4).
        self.lurkers: Final = lurkers


Row: TypeAlias = "Command[Any]"  # of the table, whose messages are of many types


def command_table(rows: Iterable[Row]) -> dict[type[ClientMessage], Row]:
    table: dict[type[ClientMessage], Row] = {}
    for row in rows:
        if row.message in table:
            raise ValueError(f"two commands for {row.name}")
        table[row.message] = row
    missing = [message.__name__ for message in get_args(AnyClientMessage) if message not in table]
    if missing:
        raise ValueError(f"no command for {', '.join(missing)}")
    return table
