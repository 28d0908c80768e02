"""The hall's own rows of the command table, and how a hall is opened."""

from collections.abc import Iterable
from functools import partial

from moothall.hall import admin, chat, handshake, idle, membership, peers, presence, turns
from moothall.hall.commands import Row
from moothall.hall.hall import Hall
from moothall.hall.moderation import Escalation, LinkDetector, Pipeline
from moothall.hall.order import Order
from moothall.hall.parts import Parts
from moothall.settings import Settings


def commands(settings: Settings) -> tuple[Row, ...]:
    return (
        *handshake.COMMANDS,
        *membership.COMMANDS,
        *chat.commands(settings),
        *presence.COMMANDS,
        *turns.COMMANDS,
        *peers.COMMANDS,
        *admin.COMMANDS,
    )


def open_hall(settings: Settings, other_rooms: Iterable[Row], parts: Parts) -> Hall:
    """`other_rooms` are the rows of the market and the court."""
    order = Order(Pipeline([LinkDetector()]), Escalation()) if settings.moderation else None
    hall = Hall(settings, (*commands(settings), *other_rooms), parts, order)
    hall.departures.append(partial(peers.forget_requests, hall))
    hall.departures.append(lambda agent: hall.takeovers.hurry(agent.id, hall.now()))
    if settings.idle_prompts and settings.idle_timeout:
        idle.watch(hall)
    return hall
