"""A room that is not open yet: the court.

Its messages are decoded, counted, rate-limited and checked for a proven key like all others; then the answer
is an ERROR that says so. Nothing is ignored.
"""

from typing import Final, NoReturn

from moothall.errors import InvalidMessage
from moothall.hall.commands import Command
from moothall.hall.hall import Hall
from moothall.hall.session import Session, Tier
from moothall.wire.agentchat import client


def not_open(hall: Hall, session: Session, message: client.ClientMessage) -> NoReturn:
    kind = message.__struct_config__.tag
    raise InvalidMessage(f"{kind} is not available in this hall yet")


COMMANDS: Final = (
    Command(client.DisputeIntent, not_open, Tier.VERIFIED),
    Command(client.DisputeReveal, not_open, Tier.VERIFIED),
    Command(client.Evidence, not_open, Tier.VERIFIED),
    Command(client.ArbiterAccept, not_open, Tier.VERIFIED),
    Command(client.ArbiterDecline, not_open, Tier.VERIFIED),
    Command(client.ArbiterVote, not_open, Tier.VERIFIED),
)
