"""The routes of a node that answer once (mesh wire 13), but for `/hosted/*`, which is in `hosted_routes.py`.

Errors are `{"error": text}` with a status of 4xx, or 5xx if it is the node's fault. The reference answers 200 to
some of them.
"""

import secrets
from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moothall.errors import NodeRefused
from moothall.node import Node, Sent
from moothall.node_api import bodies, payloads
from moothall.node_api.answers import Handler, Limits, answer, body_of, guard
from moothall.node_api.auth import Keys, Level
from moothall.node_api.objects import failure_object, inbox_object
from moothall.wire.mesh.envelope import CONVERSATION_ID_BYTES, NO_CONVERSATION
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from moothall.wire.mesh.peer_ids import base58

# What /identity/sign signs begins with this. So it is neither an envelope, which begins with 01, nor a message of
# libp2p.
SIGN_PREFIX: Final = b"moothall-node-sign-v1:"

DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 256
DEFAULT_TASKS: Final = 50


class Routes:
    def __init__(self, node: Node, seed: bytes, keys: Keys, limits: Limits) -> None:
        self._node = node
        self._seed = seed
        self._keys = keys
        self._limits = limits

    def all(self) -> list[Route]:
        master, read, none = Level.MASTER, Level.READ, Level.OPEN
        send = self._limits.send
        return [
            self._route("GET", "/identity", self.identity, read),
            self._route("POST", "/identity/sign", self.sign, master, self._limits.sign),
            self._route("GET", "/identity/export-key", self.export_key, master),
            self._route("GET", "/peers", self.peers, read),
            self._route("GET", "/reputation/{agent_id}", self.reputation, read),
            self._route("GET", "/batch/{agent_id}/{epoch}", self.batch, read),
            self._route("POST", "/envelopes/send", self.send, master, send),
            self._route("POST", "/negotiate/propose", self.propose, master, send),
            self._route("POST", "/negotiate/counter", self.counter, master, send),
            self._route("POST", "/negotiate/accept", self.accept, master, send),
            self._route("POST", "/topics/{slug}/broadcast", self.broadcast, master, send),
            self._route("GET", "/inbox", self.inbox, read),
            self._route("GET", "/failures", self.failures, read),
            self._route("POST", "/escrow/lock", self.lock, master),
            self._route("POST", "/escrow/approve", self.approve, master),
            Route("/tasks/log", self._tasks(), methods=["GET", "POST"]),
            self._route("PATCH", "/tasks/log/{id}/shared", self.share_task, master),
            self._route("DELETE", "/tasks/log/{id}", self.remove_task, master),
            self._route("GET", "/health", self.health, none),
        ]

    def _route(
        self, method: str, path: str, handler: Handler, level: Level, admit: Callable[[], None] | None = None
    ) -> Route:
        return Route(path, guard(handler, self._keys, level, admit), methods=[method])

    def _tasks(self) -> Handler:
        """One route for two methods, so that `Allow` names both."""
        add = guard(self.log_task, self._keys, Level.MASTER)
        look = guard(self.tasks, self._keys, Level.READ)

        async def handle(request: Request) -> Response:
            return await (add if request.method == "POST" else look)(request)

        return handle

    # -- the agent -----------------------------------------------------------------------------------

    async def identity(self, request: Request) -> Response:
        return answer({"agent_id": self._node.agent_id.hex(), "name": self._node.name})

    async def sign(self, request: Request) -> Response:
        body = await body_of(request, bodies.SignBody)
        data = bodies.hex_bytes(body.bytes_hex, "invalid hex")
        if len(data) > bodies.MAX_SIGNED:
            raise NodeRefused(400, f"bytes_hex too long (max {bodies.MAX_SIGNED} bytes)")
        signature = self._node.sign(SIGN_PREFIX + data)
        return answer({"agent_id": self._node.agent_id.hex(), "signature_hex": signature.hex()})

    async def export_key(self, request: Request) -> Response:
        return answer({"secret_key_b58": base58(self._seed + self._node.agent_id)})

    async def peers(self, request: Request) -> Response:
        return answer(
            [
                {
                    "agent_id": agent.agent_id.hex(),
                    "last_active_epoch": agent.last_active_epoch,
                    "peer_id": agent.peer_id,
                }
                for agent in self._node.peers()
            ]
        )

    async def reputation(self, request: Request) -> Response:
        found = await self._node.reputation(_agent_id(request))
        if found is None:
            raise NodeRefused(404, "no reputation data")
        return answer(
            {
                "agent_id": found.agent_id.hex(),
                "cooperation": found.cooperation,
                "last_active_epoch": found.last_active_epoch,
                "notary_accuracy": found.notary_accuracy,
                "reliability": found.reliability,
                "total_disputes": found.total_disputes,
                "total_tasks": found.total_tasks,
            }
        )

    async def batch(self, request: Request) -> Response:
        epoch = bodies.number(request.path_params["epoch"], "epoch", default=0)
        if _agent_id(request) != self._node.agent_id:
            raise NodeRefused(404, "batch history is only available for this node's own agent_id")
        found = await self._node.batch(epoch)
        if found is None:
            raise NodeRefused(404, "epoch not found")
        return answer(
            {
                "agent_id": found.agent_id.hex(),
                "batch_hash": found.batch_hash.hex(),
                "epoch": found.epoch,
                "log_merkle_root": found.log_merkle_root.hex(),
                "message_count": found.message_count,
            }
        )

    # -- sending -------------------------------------------------------------------------------------

    async def send(self, request: Request) -> Response:
        body = await body_of(request, bodies.SendBody)
        msg_type = payloads.sendable(body.msg_type)
        raw = bodies.payload(body.payload_b64)
        conversation = bodies.conversation_id(body.conversation_id)
        recipient = recipient_of(body.recipient, msg_type)
        payload = payloads.built(msg_type, raw, conversation, recipient)
        to = recipient if msg_type in BILATERAL else None
        sent = await self._node.send(msg_type, payload, recipient=to, conversation_id=conversation)
        return answer(sent_object(sent))

    async def propose(self, request: Request) -> Response:
        body = await body_of(request, bodies.ProposeBody)
        conversation = conversation_of(body)
        sent = await self._negotiate(MsgType.PROPOSE, payloads.proposal(body), body.recipient, conversation)
        return answer({"conversation_id": conversation.hex(), **sent_object(sent)})

    async def counter(self, request: Request) -> Response:
        body = await body_of(request, bodies.CounterBody)
        conversation = bodies.conversation_id(body.conversation_id)
        payload = payloads.counter_offer(body)
        return answer(
            sent_object(await self._negotiate(MsgType.COUNTER, payload, body.recipient, conversation))
        )

    async def accept(self, request: Request) -> Response:
        body = await body_of(request, bodies.AcceptBody)
        conversation = bodies.conversation_id(body.conversation_id)
        payload = payloads.acceptance(body)
        return answer(
            sent_object(await self._negotiate(MsgType.ACCEPT, payload, body.recipient, conversation))
        )

    async def _negotiate(
        self, msg_type: MsgType, payload: bytes, recipient: str, conversation: bytes
    ) -> Sent:
        to = bodies.agent_id(recipient, "recipient")
        return await self._node.send(msg_type, payload, recipient=to, conversation_id=conversation)

    async def broadcast(self, request: Request) -> Response:
        slug = payloads.topic_slug(request.path_params["slug"], "invalid topic slug")
        body = await body_of(request, bodies.BroadcastBody)
        payload = payloads.announcement(slug, body)
        sent = await self._node.send(MsgType.BROADCAST, payload, conversation_id=NO_CONVERSATION)
        return answer(sent_object(sent))

    # -- what came, and what did not arrive ----------------------------------------------------------

    async def inbox(self, request: Request) -> Response:
        after, limit = _cursor(request)
        found = await self._node.read_inbox(after, limit)
        last = found[-1].cursor if found else after
        return answer({"envelopes": [inbox_object(each) for each in found], "cursor": last})

    async def failures(self, request: Request) -> Response:
        after, limit = _cursor(request)
        found = await self._node.read_failures(after, limit)
        last = found[-1].number if found else after
        return answer({"failures": [failure_object(each) for each in found], "cursor": last})

    # -- credits, tasks, health ----------------------------------------------------------------------

    async def lock(self, request: Request) -> Response:
        body = await body_of(request, bodies.LockBody)
        await self._node.escrow_lock(
            bodies.agent_id(body.provider, "provider"),
            bodies.conversation_id(body.conversation_id),
            body.amount_usdc_micro,
            body.notary_fee,
            body.timeout_slots,
            _optional(body.notary),
        )
        return answer({"ok": True})

    async def approve(self, request: Request) -> Response:
        body = await body_of(request, bodies.ApproveBody)
        await self._node.escrow_approve(
            bodies.agent_id(body.requester, "requester"),
            bodies.agent_id(body.provider, "provider"),
            bodies.conversation_id(body.conversation_id),
            _optional(body.notary),
        )
        return answer({"ok": True})

    async def log_task(self, request: Request) -> Response:
        body = await body_of(request, bodies.TaskBody)
        fields = {name: getattr(body, name) for name in body.__struct_fields__}
        task = await self._node.tasks.add(fields)
        return answer({"id": task.id, "ok": True})

    async def tasks(self, request: Request) -> Response:
        query = request.query_params
        limit = bodies.number(query.get("limit"), "limit", default=DEFAULT_TASKS, least=1)
        before = bodies.number(query["before"], "before", default=0) if "before" in query else None
        found = await self._node.tasks.read(limit=limit, before=before)
        return answer(
            [
                {
                    "id": task.id,
                    "timestamp": task.at // 1000,
                    "category": task.fields["category"],
                    "outcome": task.fields["outcome"],
                    "amount_usd": task.fields["amount_usd"],
                    "duration_min": task.fields["duration_min"],
                    "summary": task.fields["summary"],
                    "shared": task.shared,
                }
                for task in found
            ]
        )

    async def share_task(self, request: Request) -> Response:
        """Without a body, as the reference's program sends it, the task becomes shared."""
        has_body = "content-type" in request.headers
        body = await body_of(request, bodies.SharedBody) if has_body else bodies.SharedBody()
        task = await self._node.tasks.share(_task(request), shared=body.shared)
        return answer({"id": task.id, "ok": True})

    async def remove_task(self, request: Request) -> Response:
        task = _task(request)
        await self._node.tasks.remove(task)
        return answer({"id": task, "ok": True})

    async def health(self, request: Request) -> Response:
        numbers = self._node.statistics()
        return answer({"status": "healthy", "agent_id": self._node.agent_id.hex(), "peers": numbers.peers})


def sent_object(sent: Sent) -> dict[str, Any]:
    return {"nonce": sent.nonce, "payload_hash": sent.payload_hash.hex()}


def recipient_of(text: str | None, msg_type: MsgType) -> bytes | None:
    """A pubsub message needs none. Raises NodeRefused (400)."""
    if msg_type not in BILATERAL and (text is None or msg_type is not MsgType.FEEDBACK):
        return None
    if text is None:
        raise NodeRefused(400, "recipient required for bilateral messages")
    return bodies.agent_id(text, "recipient")


def conversation_of(body: bodies.ProposeBody) -> bytes:
    """The one that the caller chose, or a new one. Raises NodeRefused (400)."""
    if body.conversation_id is None:
        return secrets.token_bytes(CONVERSATION_ID_BYTES)
    return bodies.conversation_id(body.conversation_id)


def _cursor(request: Request) -> tuple[int, int]:
    query = request.query_params
    after = bodies.number(query.get("after"), "after", default=0)
    return after, bodies.number(query.get("limit"), "limit", default=DEFAULT_PAGE, least=1, most=MAX_PAGE)


def _agent_id(request: Request) -> bytes:
    text: str = request.path_params["agent_id"]
    value = bodies.hex_bytes(text, "invalid agent_id hex")
    return bodies.agent_id(value.hex(), "agent_id")


def _task(request: Request) -> int:
    return bodies.number(request.path_params["id"], "id", default=0)


def _optional(text: str | None) -> bytes | None:
    return None if text is None else bodies.agent_id(text, "notary")
