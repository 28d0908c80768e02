"""The keys of the terminal client: one table for the bindings, the footer, the F1 overlay and the docs."""

from typing import Final, NamedTuple

from textual.binding import Binding


class Key(NamedTuple):
    keys: str  # as Textual names them
    action: str
    shown: str  # as people write them; empty where the key before it speaks for this one too
    help: str
    footer: str = ""  # the word in the footer; keys without one are in the overlay only


# In the order of the footer: what a narrow terminal has no room for comes last.
KEYS: Final = (
    Key("f1", "help", "F1", "this page", "Help"),
    Key("f2", "channels", "F2", "the channels of the hall: look, join, create", "Channels"),
    Key("f3", "deals", "F3", "your deals and cases: accept, reject, complete, vote", "Deals"),
    Key("ctrl+q", "quit", "Ctrl-Q, Ctrl-C", "leave the hall", "Quit"),
    Key("ctrl+c", "quit", "", ""),
    Key("ctrl+r", "search", "Ctrl-R", "search in this room", "Search"),
    Key("alt+a", "active", "Alt-A", "the next room with something unread", "Unread"),
    Key("ctrl+n,alt+down,alt+right", "step(1)", "Ctrl-N, Alt-Down, Alt-Right", "next room", "Next"),
    Key("ctrl+p,alt+up,alt+left", "step(-1)", "Ctrl-P, Alt-Up, Alt-Left", "previous room"),
    Key("alt+1", "room(1)", "Alt-1 to Alt-9", "the room with this number"),
    *(Key(f"alt+{number}", f"room({number})", "", "") for number in range(2, 10)),
    Key("pageup", "scroll(-1)", "PgUp", "scroll up"),
    Key("pagedown", "scroll(1)", "PgDn", "scroll down"),
    Key("escape", "bottom", "Esc", "back to the latest message"),
)

# What the entry does with keys by itself.
ENTRY_KEYS: Final = (
    ("Enter", "send"),
    ("Ctrl-J, Shift-Enter", "a new line in the same message"),
    ("Tab", "complete a name, a channel or a command; again for the next"),
    ("Up, Down", "what you said before"),
    ("Ctrl-A, Ctrl-E", "to the beginning, to the end of the line"),
    ("Ctrl-W, Ctrl-U, Ctrl-K", "delete the word, or the line up to, or from, the cursor"),
)


def bindings() -> list[Binding]:
    return [
        Binding(
            key.keys,
            key.action,
            key.footer or key.help,
            show=bool(key.footer),
            key_display=key.shown.partition(",")[0],
        )
        for key in KEYS
    ]


def actions() -> dict[str, str]:
    """What each key does, as Textual names both."""
    return {name: key.action for key in KEYS for name in key.keys.split(",")}


def key_rows() -> list[tuple[str, str]]:
    """All keys with their meaning; the nine rooms are one row."""
    return [(key.shown, key.help) for key in KEYS if key.shown] + list(ENTRY_KEYS)
