"""Who and what there is in a hall: its channels, their members, all agents."""

# ruff: noqa: ASYNC109  # as for all operations

from collections.abc import Iterable
from functools import partial
from typing import Final

from msgspec import UNSET

from moothall.client import events
from moothall.client.events import ChannelInfo, Member
from moothall.client.requests import Exchange, patiently
from moothall.client.session import Session
from moothall.errors import ChannelNotFound, InvalidMessage
from moothall.wire.agentchat import client, server
from moothall.wire.agentchat.names import bare_id, with_hash

MAX_CHANNELS: Final = 20  # whose members are listed, where a server does not list all agents


class Roster:
    _exchange: Exchange
    _session: Session

    async def channels(self, *, timeout: float | None = None) -> list[ChannelInfo]:
        """Return the channels of the hall, without those that are by invitation. Raises nothing of its own."""
        reply = await self._exchange.ask(client.ListChannels(), server.Channels, patience=timeout)
        return [ChannelInfo(entry.name, entry.agents, entry.verified_only) for entry in reply.list]

    async def members(self, channel: str, *, timeout: float | None = None) -> list[Member]:
        """Return the agents and people in `channel`.

        Raises ChannelNotFound, NotInvited, or AuthRequired for a verified-only channel.
        """
        channel = with_hash(channel)
        reply = await self._exchange.ask(
            client.ListAgents(channel=channel),
            server.Agents,
            lambda body: body.channel == channel,
            patience=timeout,
        )
        return events.members(reply)

    async def agents(self, ids: Iterable[str] | None = None, *, timeout: float | None = None) -> list[Member]:
        """Return all agents and people in the hall; with `ids`, at most 100, those of them that are here.

        A hall lists at most 4,096. On a server that lists only channels, they are those of the 20 largest public
        channels. Raises InvalidMessage when such a server is asked for `ids`.
        """
        wanted = UNSET if ids is None else [f"@{bare_id(each)}" for each in ids]
        try:
            reply = await self._exchange.ask(
                client.ListAgents(agents=wanted), server.Agents, _is_of_hall, patience=timeout
            )
        except (InvalidMessage, ChannelNotFound):
            if ids is not None:
                raise
            return await self._members_of_channels(timeout)
        return events.members(reply)

    async def _members_of_channels(self, timeout: float | None) -> list[Member]:
        """Of the agent's own channels, and of the largest others."""

        def importance(channel: ChannelInfo) -> tuple[bool, int]:
            return (channel.name in self._session.rooms, channel.members)

        listed = [channel for channel in await self.channels(timeout=timeout) if channel.members]
        found: dict[str, Member] = {}
        for channel in sorted(listed, key=importance, reverse=True)[:MAX_CHANNELS]:
            try:
                members = await patiently(partial(self.members, channel.name, timeout=timeout))
            except (ChannelNotFound, InvalidMessage):
                continue  # gone meanwhile, or for its members only
            found |= {member.id: member for member in members}
        return list(found.values())


def _is_of_hall(body: server.Agents) -> bool:
    return body.channel is None
