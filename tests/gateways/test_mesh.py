"""The room of the mesh behind a real port: frames, batches of signatures, and connections that end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError
from websockets.typing import Subprotocol

from moothall.gateways.batches import BESIDE_OTHERS, FULL_SPEED, Batches, Pace
from moothall.gateways.port import Port
from moothall.gateways.room import Served
from moothall.hall.mesh.frames import SUBPROTOCOL, proof_text
from moothall.hall.mesh.room import MAX_MESSAGE
from moothall.settings.limits import Rate
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.msg_types import MsgType
from tests.hall.mesh.town import CONVERSATION, Agent, Town
from tests.support.echo import Echo, running
from tests.support.sockets import PATIENCE, on_uvloop

MANY = 200


@asynccontextmanager
async def serving(pace: Pace = BESIDE_OTHERS, **settings: Any) -> AsyncIterator[tuple[Port, Town]]:
    batches = Batches(asyncio.get_running_loop(), pace)
    town = Town(checks=batches, **settings)
    async with running(Echo()) as port:
        port.rooms = {"/mesh": Served(town.room, frozenset({SUBPROTOCOL}), MAX_MESSAGE)}
        yield port, town
    batches.close()


@asynccontextmanager
async def dial(port: Port) -> AsyncIterator[ClientConnection]:
    url = "ws://{}:{}/mesh".format(*port.address)
    async with connect(url, subprotocols=[Subprotocol(SUBPROTOCOL)], proxy=None, max_queue=None) as socket:
        assert socket.subprotocol == SUBPROTOCOL
        yield socket


def signer(town: Town, name: str) -> Agent:
    """What signs the envelopes of an agent. Its own connection is not used."""
    agent = town.connect_agent(name)
    agent.leave()
    return agent


async def prove(socket: ClientConnection, agent: Agent) -> dict[str, Any]:
    await socket.send(json.dumps({"type": "prove", "agent_id": agent.id.hex(), "acks": True}))
    challenge = await text(socket)
    signed = agent.key.sign_bytes(proof_text(challenge["challenge"], challenge["hall"], agent.id.hex()))
    await socket.send(json.dumps({"type": "prove", "signature": signed.hex()}))
    return await text(socket)


async def text(socket: ClientConnection) -> dict[str, Any]:
    """The next text frame; envelopes before it are dropped."""
    async with asyncio.timeout(PATIENCE):
        while isinstance(frame := await socket.recv(), bytes):
            pass
    answer: dict[str, Any] = json.loads(frame)
    return answer


async def envelope(socket: ClientConnection) -> bytes:
    """The next envelope; text frames before it are dropped."""
    async with asyncio.timeout(PATIENCE):
        while isinstance(frame := await socket.recv(), str):
            pass
    return frame


@on_uvloop
async def test_an_envelope_travels_from_one_agent_to_another_as_it_came() -> None:
    async with serving() as (port, town), dial(port) as first, dial(port) as second:
        alice, bob = signer(town, "alice"), signer(town, "bob")
        assert (await prove(first, alice))["type"] == "proven"
        assert (await prove(second, bob))["type"] == "proven"
        sent = encode(alice.seal(MsgType.PROPOSE, bytes(16), to=bob, conversation=CONVERSATION))
        await first.send(sent)
        assert await envelope(second) == sent
        accepted = await text(first)
        assert (accepted["type"], accepted["state"]) == ("accepted", "NEGOTIATING")


@pytest.mark.parametrize("pace", [BESIDE_OTHERS, FULL_SPEED], ids=["beside others", "full speed"])
@on_uvloop
async def test_envelopes_and_texts_of_a_connection_are_handled_in_order(pace: Pace) -> None:
    async with serving(pace, no_limits=True) as (port, town), dial(port) as first, dial(port) as second:
        alice, bob = signer(town, "alice"), signer(town, "bob")
        await prove(first, alice)
        await prove(second, bob)
        sent = [
            encode(alice.seal(MsgType.PROPOSE, bytes(16), to=bob, conversation=number.to_bytes(16, "big")))
            for number in range(1, MANY)
        ]
        for number, raw in enumerate(sent):
            await first.send(raw)
            if number % 10 == 0:
                await first.send(json.dumps({"type": "subscribe", "topic": "news", "ref": str(number)}))
        assert [await envelope(second) for _ in sent] == sent
        answers = [await text(first) for _ in range(len(sent) + len(sent[::10]))]
        nonces = [answer["nonce"] for answer in answers if answer["type"] == "accepted"]
        assert nonces == sorted(nonces)
        # Each answer to a text comes after what was sent before it.
        seen = 0
        for answer in answers:
            if answer["type"] == "accepted":
                seen += 1
            else:
                assert seen == int(answer["ref"]) + 1


@on_uvloop
async def test_what_was_sent_before_the_close_is_handled() -> None:
    async with serving() as (port, town), dial(port) as second:
        alice, bob = signer(town, "alice"), signer(town, "bob")
        await prove(second, bob)
        sent = encode(alice.seal(MsgType.REJECT, b"", to=bob, conversation=CONVERSATION))
        async with dial(port) as first:
            await first.send(sent)
        assert await envelope(second) == sent


@on_uvloop
async def test_a_fragmented_envelope_is_one_envelope() -> None:
    async with serving() as (port, town), dial(port) as first, dial(port) as second:
        alice = signer(town, "alice")
        await prove(second, signer(town, "bob"))
        raw = encode(alice.seal(MsgType.BOUNTY, b"x" * 50_000))
        await first.send([raw[:10], raw[10:40_000], raw[40_000:]])
        assert await envelope(second) == raw


@on_uvloop
async def test_an_envelope_that_is_too_long_is_refused_and_a_frame_that_is_closes() -> None:
    async with serving() as (port, _), dial(port) as socket:
        await socket.send(bytes(70_000))
        assert (await text(socket))["fault"] == "EnvelopeTooLarge"
        await socket.send(bytes(MAX_MESSAGE + 1))
        with pytest.raises(ConnectionClosedError):
            await socket.recv()


@on_uvloop
async def test_a_connection_over_its_rate_is_not_read_from_and_loses_nothing() -> None:
    async with serving(mesh_rate=Rate(5, 1)) as (port, town), dial(port) as first, dial(port) as second:
        alice = signer(town, "alice")
        await prove(second, signer(town, "bob"))
        sent = [encode(alice.seal(MsgType.BOUNTY, b"{}")) for _ in range(12)]
        for raw in sent:
            await first.send(raw)
        for count in (5, 5, 2):
            assert [await envelope(second) for _ in range(count)] == sent[:count]
            del sent[:count]
            town.advance(1)
