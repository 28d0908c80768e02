"""What the slash commands do."""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from moothall.errors import UsageError
from moothall.tui import entry
from moothall.tui.browser import Choice, NewChannel, channel_name
from moothall.tui.ears import line_of, person_of
from moothall.tui.rendering import who_line
from moothall.tui.rooms import Kind, Line, Person

if TYPE_CHECKING:
    from moothall.tui.app import ChatApp
    from moothall.wire.agentchat.client import PresenceState


class Commands:
    def __init__(self, app: "ChatApp") -> None:
        self._app = app
        self._agent = app.agent
        self._is_away = False
        self._entered: set[str] = set()

    async def run(self, command: entry.Command) -> None:
        await {
            "join": self._join,
            "leave": self._leave,
            "dm": self._dm,
            "nick": self._nick,
            "away": self._away,
            "who": self._who,
            "list": self._list,
            "create": self._create,
            "invite": self._invite,
            "deals": self._deals,
            "search": self._search,
            "clear": self._clear,
            "help": self._help,
            "quit": self._quit,
        }[command.name](command)

    async def send(self, to: str, text: str) -> None:
        app = self._app
        await self._agent.send(to, text)
        app.add(to, self._own_line(text))
        if self._is_away:
            await self._set_presence("online", None)
            self._is_away = False

    async def enter(self, channel: str) -> None:
        """Join, and learn what was said before and who is there."""
        history = await self._agent.history(channel)
        self._app.rooms.remember(
            channel, [line_of(message, self._agent, is_history=True) for message in history]
        )
        self._entered.add(channel)
        self._app.look_again()
        await self.refresh_members(channel)

    async def refresh_members(self, channel: str) -> None:
        members = await self._agent.members(channel)
        if channel in self._app.rooms:
            self._app.rooms.set_members(channel, map(person_of, members))
        self._app.refresh_sides()

    async def _join(self, command: entry.Command) -> None:
        await self._look_into(_channel(command.words[0]))

    async def _look_into(self, channel: str) -> None:
        if channel not in self._entered:  # a hall may also put one into channels unasked (agentchat wire 4.6)
            await self.enter(channel)
            self._app.known_channels.add(channel)
        self._app.look_at(channel)

    async def _leave(self, command: entry.Command) -> None:
        name = self._named_or_current(command)
        if name.startswith("#"):
            await self._agent.leave(name)
        self._entered.discard(name)
        self._app.rooms.close(name)
        self._app.look_again()

    async def _dm(self, command: entry.Command) -> None:
        person, address = self._find(command.words[0])
        room = self._app.rooms.open(address, f"@{person.name}" if person else None)
        if person:
            room.members = {address: person}
        self._app.look_at(address)
        if command.rest:
            await self._app.send(address, command.rest)

    def _find(self, word: str) -> tuple[Person | None, str]:
        """The agent of this name or @id, as far as it is known, and its address."""
        people = self._app.rooms.find(word)
        if len(people) > 1:
            ids = ", ".join(person.address for person in people)
            raise UsageError(f"Several agents are called {word}: {ids}. Use the @id.")
        if people:
            return people[0], people[0].address
        if not word.startswith("@"):
            raise UsageError(f"No agent here is called {word}. /who lists names and ids.")
        return None, word

    async def _nick(self, command: entry.Command) -> None:
        await self._agent.set_nick(command.words[0])
        self._app.rooms.rename(self._agent.address, command.words[0])
        self._app.note(f"you are {command.words[0]} now")

    async def _away(self, command: entry.Command) -> None:
        await self._set_presence("away", " ".join(command.words) or None)
        self._is_away = True
        self._app.note("you are away; say anything to be back")

    async def _who(self, command: entry.Command) -> None:
        name = self._named_or_current(command)
        if not name.startswith("#"):
            raise UsageError("/who CHANNEL; this is a talk between two")
        people = [person_of(member) for member in await self._agent.members(name)]
        self._app.note(f"{name}: {len(people)} here\n" + "\n".join(map(who_line, people)))

    async def _list(self, command: entry.Command) -> None:
        self._app.action_channels()

    async def _create(self, command: entry.Command) -> None:
        wishes = set(command.words[1:])
        if unknown := wishes - {"private", "verified"}:
            raise UsageError(f"{unknown.pop()} is neither private nor verified.")
        await self.create(
            NewChannel(_channel(command.words[0]), "private" in wishes, "verified" in wishes),
        )

    async def create(self, channel: NewChannel) -> None:
        await self._agent.create_channel(
            channel.name, invite_only=channel.invite_only, verified_only=channel.verified_only
        )
        await self._look_into(channel.name)

    async def _invite(self, command: entry.Command) -> None:
        room = self._app.rooms.current
        channel = _channel(command.words[1]) if len(command.words) > 1 else room.name if room else ""
        if not channel.startswith("#"):
            raise UsageError("You are not in a channel. Name one: /invite NAME CHANNEL.")
        person, address = self._find(command.words[0])
        await self._agent.invite(channel, address)
        self._app.note(f"{person.name if person else address} may enter {channel}")

    def chosen(self, choice: Choice) -> None:
        """What the person wants of the channels of the hall."""
        if isinstance(choice, NewChannel):
            self._app.attempt(partial(self.create, choice))
        elif choice is not None:
            self._app.attempt(partial(self._look_into, choice))

    async def _deals(self, command: entry.Command) -> None:
        self._app.action_deals()

    async def _search(self, command: entry.Command) -> None:
        self._app.search(" ".join(command.words))

    async def _clear(self, command: entry.Command) -> None:
        self._app.rooms.clear()
        self._app.look_again()

    async def _help(self, command: entry.Command) -> None:
        if not command.words:
            self._app.action_help()
        elif name := entry.command_name(command.words[0]):
            self._app.note(entry.usage_line(name))
        else:
            raise UsageError(f"There is no command /{command.words[0].removeprefix('/')}. /help lists them.")

    async def _quit(self, command: entry.Command) -> None:
        await self._app.action_quit()

    async def _set_presence(self, presence: "PresenceState", status: str | None) -> None:
        await self._agent.set_presence(presence, status)
        self._app.rooms.set_presence(self._agent.address, presence, status)  # the hall tells only the others
        self._app.refresh_sides()

    def _named_or_current(self, command: entry.Command) -> str:
        if command.words:
            return _channel(command.words[0])
        if room := self._app.rooms.current:
            return room.name
        raise UsageError("you are in no room")

    def _own_line(self, text: str) -> Line:
        agent = self._agent
        return Line(
            Kind.OWN,
            datetime.now().astimezone(),
            text,
            sender=agent.address,
            name=agent.name,
            verified=agent.verified,
            human=True,
        )


def _channel(word: str) -> str:
    name = channel_name(word)
    if name is None:
        raise UsageError(f"{word} cannot be a channel: # and at most 31 letters, digits, _ or -")
    return name
