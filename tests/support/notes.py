"""What a connection says and is told, written down for `history`."""

from itertools import count
from typing import Any

from tests.support.history import (
    Acked,
    Claimed,
    Ended,
    Entered,
    Event,
    Gap,
    Heard,
    Left,
    Refused,
    Said,
    Welcomed,
    Yielded,
    violations,
)

Message = dict[str, Any]


class Record:
    """What all agents of a test did and saw, in one order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.texts: dict[str, str] = {}  # by the hall's id of the message
        self.ids: dict[str, str] = {}  # and by text
        self._lines = count(1)
        self._texts = count(1)

    def new_line(self) -> int:
        return next(self._lines)

    def new_text(self) -> str:
        return f"text-{next(self._texts)}"

    def name(self, msg_id: str, text: str) -> None:
        self.texts[msg_id] = text
        self.ids[text] = msg_id

    def text_of(self, msg_id: str) -> str:
        return self.texts.get(msg_id, msg_id)

    def check(self) -> None:
        problems = violations(self.events)
        assert not problems, "\n".join(problems)


class Notes:
    """One connection. It writes nothing down before it has a record."""

    record: Record | None = None
    line = 0
    node = ""
    agent_id = ""  # with @, from WELCOME

    def __init__(self) -> None:
        self.saying: dict[str, str] = {}  # texts by ref
        self.claiming: dict[str, str] = {}  # ids of messages by ref
        self.channels: set[str] = set()
        self.heard: set[str] = set()
        self.told_of_gaps: set[str] = set()  # channels
        self.displaced = False
        self.latest: tuple[str, str] | None = None  # the channel and text of a message that it heard

    def open_notes(self, record: Record, node: str) -> None:
        self.record, self.line, self.node = record, record.new_line(), node

    def says(self, to: str, ref: str) -> str:
        """A text that was never said before. It is about to be sent with this `ref`."""
        assert self.record is not None
        text = self.saying[ref] = self.record.new_text()
        self.record.events.append(Said(self.line, to, text))
        return text

    def claims(self, text: str, ref: str) -> str:
        """The id of the message. A claim on it is about to be sent with this `ref`."""
        assert self.record is not None
        msg_id = self.claiming[ref] = self.record.ids[text]
        return msg_id

    def note_end(self) -> None:
        if self.record is not None:
            self.record.events.append(Ended(self.line))

    def note(self, message: Message) -> None:
        if self.record is not None:
            self._write(self.record, message)

    def _write(self, record: Record, message: Message) -> None:
        match message:
            case {"type": "WELCOME"}:
                record.events.append(Welcomed(self.line, message["agent_id"].removeprefix("@"), self.node))
            case {"type": "JOINED", "channel": channel}:
                self.channels.add(channel)
                record.events.append(Entered(self.line, channel))
            case {"type": "LEFT", "channel": channel}:
                self.channels.discard(channel)
                record.events.append(Left(self.line, channel))
            case {"type": "MSG", "from": sender, "to": to, "content": content} if content.startswith("text-"):
                if not message.get("replay"):
                    text = content.partition(" ")[0]
                    self.heard.add(text)
                    record.name(message["msg_id"], text)
                    if to.startswith("#"):
                        self.latest = to, text
                    record.events.append(Heard(self.line, to, sender.removeprefix("@"), text))
            case {"type": "ACK", "ref": ref} if ref in self.saying:
                record.name(message["msg_id"], self.saying[ref])
                record.events.append(Acked(self.line, self.saying.pop(ref)))
            case {"type": "ERROR", "ref": ref} if ref in self.claiming:
                del self.claiming[ref]
            case {"type": "ERROR", "ref": ref} if ref in self.saying:
                record.events.append(Refused(self.line, self.saying.pop(ref)))
            case {"type": "MSG", "from": "@server", "to": channel, "content": content} if content.startswith(
                "Messages may be missing here"
            ):
                self.told_of_gaps.add(channel)
                record.events.append(Gap(self.line, channel))
            case {"type": "ACK", "ref": ref} if ref in self.claiming:
                record.events.append(Claimed(self.line, record.text_of(self.claiming.pop(ref))))
            case {"type": "YIELD", "msg_id": lost}:
                self.claiming.pop(message.get("ref", ""), None)
                record.events.append(Yielded(self.line, record.text_of(lost)))
            case {"type": "FLOOR_RELEASED", "msg_id": free, "from": who} if who.removeprefix(
                "@"
            ) == self.agent_id.removeprefix("@"):
                record.events.append(Yielded(self.line, record.text_of(free)))
            case {"type": "SESSION_DISPLACED"}:
                self.displaced = True
