"""The key behind an id, as an operator gives it: of agents that are here, or in the store."""

from collections.abc import Callable

from moothall.hall.access import HEX_DIGITS
from moothall.hall.bindings import Holding, IdClaim
from moothall.hall.hall import Hall
from moothall.hall.keyring import Answered, Failed
from moothall.hall.session import Agent, Session
from moothall.identity import PublicKey


def all_with(hall: Hall, agent_id: str) -> list[Agent]:
    """The agents with this id, given in the length that this hall uses or in the other one."""
    return [
        agent
        for agent in hall.roster.agents.values()
        if agent_id == agent.id
        or ((key := agent.key or agent.claimed_key) and agent_id in (key.agent_id(8), key.fingerprint))
    ]


def find_key(hall: Hall, session: Session, agent_id: str, found: Callable[[PublicKey | None], None]) -> None:
    """Call `found` with the key that the id belongs to, or with None. A store that fails must not keep an operator
    from banning an id: then the key is not found."""
    present = all_with(hall, agent_id)
    if present or not _is_key_id(hall, agent_id):
        found(_one_key(hall, present))
        return

    def look(done: Answered, failed: Failed) -> None:
        asked = IdClaim(agent_id, b"", hall.timestamp(), may_bind=False)
        hall.keyring.claim(asked, done, lambda error: done(Holding(None)))

    def looked(holding: Holding) -> None:
        found(None if holding.owner is None else PublicKey(holding.owner))

    hall.durable.wait_for(session, look, looked)


def _is_key_id(hall: Hall, agent_id: str) -> bool:
    return len(agent_id) == hall.settings.id_length and set(agent_id) <= HEX_DIGITS


def _one_key(hall: Hall, agents: list[Agent]) -> PublicKey | None:
    """The key of these agents, if they have one and the same, and one of them has the id that follows from it."""
    keys = {key for agent in agents if (key := agent.key or agent.claimed_key) is not None}
    length = hall.settings.id_length
    own = {key for key in keys if any(agent.id == key.agent_id(length) for agent in agents)}
    return own.pop() if len(keys) == len(own) == 1 else None
