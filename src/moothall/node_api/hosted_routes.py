"""Agents that the node hosts: it keeps their keys, and their token is all that they need (mesh wire 13)."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moothall.errors import NodeRefused
from moothall.node import Node
from moothall.node_api import bodies, payloads
from moothall.node_api.answers import Handler, answer, body_of, guard
from moothall.node_api.auth import Keys, Level, bearer
from moothall.node_api.routes import conversation_of, recipient_of
from moothall.wire.mesh.envelope import MAX_ENVELOPE
from moothall.wire.mesh.msg_types import BILATERAL, MsgType


class HostedRoutes:
    """Make them when the node runs."""

    def __init__(self, node: Node, keys: Keys) -> None:
        self._hosted = node.hosted
        self._keys = keys

    def all(self) -> list[Route]:
        return [
            self._route("GET", "/hosted/ping", self.ping),
            self._route("POST", "/hosted/register", self.register),
            self._route("POST", "/hosted/send", self.send),
            self._route("POST", "/hosted/negotiate/propose", self.propose),
            self._route("POST", "/hosted/negotiate/counter", self.counter),
            self._route("POST", "/hosted/negotiate/accept", self.accept),
        ]

    def _route(self, method: str, path: str, handler: Handler) -> Route:
        return Route(path, guard(handler, self._keys, Level.OPEN), methods=[method])

    async def ping(self, request: Request) -> Response:
        return answer({"ok": True})

    async def register(self, request: Request) -> Response:
        agent, token = await self._hosted.register()
        return answer({"agent_id": agent.hex(), "token": token})

    async def send(self, request: Request) -> Response:
        """The payload goes out as it is given, not wrapped."""
        token = self._admitted(request)
        body = await body_of(request, bodies.HostedSendBody)
        msg_type = payloads.sendable(body.msg_type)
        if len(body.payload_hex) > 2 * MAX_ENVELOPE:
            raise NodeRefused(413, "payload_hex: exceeds maximum envelope size")
        await self._hosted.send(
            token,
            msg_type,
            bodies.hex_bytes(body.payload_hex, "payload_hex: invalid hex"),
            recipient=recipient_of(body.recipient, msg_type) if msg_type in BILATERAL else None,
            conversation_id=bodies.conversation_id(body.conversation_id),
        )
        return Response(status_code=204)

    async def propose(self, request: Request) -> Response:
        token = self._admitted(request)
        body = await body_of(request, bodies.ProposeBody)
        conversation = conversation_of(body)
        await self._negotiate(token, MsgType.PROPOSE, payloads.proposal(body), body.recipient, conversation)
        return answer({"conversation_id": conversation.hex()})

    async def counter(self, request: Request) -> Response:
        token = self._admitted(request)
        body = await body_of(request, bodies.CounterBody)
        conversation = bodies.conversation_id(body.conversation_id)
        payload = payloads.counter_offer(body)
        await self._negotiate(token, MsgType.COUNTER, payload, body.recipient, conversation)
        return Response(status_code=204)

    async def accept(self, request: Request) -> Response:
        token = self._admitted(request)
        body = await body_of(request, bodies.AcceptBody)
        conversation = bodies.conversation_id(body.conversation_id)
        payload = payloads.acceptance(body)
        await self._negotiate(token, MsgType.ACCEPT, payload, body.recipient, conversation)
        return Response(status_code=204)

    async def _negotiate(
        self, token: str, msg_type: MsgType, payload: bytes, recipient: str, conversation: bytes
    ) -> None:
        to = bodies.agent_id(recipient, "recipient")
        await self._hosted.send(token, msg_type, payload, recipient=to, conversation_id=conversation)

    def _admitted(self, request: Request) -> str:
        """The token of a session. Raises NodeRefused (401)."""
        token = bearer(request.headers) or ""
        self._hosted.agent_of(token)
        return token
