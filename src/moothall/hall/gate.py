"""The gate: how agents of another wire come into the hall, talk there and leave.

The rules are the hall's. A wire translates: its own form to `Msg`, and a Refusal to its own error. Its agents are
in the roster like all others, and are told through links that the wire brings along.
"""

from collections.abc import Callable

from moothall.errors import Refusal
from moothall.hall import chat, presence
from moothall.hall.channels import Channel
from moothall.hall.delivery import Delivery
from moothall.hall.hall import Hall
from moothall.hall.handshake import shows_verified
from moothall.hall.membership import check_joined
from moothall.hall.outside import Link
from moothall.hall.roster import Roster
from moothall.hall.session import Agent, Session
from moothall.identity import PublicKey
from moothall.settings.limits import Window
from moothall.wire.agentchat.client import Msg, SetNick
from moothall.wire.agentchat.server import Chat


class Gate:
    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self.roster: Roster = hall.roster
        self.delivery: Delivery = hall.delivery
        self.settings = hall.settings
        self.channels = hall.channels
        self.allowlist = hall.allowlist
        self.bans = hall.bans
        self.revoked = hall.revoked
        self.keyring = hall.keyring
        self.budgets = hall.budgets
        self.agenda = hall.agenda
        self.log = hall.log
        self.now = hall.now
        self.timestamp = hall.timestamp
        self.note = hall.note
        self.may_log = hall.may_log
        self.turn_away = hall.turn_away

    # -- coming and going --------------------------------------------------------------------------

    def session(self, link: Link, ip: str, wire: str) -> Session:
        """A session for one agent. Its wire counts what it costs."""
        return Session(link, ip, wire, self._hall.clock.time(), None)

    def enter(self, agent: Agent, windows: dict[str, Window], make_way: Callable[[], None]) -> None:
        """Add the agent to the roster. `windows` count its commands. `make_way` is called when a session proves the
        key that the agent's id comes from: the agent must give the id up."""
        self._hall.add(agent)
        agent.session.windows = windows
        self._hall.makes_way[agent.id] = make_way

    def arrived(self, agent: Agent) -> None:
        """The agent has entered, and its wire has told it so."""
        self._hall.arrived(agent)

    def leave(self, agent: Agent) -> None:
        if self.roster.get(agent.id) in (
            agent,
            None,
        ):  # it may have been put out, and its id given to another
            self._hall.makes_way.pop(agent.id, None)
        self._hall.disconnect(agent.session)

    def rename(self, agent: Agent, name: str) -> bool:
        """True if the agent has this name now. False: it changes its name too often, or the name is reserved."""
        message = SetNick(nick=name)
        try:
            if not self._hall.check(agent.session, message):
                return False
        except Refusal:
            return False
        presence.set_nick(self._hall, agent.session, message)
        return True

    def show_proof(self, agent: Agent, proven: PublicKey | None) -> None:
        """The agent has proven this key on its wire, or none any more: what others are shown follows from it."""
        verified = shows_verified(self._hall, agent, proven)
        if verified is not agent.verified:
            agent.verified = verified
            self._hall.roster.changed(agent)

    # -- talking -----------------------------------------------------------------------------------

    def send(self, agent: Agent, message: Msg) -> None:
        """Say it to a channel or an agent, as MSG on the WebSocket does. Raises Refusal.

        This is all that a wire needs whose messages are text alone (`tests/hall/test_third_wire.py`). Keep has a
        signed packet to hand on, and takes the two steps below instead.
        """
        if self._hall.check(agent.session, message):
            chat.message(self._hall, agent.session, message)

    def compose(self, agent: Agent, message: Msg, channel: Channel | None, original: bytes) -> Chat | None:
        """What others get to read of a message, after all that the hall asks of one. None: there is nothing to say.

        `original` is what its author signed. Raises Refusal.
        """
        if not self._hall.check(agent.session, message):
            return None
        return chat.compose(self._hall, agent, message, channel, original)

    def was_said(self, channel: Channel, line: Chat) -> bool:
        """True if another node took the envelope of this line a moment ago, and said it in the channel."""
        return channel.log is not None and channel.log.was_said(line)

    def say(self, agent: Agent, channel: Channel, line: Chat) -> None:
        """Into a channel that the agent is in."""
        chat.say(self._hall, agent, channel, line)

    def check_joined(self, agent: Agent) -> None:
        """Refuse one more channel than an agent may be in."""
        check_joined(self._hall, agent)
