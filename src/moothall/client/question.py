"""Which of the things that are said is the answer to a question. No clock, no tasks: see `asking`.

The answer is a reply to the question, or what an agent says next that has claimed the floor for it; in a direct
conversation it is the peer's next message. Agents of other programs know neither replies nor claims. From them, a
message that mentions the agent that asked is the answer. Any other plain message is a guess: it is taken when no
agent has claimed the question for a while.
"""

from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, Final

from moothall.client.events import Departure
from moothall.client.floor import is_mentioned
from moothall.client.message import Message
from moothall.wire.agentchat.names import SERVER, bare_id

MESSAGE: Final = "on_message"
DEPARTURE: Final = "on_leave"
GRANTED: Final = "FLOOR_CLAIMED"
CLAIM: Final = "RESPONDING_TO"
RELEASE: Final = "FLOOR_RELEASED"
EVENTS: Final = (MESSAGE, DEPARTURE, GRANTED, CLAIM, RELEASE)

MAX_EARLY: Final = 1000  # events that arrive before the hall has told the id of the question


class Question:
    """`place` is where it was asked: `#channel` or the `@id` of an agent. `names` are those of the asker."""

    def __init__(self, place: str, names: Collection[str]) -> None:
        self.place = place
        self.answer: Message | None = None
        self._names = names
        self._is_sent = False
        self._msg_id: str | None = None
        self._early: deque[tuple[str, Any]] = deque(maxlen=MAX_EARLY)
        self._holder: str | None = None  # of the floor, as the hall decided
        self._claimants: set[str] = set()  # where the hall does not decide: on a person's question
        self._guess: Message | None = None
        self._takes_guesses = False

    @property
    def claimants(self) -> list[str]:
        """The agents that work on an answer, with @."""
        found = self._claimants if self._holder is None else {self._holder}
        return sorted(f"@{agent}" for agent in found)

    def sent(self, msg_id: str | None) -> None:
        """The hall has taken the question. Some servers do not tell its id."""
        self._is_sent, self._msg_id = True, msg_id
        while self._early and self.answer is None:
            self.hear(*self._early.popleft())

    def take_guesses(self) -> None:
        """No agent claimed the question for a while: perhaps none of them knows how."""
        self._takes_guesses = True
        self._take_guess()

    def hear(self, event: str, what: Any) -> None:
        if self.answer is not None:
            return
        if not self._is_sent:
            self._early.append((event, what))
        elif event == MESSAGE:
            self._hear_message(what)
        elif event == DEPARTURE:
            self._hear_departure(what)
        elif self._is_about(what):
            self._hear_claim(event, what)

    def _hear_message(self, message: Message) -> None:
        if message.sender == SERVER:
            return
        if message.is_dm:
            if message.sender == self.place and message.in_reply_to in (None, self._msg_id):
                self.answer = message
        elif message.channel == self.place:
            self._hear_in_channel(message)

    def _hear_in_channel(self, message: Message) -> None:
        if message.in_reply_to is not None:
            if message.in_reply_to == self._msg_id:
                self.answer = message
        elif message.sender in self.claimants or is_mentioned(message.content, self._names):
            self.answer = message
        else:
            self._guess = self._guess or message
            self._take_guess()

    def _take_guess(self) -> None:
        if self._takes_guesses and not self.claimants:
            self.answer = self._guess

    # -- claims ------------------------------------------------------------------------------------

    def _is_about(self, frame: Mapping[str, Any]) -> bool:
        return (
            self._msg_id is not None
            and frame.get("msg_id") == self._msg_id
            and frame.get("channel") == self.place
        )

    def _hear_claim(self, event: str, frame: Mapping[str, Any]) -> None:
        agent = frame.get("holder") if event == GRANTED else frame.get("from")
        if not isinstance(agent, str):
            return
        if event == RELEASE:
            self._withdraw(agent)
        elif event == GRANTED:
            self._holder = bare_id(agent)
        else:
            self._claimants.add(bare_id(agent))

    def _hear_departure(self, departure: Departure) -> None:
        if departure.channel == self.place:
            self._withdraw(departure.id)

    def _withdraw(self, agent: str) -> None:
        self._claimants.discard(bare_id(agent))
        if self._holder == bare_id(agent):
            self._holder = None
        self._take_guess()
