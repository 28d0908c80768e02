"""Agents of other wires: which of them may come in, the ids that they have, and the channels that they are in.

Keep and mesh share these rules. What an agent signs on another wire can be replayed, so it proves less than a
challenge: a visitor has no key in the hall's eyes, and leaves its id to the agent that proves the key.
"""

import re
from hashlib import sha256
from typing import Final

from moothall.errors import Banned, VerificationFailed
from moothall.hall.channels import Channel
from moothall.hall.gate import Gate
from moothall.hall.notices import Notices
from moothall.hall.session import Agent
from moothall.identity import PublicKey
from moothall.wire.agentchat.codec import is_utf8
from moothall.wire.agentchat.names import is_like_server

MAX_BRIDGED: Final = 32 * 1024  # bytes of a signed original that is attached to a chat message
MAX_UTF8: Final = 4  # bytes of a character
MAX_NAME: Final = 32

_not_in_names: Final = re.compile(r"[^A-Za-z0-9_-]+").sub


class Visitors:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.notices = Notices(gate)

    # -- who may come in, under which id -----------------------------------------------------------

    def admit(self, key: bytes, distinction: bytes) -> None:
        """Raise Refusal if an agent that signs with this key may not come in.

        `distinction` is what its other id comes from, besides the key: see `choose_id`.
        """
        gate = self.gate
        if gate.revoked and key in gate.revoked:
            raise VerificationFailed("This key was revoked")
        if len(gate.bans):
            self._check_ban(key, distinction)
        if gate.settings.admits_approved_only:
            gate.allowlist.check(PublicKey(key))

    def _check_ban(self, key: bytes, distinction: bytes) -> None:
        """By the key, or by the id that the agent has when another one has that of the key."""
        bans = self.gate.bans
        ban = bans.find(PublicKey(key))
        other_id, _ = _derived_id(key, distinction, self.gate.settings.id_length)
        if ban is not None or other_id in bans:
            raise Banned((ban.reason if ban is not None else "") or "You are banned from this hall")

    def own_id(self, key: bytes) -> str:
        """The id that follows from a key. A visitor has it, unless it is taken or belongs to another key."""
        return PublicKey(key).agent_id(self.gate.settings.id_length)

    def choose_id(self, key: bytes, distinction: bytes, owner: bytes | None) -> str:
        """`owner` is the key that `own_id(key)` belongs to, if it belongs to one."""
        agent_id = self.own_id(key)
        if self.gate.roster.get(agent_id) is not None or owner not in (None, key):
            return self.other_id(key, distinction)
        return agent_id

    def other_id(self, key: bytes, distinction: bytes) -> str:
        """From key and distinction together, because one key may have several visitors."""
        length, text = self.gate.settings.id_length, distinction
        while True:
            agent_id, text = _derived_id(key, text, length)
            if self.gate.roster.get(agent_id) is None:
                return agent_id

    # -- channels ----------------------------------------------------------------------------------

    def public_channel(self, name: str) -> Channel | None:
        """None for a private channel: knowing its name does not give access."""
        channel = self.gate.channels.get(name)
        if channel is None or channel.invite_only or channel.verified_only:
            return None
        return channel

    def join(self, channel: Channel, agent: Agent) -> None:
        if channel.log is not None and not channel.log.decides:
            channel.log.arrive(agent, is_visitor=True)
            return
        former = channel.members.get(agent.id)
        if former is not None:
            self.leave(channel, former)  # an earlier connection, at another node
        channel.enter(agent)
        channel.last_activity = self.gate.now()
        self.notices.joined(channel, agent)

    def leave(self, channel: Channel, agent: Agent) -> None:
        if channel.log is not None and not channel.log.decides:
            channel.log.depart(agent, is_visitor=True)
            return
        channel.leave(agent)
        self.notices.left(channel, agent)

    def leave_all(self, agent: Agent) -> None:
        """Before the agent departs: its watchers are told at the rate of `Notices`."""
        for channel in list(agent.channels.values()):
            self.leave(channel, agent)


def visitor_name(text: str) -> str:
    """What the hall calls a visitor: its own name, as far as names allow (agentchat wire 3.3); or nothing."""
    name = _not_in_names("", text)[:MAX_NAME]
    return "" if is_like_server(name) else name


def fitting(content: str) -> str:
    """What another wire can hold of a text: no lone surrogates, and not too much. What is cut ends with a note."""
    if len(content) * MAX_UTF8 <= MAX_BRIDGED and is_utf8(content):
        return content
    encoded = content.encode(errors="replace")
    if len(encoded) <= MAX_BRIDGED:
        return encoded.decode()
    return f"{encoded[:MAX_BRIDGED].decode(errors='ignore')}… [cut: {len(content)} characters]"


def _derived_id(key: bytes, text: bytes, length: int) -> tuple[str, bytes]:
    """An id that never looks like that of a key, because it begins with a letter that is not a hex digit; and the
    text from which the next one follows."""
    digest = sha256(key + text).digest()
    return "k" + digest.hex()[1:length], digest
