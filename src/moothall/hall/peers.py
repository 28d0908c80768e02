"""Agents who want to know each other's key: VERIFY_REQUEST and VERIFY_RESPONSE (agentchat wire 5.3).

A request outlives the agent that made it, until it is answered or times out: clients answer by
themselves, and the reference client ends on an ERROR about a request that is gone (agentchat wire 18.1, point 10).
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from moothall.errors import (
    AgentNotFound,
    InvalidMessage,
    NoPublicKey,
    RateLimited,
    SignatureRequired,
    VerificationExpired,
)
from moothall.hall.agenda import Appointment
from moothall.hall.commands import Command
from moothall.hall.costs import DIRECT
from moothall.hall.session import Agent, Session
from moothall.identity import PublicKey
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import VerifyRequest, VerifyResponse
from moothall.wire.agentchat.names import bare_id

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

MAX_PENDING: Final = 16  # requests one agent may have open
MAX_AWAITED: Final = 256  # answers one agent may owe: some of those who asked may have left


class PeerRequest(NamedTuple):
    id: str
    requester: Agent
    target: Agent
    key: PublicKey
    nonce: str
    timeout: Appointment


class PeerRequests:
    def __init__(self) -> None:
        self._by_id: dict[str, PeerRequest] = {}
        self._by_agent: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, request_id: str) -> PeerRequest | None:
        return self._by_id.get(request_id)

    def has_room(self, requester: Agent) -> bool:
        own = self._by_agent.get(requester.id, ())
        return sum(self._by_id[request_id].requester is requester for request_id in own) < MAX_PENDING

    def can_be_asked(self, target: Agent) -> bool:
        own = self._by_agent.get(target.id, ())
        return sum(self._by_id[request_id].target is target for request_id in own) < MAX_AWAITED

    def add(self, request: PeerRequest) -> None:
        self._by_id[request.id] = request
        for agent in (request.requester, request.target):
            self._by_agent.setdefault(agent.id, set()).add(request.id)

    def take(self, request_id: str) -> PeerRequest:
        request = self._by_id.pop(request_id)
        for agent_id in {request.requester.id, request.target.id}:
            own = self._by_agent[agent_id]
            own.discard(request_id)
            if not own:
                del self._by_agent[agent_id]
        return request

    def take_asked_of(self, agent: Agent) -> list[PeerRequest]:
        """Every request that this agent was to answer."""
        own = self._by_agent.get(agent.id)
        if own is None:
            return []
        return [
            self.take(request_id) for request_id in sorted(own) if self._by_id[request_id].target is agent
        ]


def verify_request(hall: "Hall", session: Session, message: VerifyRequest) -> None:
    requester = hall.agent_of(session)
    target = hall.roster.find(bare_id(message.target))
    if target is None:
        raise AgentNotFound(f"There is no agent {message.target[:64]} here")
    if target.key is None:
        raise NoPublicKey(f"{target.address} has no key to prove")
    if hall.cluster is not None:
        hall.cluster.check_reaches(target)
    if not hall.peer_requests.has_room(requester):
        raise RateLimited(f"{MAX_PENDING} of your requests are still open; wait for an answer")
    if not hall.peer_requests.can_be_asked(target):
        raise RateLimited(f"{target.address} has too many open requests; try again in a moment")
    now = hall.timestamp()
    request_id = hall.ids.stamped("verify", now)
    timeout = hall.agenda.at(hall.now() + hall.settings.peer_timeout, lambda: _time_out(hall, request_id))
    request = PeerRequest(request_id, requester, target, target.key, message.nonce, timeout)
    hall.peer_requests.add(request)
    hall.delivery.tell(
        target,
        server.VerifyRequestNotice(
            ts=now, request_id=request_id, from_=requester.address, nonce=message.nonce
        ),
    )
    hall.reply(
        session,
        server.VerifyRequestNotice(ts=now, request_id=request_id, target=target.address, status="pending"),
    )


def verify_response(hall: "Hall", session: Session, message: VerifyResponse) -> None:
    agent = hall.agent_of(session)
    if agent.key is None:
        raise SignatureRequired("You have no key to prove")
    request = hall.peer_requests.find(message.request_id)
    if request is None:
        cluster = hall.cluster
        if cluster is not None and cluster.remote.pass_on(agent, message.request_id, message, session.ref):
            session.answered = True  # the node of the agent that asked answers
            return
        raise VerificationExpired("Verification request not found or expired")
    if request.target is not agent:
        raise InvalidMessage("That request is not for you")
    if request.nonce != message.nonce:
        raise InvalidMessage("Invalid `nonce`: not the one of the request")
    hall.peer_requests.take(request.id)
    hall.agenda.cancel(request.timeout)
    now = hall.timestamp()
    target = agent.address
    if request.key.verifies(request.nonce, message.sig):
        if session.meter is not None and session.meter.frames is not None:
            session.meter.frames.forgive()  # others decide how often one has to answer
        _tell_requester(
            hall,
            request,
            server.VerifySuccess(ts=now, request_id=request.id, agent=target, pubkey=request.key.pem),
        )
        hall.reply(session, server.VerifySuccess(ts=now, request_id=request.id, verified=True))
    else:
        hall.note("peer_verification_failed", ip=session.ip, agent=agent.id)
        _tell_failure(hall, request, "Signature verification failed")
        hall.reply(session, server.VerifyFailed(ts=now, request_id=request.id, verified=False))


def forget_requests(hall: "Hall", agent: Agent) -> None:
    """The agent that was to answer left: fail its requests now, not at their timeout."""
    for request in hall.peer_requests.take_asked_of(agent):
        hall.agenda.cancel(request.timeout)
        if request.requester is not agent:
            _tell_failure(hall, request, "Verification failed: the agent left")


def _time_out(hall: "Hall", request_id: str) -> None:
    _tell_failure(hall, hall.peer_requests.take(request_id), "Verification timed out")


def _tell_failure(hall: "Hall", request: PeerRequest, reason: str) -> None:
    failed = server.VerifyFailed(
        ts=hall.timestamp(), request_id=request.id, target=request.target.address, reason=reason
    )
    _tell_requester(hall, request, failed)


def _tell_requester(hall: "Hall", request: PeerRequest, message: server.ServerMessage) -> None:
    if not request.requester.session.closed:
        hall.delivery.tell(request.requester, message)


COMMANDS: Final = (
    Command(VerifyRequest, verify_request, DIRECT, lurkers=False),
    Command(VerifyResponse, verify_response, DIRECT),
)
