"""Callbacks: an agent asks, inside a message, to be reminded of something later (agentchat wire 9.5).

`@@cb:30s@@look again` reminds the agent itself, `@@cb:30s#ops@@look again` does so in a channel. `extract`
takes the markers out of a message, `CallbackQueue` keeps what they ask for until it is due. Then @server says it to
the agent, in a message that starts with `FIRED`.
"""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from moothall.hall.session import Agent
from moothall.wire.agentchat.callback_markers import FIRED, MARKER, find_callbacks
from moothall.wire.agentchat.jstext import trim, utf16_length
from moothall.wire.agentchat.names import SERVER
from moothall.wire.agentchat.server import Chat

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

MAX_DELAY: Final = 3600.0  # seconds; longer ones are shortened (agentchat wire 9.5)
MAX_PAYLOAD: Final = 500  # UTF-16 code units; a marker with more is ignored (agentchat wire 9.5)
MAX_PENDING: Final = 50  # per agent; further ones are dropped in silence (agentchat wire 9.5)


class Callback(NamedTuple):
    delay: float  # seconds
    target: str  # `#channel`, or the `@id` of the agent that asked
    payload: str


class Extraction(NamedTuple):
    clean: str  # the content without its markers
    callbacks: tuple[Callback, ...]
    routed: str | None  # what the other agents get to read; None: the message is not relayed


def extract(
    content: str,
    agent_id: str,
    max_delay: float = MAX_DELAY,
    max_payload: int = MAX_PAYLOAD,
    max_pending: int = MAX_PENDING,
) -> Extraction:
    """All markers leave the content. As many as an agent may have pending become callbacks, and one always does: it
    decides what is routed."""
    # Nearly every message leaves here; looking for one character is several times as fast as for five.
    if "@" not in content or MARKER not in content:
        return Extraction(content, (), content)
    pieces: list[str] = []
    callbacks: list[Callback] = []
    most = max(1, max_pending)
    kept_from = 0
    for head, end in find_callbacks(content):
        pieces.append(content[kept_from : head.start()])
        kept_from = end
        if len(callbacks) < most:
            payload = trim(content[head.end() : end])
            if utf16_length(payload) <= max_payload:
                delay = min(float(head[1]), max_delay)
                callbacks.append(Callback(delay, head[2] or f"@{agent_id}", payload))
    if not pieces:
        return Extraction(content, (), content)
    pieces.append(content[kept_from:])
    clean = trim("".join(pieces))
    return Extraction(clean, tuple(callbacks), _routed(content, clean, callbacks))


def _routed(content: str, clean: str, callbacks: list[Callback]) -> str | None:
    if clean:
        return clean
    # A message that was only markers goes nowhere; if none was acceptable, its author should notice.
    return None if callbacks else content


class Pending(NamedTuple):
    due: float
    callback_id: str
    agent_id: str
    target: str
    payload: str


class CallbackQueue:
    """What is to be said to whom later. `now` is in seconds, of whatever clock never goes back."""

    def __init__(self, max_pending: int = MAX_PENDING) -> None:
        self._max_pending = max_pending
        self._heap: list[tuple[float, int, Pending]] = []
        self._serial = 0
        # The serial numbers in the heap that still count. An agent that left takes its own out of here; the
        # heap drops them when it meets them, or when they are the majority.
        self._serials: dict[str, set[int]] = {}
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._heap) - self._dropped

    def add(self, agent_id: str, callback: Callback, callback_id: str, now: float) -> bool:
        """True if the callback was added; False if the agent has too many."""
        serials = self._serials.setdefault(agent_id, set())
        if len(serials) >= self._max_pending:
            return False
        self._serial += 1
        serials.add(self._serial)
        pending = Pending(now + callback.delay, callback_id, agent_id, callback.target, callback.payload)
        heappush(self._heap, (pending.due, self._serial, pending))
        return True

    def due(self, now: float) -> list[Pending]:
        """Take out what is due, the earliest first, and of the same moment the first one asked for."""
        fired: list[Pending] = []
        while (next_due := self.next_due()) is not None and next_due <= now:
            _, serial, pending = heappop(self._heap)
            self._settle(pending.agent_id, serial)
            fired.append(pending)
        return fired

    def drop(self, agent_id: str) -> None:
        """The agent is gone: drop its callbacks."""
        serials = self._serials.pop(agent_id, None)
        if serials is None:
            return
        self._dropped += len(serials)
        if self._dropped * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if self._counts(entry)]
            heapify(self._heap)
            self._dropped = 0

    def next_due(self) -> float | None:
        while self._heap and not self._counts(self._heap[0]):
            heappop(self._heap)
            self._dropped -= 1
        return self._heap[0][0] if self._heap else None

    def _counts(self, entry: tuple[float, int, Pending]) -> bool:
        _, serial, pending = entry
        return serial in self._serials.get(pending.agent_id, ())

    def _settle(self, agent_id: str, serial: int) -> None:
        serials = self._serials[agent_id]
        serials.remove(serial)
        if not serials:
            del self._serials[agent_id]


def take_callbacks(hall: "Hall", agent: Agent, content: str) -> str | None:
    """Queue the callbacks of a message. Return what is relayed of it; None if it is not relayed."""
    settings = hall.settings
    extraction = extract(
        content,
        agent.id,
        settings.callback_max_delay,
        settings.callback_max_payload,
        settings.callback_max_pending,
    )
    now = hall.now()
    for callback in extraction.callbacks:
        hall.callbacks.add(agent.id, callback, hall.ids.callback_id(hall.timestamp()), now)
    _plan_callbacks(hall)
    return extraction.routed


def _plan_callbacks(hall: "Hall") -> None:
    """One appointment for the earliest of all, so that agents who left leave nothing behind in the agenda."""
    due = hall.callbacks.next_due()
    planned = hall.next_callback
    if due is None or (planned is not None and not planned.cancelled and planned.due <= due):
        return
    if planned is not None:
        hall.agenda.cancel(planned)
    hall.next_callback = hall.agenda.at(due, lambda: _fire_callbacks(hall))


def _fire_callbacks(hall: "Hall") -> None:
    for fired in hall.callbacks.due(hall.now()):
        agent = hall.roster.agents.get(fired.agent_id)
        if agent is None or (fired.target[0] == "#" and fired.target not in agent.channels):
            continue
        hall.delivery.tell(
            agent,
            Chat(
                ts=hall.timestamp(),
                from_=SERVER,
                from_name="server",
                to=fired.target,
                content=FIRED + fired.payload,
                cb_id=fired.callback_id,
                cb_origin=agent.address,
            ),
        )
    _plan_callbacks(hall)
