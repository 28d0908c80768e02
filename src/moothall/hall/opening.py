"""The hall's own rows of the command table, and how a hall is opened."""

from collections.abc import Iterable
from functools import partial

from moothall.hall import (
    admin,
    api_tokens,
    chat,
    delivery_receipts,
    floor,
    handshake,
    idle,
    membership,
    peers,
    presence,
    spending_admin,
)
from moothall.hall.commands import Row
from moothall.hall.hall import Hall
from moothall.hall.moderation import Escalation, LinkDetector, Moderation, Pipeline
from moothall.hall.parts import Parts
from moothall.settings import Settings


def commands(settings: Settings) -> tuple[Row, ...]:
    return (
        *handshake.COMMANDS,
        *membership.COMMANDS,
        *chat.commands(settings),
        *delivery_receipts.COMMANDS,
        *presence.COMMANDS,
        *floor.COMMANDS,
        *peers.COMMANDS,
        *api_tokens.COMMANDS,
        *admin.COMMANDS,
        *spending_admin.COMMANDS,
    )


def open_hall(settings: Settings, other_rooms: Iterable[Row], parts: Parts) -> Hall:
    """`other_rooms` are the rows of the market and the court."""
    moderation = Moderation(Pipeline([LinkDetector()]), Escalation()) if settings.moderation else None
    hall = Hall(settings, (*commands(settings), *other_rooms), parts, moderation)
    hall.roster.on_departure(partial(peers.forget_requests, hall))
    hall.roster.on_departure(partial(delivery_receipts.forget, hall))
    hall.roster.on_departure(lambda agent: hall.takeovers.hurry(agent.id, hall.now()))
    hall.roster.on_arrival(partial(delivery_receipts.resume, hall))
    hall.roster.on_arrival_elsewhere(partial(delivery_receipts.resume, hall))
    hall.roster.on_departure_elsewhere(partial(delivery_receipts.forget, hall))
    if settings.idle_prompts and settings.idle_timeout:
        idle.watch(hall)
    return hall
