"""Verification requests between agents that wait for their answer.

A request outlives the agent that made it, until it is answered or times out: clients answer by
themselves, and the reference client ends on an ERROR about a request that is gone (agentchat wire 18.1, point 10).
"""

from typing import Final, NamedTuple

from moothall.hall.agenda import Appointment
from moothall.hall.session import Agent
from moothall.identity import PublicKey

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
        own = sorted(self._by_agent.get(agent.id, ()))
        return [self.take(request_id) for request_id in own if self._by_id[request_id].target is agent]
