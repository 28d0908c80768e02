"""Stand-ins at a home for what agents of other nodes have at their own node: a link, a wish for receipts."""

from msgspec.structs import replace

from moothall.hall.channels import Channel
from moothall.hall.delivery_receipts import spread_asking
from moothall.hall.outside import Written
from moothall.hall.session import Agent
from moothall.wire.agentchat import server
from moothall.wire.agentchat.codec import framed
from moothall.wire.outgoing import Bundle, Outgoing


class Collector:
    """Takes the answers to a command of an agent of another node."""

    unread = 0

    def __init__(self) -> None:
        self.frames = b""

    def put(self, outgoing: Outgoing | Bundle) -> None:
        self.frames += framed(outgoing)

    def when_written(self, told: Written) -> None:
        told(False)

    def close(self, code: int, reason: str) -> None:
        """A command about a channel ends no connection."""

    def pause(self) -> None:
        """Nothing is read from it."""

    resume = pause


class AskedElsewhere:
    """A line of an agent of another node, which wants receipts."""

    def __init__(self, line: server.Chat, author: Agent, asks: str) -> None:
        self.asks = asks
        self._author = author
        self._asking = Outgoing(replace(line, receipt=asks))

    def spread(self, channel: Channel, plain: Outgoing, but: Agent | None) -> None:
        spread_asking(channel, self._author, plain, self._asking, but)
