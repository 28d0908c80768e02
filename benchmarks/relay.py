"""The yardstick: the relay one would write in an afternoon with the `websockets` library.

    python -m benchmarks.relay PORT

It speaks enough agentchat for the workloads (IDENTIFY without a key, JOIN with replay, LEAVE, MSG to a
channel and to an agent) and has no limits, no redaction and no identities: whatever a hall does on top of
this, it has to do in less time. Written to be fast where the library allows it: uvloop, msgspec,
`broadcast()`, each message encoded once.
"""

import asyncio
import itertools
import secrets
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed

BUFFERED: Final = 20  # messages a newcomer is shown


class Command(msgspec.Struct):
    type: str
    name: str = ""
    channel: str = ""
    to: str = ""
    content: str = ""


@dataclass(eq=False, slots=True)
class Agent:
    id: str
    name: str
    socket: ServerConnection


@dataclass(slots=True)
class Channel:
    members: set[Agent] = field(default_factory=set)
    buffer: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=BUFFERED))

    def tell_others(self, agent: Agent, frame: bytes) -> None:
        broadcast((member.socket for member in self.members if member is not agent), frame, text=True)


agents: dict[str, Agent] = {}
channels: dict[str, Channel] = {"#general": Channel()}
serial = itertools.count()
command_decoder = msgspec.json.Decoder(Command)
encoder = msgspec.json.Encoder()


def frame(kind: str, **fields: Any) -> bytes:
    return encoder.encode({"type": kind, "ts": time.time_ns() // 1_000_000, **fields})


async def join(agent: Agent, name: str) -> None:
    channel = channels.setdefault(name, Channel())
    for message in channel.buffer:
        await agent.socket.send(encoder.encode(message | {"replay": True}), text=True)
    channel.members.add(agent)
    members = [{"id": member.id, "name": member.name, "verified": False} for member in channel.members]
    await agent.socket.send(frame("JOINED", channel=name, agents=members), text=True)
    channel.tell_others(
        agent, frame("AGENT_JOINED", channel=name, agent=agent.id, name=agent.name, verified=False)
    )


async def leave(agent: Agent, name: str) -> None:
    channel = channels[name]
    channel.members.discard(agent)
    await agent.socket.send(frame("LEFT", channel=name), text=True)
    channel.tell_others(agent, frame("AGENT_LEFT", channel=name, agent=agent.id, name=agent.name))


async def say(agent: Agent, to: str, content: str) -> None:
    now = time.time_ns() // 1_000_000
    relayed = {
        "type": "MSG",
        "ts": now,
        "from": agent.id,
        "from_name": agent.name,
        "to": to,
        "content": content,
        "msg_id": f"{now}-{next(serial)}",
    }
    if to.startswith("#"):
        channels[to].buffer.append(relayed)
        channels[to].tell_others(agent, encoder.encode(relayed))
    else:
        await agents[to].socket.send(encoder.encode(relayed), text=True)


async def serve_agent(socket: ServerConnection) -> None:
    identify = command_decoder.decode(await socket.recv())
    agent = Agent("@" + secrets.token_hex(4), identify.name, socket)
    agents[agent.id] = agent
    try:
        await socket.send(frame("WELCOME", agent_id=agent.id, name=agent.name, server="relay"), text=True)
        async for text in socket:
            command = command_decoder.decode(text)
            if command.type == "MSG":
                await say(agent, command.to, command.content)
            elif command.type == "JOIN":
                await join(agent, command.channel)
            elif command.type == "LEAVE":
                await leave(agent, command.channel)
    except ConnectionClosed:
        pass  # gone without a close frame: nothing more to tell it
    finally:
        del agents[agent.id]
        for name, channel in channels.items():
            if agent in channel.members:
                channel.members.discard(agent)
                channel.tell_others(agent, frame("AGENT_LEFT", channel=name, agent=agent.id))


async def main(port: int) -> None:
    async with serve(serve_agent, "127.0.0.1", port, compression=None, backlog=1024) as server:
        await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
