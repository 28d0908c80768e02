"""What the agent hears, turned into what a person sees."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moothall.errors import ConnectionLost
from moothall.files.slurp import human_size
from moothall.tui.printable import shortened
from moothall.tui.rooms import Kind, Line, Person
from moothall.wire.agentchat.names import SERVER

if TYPE_CHECKING:
    from moothall import Agent, Gap, Message
    from moothall.client.dispute import Assignment, Case, Dispute
    from moothall.client.events import (
        Arrival,
        Budget,
        Departure,
        Member,
        NickChange,
        PresenceChange,
        Typing,
    )
    from moothall.client.file_offer import FileOffer
    from moothall.client.proposal import DealChange, Proposal
    from moothall.tui.app import ChatApp


def person_of(member: "Member") -> Person:
    return Person(
        member.id,
        member.name or member.id,
        member.verified,
        member.is_human,
        member.presence or "online",
        member.status_text,
        tokens_of(member.budget),
    )


def tokens_of(budget: "Budget | None") -> str | None:
    return None if budget is None else f"{budget.spent:,} of {budget.limit:,} tokens"


def line_of(message: "Message", agent: "Agent", *, is_history: bool = False) -> Line:
    kind = Kind.SAID
    if message.sender == SERVER:
        kind = Kind.SERVICE
    elif message.sender == agent.address:
        kind = Kind.OWN
    return Line(
        kind,
        message.ts.astimezone(),
        shortened(message.content),
        sender=message.sender,
        name=message.sender_name,
        verified=message.verified,
        human=message.is_human,
        mentions_me=kind is Kind.SAID and (message.mentions(agent.name) or message.mentions(agent.id)),
        is_history=is_history,
    )


class Ears:
    def __init__(self, app: "ChatApp") -> None:
        self._app = app
        self._agent = app.agent
        self._rooms = app.rooms

    def listen(self) -> None:
        """To be called before the agent connects, so that nothing is missed."""
        agent = self._agent
        agent.on_message(server=True)(self._queued(self._hear))
        agent.on_join(self._queued(self._hear_arrival))
        agent.on_leave(self._queued(self._hear_departure))
        agent.on_nick(self._queued(self._hear_nick))
        agent.on_presence(self._queued(self._hear_presence))
        agent.on_typing(self._queued(self._hear_typing))
        agent.on_gap(self._queued(self._hear_gap))
        agent.on_connect(self._queued(self._hear_connected))
        agent.on_disconnect(self._queued(self._hear_disconnected))
        agent.on_proposal(self._queued(self._hear_offer))
        agent.on_deal(self._queued(self._hear_deal))
        agent.on_dispute(self._queued(self._hear_dispute))
        agent.on_arbiter_assigned(self._queued(self._hear_assignment))
        agent.on_case(self._queued(self._hear_case))
        agent.on_floor(self._queued(self._hear_floor))
        agent.on_file_offer(self._queued(self._hear_files))

    def _queued(self, hear: Callable[[Any], None]) -> Callable[[Any], Any]:
        def hear_on_screen(event: Any) -> None:
            if self._app.has_screen:
                hear(event)

        async def handler(event: Any) -> None:
            self._app.call_later(hear_on_screen, event)

        return handler

    def _hear(self, message: "Message") -> None:
        name, title = message.channel, None
        if name is None:
            name, title = message.sender, f"@{message.sender_name}"
        line = line_of(message, self._agent)
        self._app.add(name, line, title)
        if message.is_dm:
            self._rooms[name].members[message.sender] = Person(
                message.sender, message.sender_name, message.verified, message.is_human
            )
        if line.kind is Kind.SAID and (line.mentions_me or message.is_dm):
            self._app.bell()

    def _hear_arrival(self, arrival: "Arrival") -> None:
        self._rooms.enter(arrival.channel, person_of(arrival.member))
        self._app.refresh_sides()

    def _hear_departure(self, departure: "Departure") -> None:
        self._rooms.leave(departure.channel, departure.id)
        self._app.refresh_sides()

    def _hear_nick(self, change: "NickChange") -> None:
        self._rooms.rename(change.id, change.new)
        if change.id != self._agent.address:
            self._app.note(f"{change.old} is {change.new} now")

    def _hear_presence(self, change: "PresenceChange") -> None:
        self._rooms.set_presence(change.id, change.presence, change.status_text)
        self._rooms.set_tokens(change.id, tokens_of(change.budget))
        self._app.refresh_sides()

    def _hear_typing(self, typing: "Typing") -> None:
        self._rooms.typed(typing.channel, typing.id, self._app.clock())
        self._app.refresh_sides()

    def _hear_floor(self, change: object) -> None:
        """The agent knows which claims stand; the app asks it when it draws."""
        self._app.refresh_sides()

    def _hear_gap(self, gap: "Gap") -> None:
        for message in gap.missed:
            self._hear(message)
        if gap.warning:
            self._app.note(gap.warning)

    def _hear_offer(self, proposal: "Proposal") -> None:
        self._app.affairs.keep([proposal])
        self._app.tell_news(f"{self._app.name_of(proposal.proposer)} offers you a deal: {proposal.task}")

    def _hear_files(self, offer: "FileOffer") -> None:
        """The offer stays unanswered: an answer to each would let a stranger use up what a person may say."""
        count = len(offer.files) + offer.more_files
        files = "a file" if count == 1 else f"{count} files"
        self._app.note(
            f"{offer.sender_name} ({offer.sender}) offers you {files}, {human_size(offer.size)}."
            " `moothall file receive` takes files; this screen does not"
        )

    def _hear_deal(self, change: "DealChange") -> None:
        self._app.affairs.keep([change.proposal])
        if change.by == self._agent.address:
            self._app.affairs_changed()
        else:
            self._app.tell_news(f"{change.proposal.task} is {change.status}")

    def _hear_dispute(self, dispute: "Dispute") -> None:
        self._app.affairs.keep([dispute])
        self._app.tell_news(f"{self._app.name_of(dispute.disputant)} takes you to court: {dispute.reason}")

    def _hear_assignment(self, assignment: "Assignment") -> None:
        self._app.attempt(self._app.load_affairs)
        self._app.tell_news(f"you were drawn to judge a case: {assignment.reason}")

    def _hear_case(self, case: "Case") -> None:
        self._app.attempt(self._app.load_affairs)
        self._app.tell_news(f"the case about {case.proposal.get('task', 'a deal')} waits for your vote")

    def _hear_connected(self, welcome: object) -> None:
        self._app.connected()

    def _hear_disconnected(self, error: object) -> None:
        if isinstance(error, ConnectionLost):  # anything else ends the agent, and with it the app
            self._app.disconnected()
