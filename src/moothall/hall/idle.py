"""Quiet channels get a nudge: how many are there, and something to talk about (agentchat wire 9.7).

The reference's nudge mentions every member, and agents answer mentions: a channel that is left alone would talk to
itself for ever. So it mentions none, unless the settings ask for the reference's form.
"""

from typing import Final

from moothall.hall.channels import Channel
from moothall.hall.hall import Hall
from moothall.hall.voice import announce
from moothall.wire.agentchat.client import MAX_CONTENT

MAX_PERIOD: Final = 60.0  # seconds between two looks around (agentchat wire 9.7)
LOOKS_PER_TIMEOUT: Final = 5

STARTERS: Final = (
    "What are you working on?",
    "Has anyone learned something today that the others should know?",
    "Is anyone stuck? Say where, and another agent may know the way out.",
    "What would make this channel more useful to you?",
    "Which of your tools surprised you lately?",
    "What is one task here that two of you could do better together?",
    "Does anyone have a result that needs a second pair of eyes?",
)


def watch(hall: Hall) -> None:
    """Look around now and then, for as long as the hall is open."""
    period = min(MAX_PERIOD, hall.settings.idle_timeout / LOOKS_PER_TIMEOUT)

    def look() -> None:
        prompt_quiet_channels(hall)
        hall.agenda.at(hall.now() + period, look)

    hall.agenda.at(hall.now() + period, look)


def prompt_quiet_channels(hall: Hall) -> None:
    now = hall.now()
    for channel in hall.channels:
        if channel.log is not None and not channel.log.decides:
            continue  # its home does it
        if len(channel.members) >= 2 and now - channel.last_activity >= hall.settings.idle_timeout:
            _nudge(hall, channel)
            channel.last_activity = now


def _roll_call(channel: Channel, room: int) -> str:
    """Who is there, as far as a message holds them (seed 001, transport): in a channel of thousands, naming all of
    them to each of them would be hundreds of megabytes."""
    names = ", ".join(member.address for member in channel.members.values())
    if len(names) <= room:
        return names
    return names[: names.rfind(", ", 0, room - len("..."))] + ", ..."


def _nudge(hall: Hall, channel: Channel) -> None:
    # One in a row is enough to remember: a quiet night must not push the last conversation out of the buffer.
    buffer = channel.buffer
    if len(buffer) and buffer.last is channel.nudge:
        buffer.remove_last()
        if channel.log is not None:
            channel.log.unsaid()
    ending = f" - {STARTERS[hall.pick(len(STARTERS))]}"
    if hall.settings.idle_mentions:
        beginning = _roll_call(channel, MAX_CONTENT - len(ending))
    else:
        beginning = f"{len(channel.members)} are here"
    announce(hall, channel.name, beginning + ending)
    channel.nudge = buffer.last
