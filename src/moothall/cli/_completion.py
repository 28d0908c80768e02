"""What Tab offers in the shell: channels of the hall that answers, names of settings, profiles."""

import json
from typing import Annotated, Any, Final

import typer

from moothall.cli._addresses import hall_url, is_local
from moothall.errors import UsageError

PATIENCE: Final = 0.5  # seconds; the user who pressed Tab is waiting
MAX_ANSWER: Final = 256 * 1024


def channels(ctx: typer.Context, incomplete: str) -> list[str]:
    """With or without the #, as the word was begun: a shell takes # for a comment unless it is quoted."""
    names = offered_channels(_url_given(ctx))
    if not incomplete.startswith("#"):
        names = [name.removeprefix("#") for name in names]
    return [name for name in names if name.startswith(incomplete)]


def settings(incomplete: str) -> list[str]:
    from moothall.settings.fields import described

    return [f"{entry.name}=" for entry in described() if entry.name.startswith(incomplete.replace("-", "_"))]


def setting_names(incomplete: str) -> list[str]:
    return [assignment.removesuffix("=") for assignment in settings(incomplete)]


def profiles(incomplete: str) -> list[str]:
    from moothall.settings.profiles import PROFILES

    return [name for name in PROFILES if name.startswith(incomplete)]


ChannelArgument = Annotated[
    str,
    typer.Argument(
        metavar="CHANNEL", help="Its name, with or without #.", autocompletion=channels, show_default=False
    ),
]
ChannelsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="CHANNELS", help="Names, with or without #.", autocompletion=channels),
]


def _url_given(ctx: typer.Context) -> str | None:
    url: str | None = ctx.params.get("url")
    return url


def offered_channels(given: str | None) -> list[str]:
    """A hall lists its public channels to clients that have not identified (agentchat wire 5.2)."""
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    from moothall.wire.agentchat.names import is_channel_name

    try:
        url = hall_url(given)
        with connect(
            url,
            open_timeout=PATIENCE,
            close_timeout=PATIENCE,
            max_size=MAX_ANSWER,
            proxy=None if is_local(url) else True,
        ) as connection:
            connection.send('{"type":"LIST_CHANNELS"}')
            answer: Any = json.loads(connection.recv(timeout=PATIENCE))
            return [entry["name"] for entry in answer["list"] if is_channel_name(entry["name"])]
    except (OSError, WebSocketException, UsageError, ValueError, LookupError, TypeError):
        return []  # no hall answers: nothing to offer, and no place to say so
