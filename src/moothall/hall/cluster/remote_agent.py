"""An agent of another node in the roster: a copy of what its node says of it.

Its session never handles a frame of its own. Its link (`remote`) brings what it is told to its node.
"""

from moothall.hall.cluster.remote import AgentRecord
from moothall.hall.session import Agent, Session, Tier
from moothall.identity import PublicKey
from moothall.wire.agentchat.server import Budget


class RemoteSession(Session):
    __slots__ = ()

    is_remote = True


class RemoteAgent(Agent):
    __slots__ = ("_node", "arrival", "claim", "life", "takeover_delay")

    def __init__(self, session: Session, record: AgentRecord) -> None:
        key = None if record.key is None else PublicKey(record.key)
        super().__init__(session, record.id, record.name, key, record.kind)
        self._node = record.node
        self.life = record.life
        self.arrival = record.arrival
        self.claimed_key = None if record.claimed_key is None else PublicKey(record.claimed_key)
        self.via = record.via
        self.identity = record.identity
        session.agent = self
        session.counted = record.counted
        session.tier = Tier.VERIFIED if key is not None else Tier.ANONYMOUS
        self.update(record)

    @property
    def node(self) -> str:
        return self._node

    def update(self, record: AgentRecord) -> None:
        """All that may change. The roster changes the name, because it has an index of names."""
        self.claim = record.claim
        self.takeover_delay = record.takeover_delay
        self.presence = record.presence
        self.status_text = record.status_text
        self.budget = None if record.budget is None else Budget(*record.budget)
        self.verified = record.verified
        self.granted = record.granted
        self.lurking = record.lurking
        self.takes_receipts = record.takes_receipts
