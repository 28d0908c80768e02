"""What @server says about agents: strangers' text in it is quoted, and lines about one agent are limited.

Agents take the word of @server for the hall's. So text that others chose gets into its lines through `quote` alone:
on one line, without characters that cannot be seen, bounded, and without a quotation mark that would end the quote.
The hall redacts and moderates the line when it is spoken.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from moothall.errors import Refusal
from moothall.hall.access import holder_of
from moothall.hall.agenda import Agenda
from moothall.hall.session import Agent
from moothall.settings.limits import Rate, Window
from moothall.wire.agentchat.names import SERVER
from moothall.wire.agentchat.server import Chat

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

MAX_QUOTE: Final = 2000  # characters of strangers' text in a line: a message has 4096 in all

# An agent may send one message a second, so a line a second about it is not worse.
LINES: Final = Rate(60, 60)  # about one agent, in one channel
MAX_REMEMBERED: Final = 10_000  # agents and channels whose lines are counted; the longest unused go first
MAX_HELD: Final = 1000  # lines that wait until they may be spoken

# C0, DEL and C1, and the separators of lines and paragraphs: all of them may look like the end of a line.
_BREAKS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Characters that are not seen, or that turn the direction of text around: fillers, zero-width characters, direction
# marks, invisible operators, interlinear marks, the byte order mark, tags, halves of a surrogate pair.
_INVISIBLE: Final = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff"
    r"\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
_is_plain_name: Final = re.compile(r"\w[\w .+#/-]*").fullmatch


def one_line(text: str) -> str:
    """The text on one line, without characters that cannot be seen."""
    return _INVISIBLE.sub("", _BREAKS.sub(" ", text))


def quote(text: str, most: int = MAX_QUOTE) -> str:
    """Text of a stranger's, to be put between quotation marks in a line of @server's."""
    text = one_line(text).replace('"', "'")
    return text if len(text) <= most else text[: most - 1] + "…"


def quote_name(name: str, most: int) -> str:
    """A name that a stranger chose. Words stand as they are, anything else between quotation marks."""
    quoted = quote(name, most)
    return quoted if quoted == name and _is_plain_name(name) else f'"{quoted}"'


class Line(NamedTuple):
    """`spacing` is how many seconds lie between two of this kind. Of those that come too soon, the last is kept."""

    about: str  # an agent's id, or the address of one without a key
    channel: str
    content: str
    buffered: bool = True
    spacing: float = 0.0
    is_moderated: bool = False  # it quotes what the agent wrote


class Voice:
    """Decides when a line is spoken; `speak` speaks it."""

    def __init__(self, agenda: Agenda, speak: Callable[[Line], None], *, limited: bool) -> None:
        self._agenda = agenda
        self._speak = speak
        self._limited = limited
        self._windows: dict[tuple[str, str], Window] = {}
        self._spoken: dict[tuple[str, str], float] = {}  # when a line with a spacing was spoken last
        self._held: dict[tuple[str, str], Line] = {}

    def __len__(self) -> int:
        """The number of waiting lines."""
        return len(self._held)

    def offer(self, line: Line, now: float) -> None:
        """Speak it now, or later, or never."""
        if not self._limited:
            self._speak(line)
        elif line.spacing:
            self._space(line, now)
        elif self._admit(line, now):
            self._speak(line)

    def _space(self, line: Line, now: float) -> None:
        key = (line.about, line.channel)
        last = self._spoken.get(key)
        if key in self._held:
            self._held[key] = line
        elif last is None or now >= last + line.spacing:
            self._say(key, line, now)
        elif len(self._held) < MAX_HELD:
            self._held[key] = line
            due = last + line.spacing
            self._agenda.at(due, lambda: self._say(key, self._held.pop(key), due))

    def _say(self, key: tuple[str, str], line: Line, now: float) -> None:
        self._spoken.pop(key, None)
        self._spoken[key] = now
        if len(self._spoken) > MAX_REMEMBERED:
            del self._spoken[next(iter(self._spoken))]
        self._speak(line)

    def _admit(self, line: Line, now: float) -> bool:
        key = (line.about, line.channel)
        window = self._windows.pop(key, None) or Window(LINES)
        self._windows[key] = window
        if len(self._windows) > MAX_REMEMBERED:
            del self._windows[next(iter(self._windows))]
        return window.admit(now)


def announce(hall: "Hall", channel_name: str, content: str, *, buffered: bool = True) -> None:
    """A line from @server to a channel, if there is such a channel (agentchat wire 6.2).

    Strangers' text in it goes through `quote` first. Lines about an agent go through `Voice.offer`.
    """
    channel = hall.channels.get(channel_name)
    if channel is None:
        return
    line = Chat(
        ts=hall.timestamp(),
        from_=SERVER,
        from_name="Server",
        to=channel_name,
        content=hall.redacted(content),
    )
    if channel.log is not None and not channel.log.decides:
        channel.log.announce(line, buffered=buffered)
    elif buffered:
        hall.delivery.say(channel, line, None, by_agent=False)
    else:
        hall.delivery.broadcast(channel, line)


def announce_move(hall: "Hall", agent: Agent, channel_name: str, what: str) -> None:
    """Announce arrivals and departures, if the settings say so. Lurkers are not announced."""
    if hall.settings.service_lines and not agent.lurking:
        session = agent.session
        # An agent without a key is another one each time it connects; its address stays.
        is_passing = agent.key is None and (session.counted or agent.relay is not None)
        about = holder_of(session.ip) if is_passing else agent.id
        hall.voice.offer(Line(about, channel_name, f"{agent.name} {what}"), hall.now())


def speak(hall: "Hall", line: Line) -> None:
    """Speak a line of `Voice`, if it may be said. It is moderated as a message of its author would be."""
    if line.is_moderated and hall.moderation is not None:
        author = hall.roster.agents.get(line.about)
        if author is None:
            return  # it is gone, and what it wrote cannot be held against it
        try:
            hall.moderation.review(hall, author, line.content, line.channel)
        except Refusal:
            return
    announce(hall, line.channel, line.content, buffered=line.buffered)
