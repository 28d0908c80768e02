"""Which key an id belongs to: the first that had it, for good.

Eight hex digits can be found twice by somebody who searches (agentchat wire 3.2), so the hall remembers the
key behind each id and refuses another one. The memory is bounded; the ids longest unseen are forgotten first.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from moothall.identity import PublicKey


class Keyring:
    def __init__(self, limit: int, known: Iterable[tuple[str, bytes]] = ()) -> None:
        self._limit = limit
        self._keys: OrderedDict[str, bytes] = OrderedDict()
        for agent_id, raw in known:
            self._keys.setdefault(agent_id, raw)
        while len(self._keys) > limit:
            self._keys.popitem(last=False)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, agent_id: str) -> bool:
        return agent_id in self._keys

    def belongs_to_another(self, agent_id: str, key: PublicKey) -> bool:
        return self._keys.get(agent_id, key.raw) != key.raw

    def bind(self, agent_id: str, key: PublicKey, is_present: Callable[[str], bool]) -> bool:
        """Remember; whether this id is new. The ids of agents who are present are never forgotten."""
        is_new = agent_id not in self._keys
        self._keys[agent_id] = key.raw
        self._keys.move_to_end(agent_id)
        if is_new and len(self._keys) > self._limit:
            self._forget_oldest(lambda other: other == agent_id or is_present(other))
        return is_new

    def _forget_oldest(self, is_present: Callable[[str], bool]) -> None:
        for agent_id in self._keys:
            if not is_present(agent_id):
                del self._keys[agent_id]
                return
