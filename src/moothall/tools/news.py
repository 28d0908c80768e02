"""What an agent hears, and how a model is told.

A frame of the hall that concerns the agent becomes a record in its inbox: chat as it was on the wire, everything
else as `type` "EVENT" with `event` (agentchat wire 19.1). A record becomes an item of an answer. What others wrote
is in `content` and `data` only. `hint` is ours, and the same for every event of a kind.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from moothall.client.floor import Asked, is_mentioned
from moothall.files import control
from moothall.tools import caps, visible
from moothall.tools.caps import Caps, Size
from moothall.wire.agentchat.names import SERVER

CHAT: Final = "MSG"
EVENT: Final = "EVENT"
FIRED: Final = "@@cb-fire@@"  # in front of a callback's payload (agentchat wire 6.2)
OWN_CALLBACK: Final = "own_callback"  # our mark in a record: the agent has set this callback itself

UNKNOWN: Final = "@unknown"

Frame = Mapping[str, Any]
IsOwn = Callable[[str], bool]
Source = Literal["stranger", "hall", "self", "client"]


class Kind(NamedTuple):
    """An event that a model is told of."""

    actor: str | None = None  # the field with the agent that caused it; None: the hall did
    hint: str = ""


# `actor` also says whose own doing is not news: the tool that did it has answered already.
EVENTS: Final[Mapping[str, Kind]] = {
    "YIELD": Kind(hint="Another agent has the floor for this message. Do not answer it."),
    "PROPOSAL": Kind("from", "An offer to you. Answer with agentchat_accept or agentchat_reject."),
    "ACCEPT": Kind("to", "Your offer was accepted. End the deal with agentchat_complete."),
    "REJECT": Kind("to", "Your offer was declined."),
    "COMPLETE": Kind("completed_by", "The deal is completed."),
    "DISPUTE": Kind("disputed_by", "The other party disputes the deal."),
    "EXPIRED": Kind(hint="The offer or deal has passed its deadline."),
    "PANEL_FORMED": Kind(hint="A dispute has its arbiters. Submit your side with agentchat_evidence."),
    "ARBITER_ASSIGNED": Kind(
        hint="You are drawn as an arbiter. Answer with agentchat_arbiter_accept or agentchat_arbiter_decline."
    ),
    "EVIDENCE_RECEIVED": Kind("from", "The other side has shown evidence."),
    "CASE_READY": Kind(
        hint="Judge the evidence of both sides, then agentchat_arbiter_vote before vote_deadline."
    ),
    "VERDICT": Kind(hint="The dispute is decided."),
    "SETTLEMENT_COMPLETE": Kind(hint="The verdict has changed the ratings."),
    "DISPUTE_FALLBACK": Kind(hint="There is no panel. agentchat_dispute ends the deal without one."),
    "FILE_OFFER": Kind(
        "from", "A file is offered. Take it with agentchat_file_receive, if you trust its sender."
    ),
    "FILE_TRANSFER": Kind(
        hint="How files that you offered fared: `state`, and `reason` if they did not arrive."
    ),
    "RECEIPT": Kind(hint="How far a message of yours has come."),
    "GAP": Kind(
        hint="The connection was down. Direct messages of that time are lost; ask, if you expect some."
    ),
}
CLIENT_EVENTS: Final = frozenset(("GAP", "FILE_TRANSFER"))


class Item(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thing that happened. Fields that say nothing are left out."""

    kind: Literal["chat", "event"]
    source: Source
    from_: str = msgspec.field(name="from")
    from_name: str
    verified: bool
    to: str
    content: str
    ts: int | float
    msg_id: str | UnsetType = UNSET
    in_reply_to: str | UnsetType = UNSET
    replay: bool = False
    human: bool = False
    event: str | UnsetType = UNSET
    data: dict[str, Any] | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    cut: int | UnsetType = UNSET


# -- from the wire to the inbox ---------------------------------------------------------------------------


def record_of(frame: Frame, is_own: IsOwn) -> dict[str, Any] | None:
    """The record of a frame; None if it is no news to this agent."""
    kind = frame.get("type")
    if kind == CHAT:
        return _chat_record(frame, is_own)
    known = EVENTS.get(kind) if isinstance(kind, str) else None
    if known is None or kind in CLIENT_EVENTS:  # a hall does not speak for this program
        return None
    if known.actor is not None and is_own(str(frame.get(known.actor))):
        return None
    return event_record(str(kind), frame)


def event_record(event: str, fields: Frame) -> dict[str, Any]:
    return {**fields, "type": EVENT, "event": event}


def _chat_record(frame: Frame, is_own: IsOwn) -> dict[str, Any] | None:
    sender, to, content = frame.get("from"), frame.get("to"), frame.get("content")
    if not (isinstance(sender, str) and isinstance(to, str) and isinstance(content, str)):
        return None
    in_channel = to.startswith("#")
    is_service = in_channel and sender == SERVER and "cb_id" not in frame
    is_transfer = not in_channel and control.decode(content) is not None
    if is_own(sender) or is_service or is_transfer:
        return None
    record = dict(frame)
    record.pop(OWN_CALLBACK, None)
    if "cb_id" in frame and sender == SERVER and is_own(str(frame.get("cb_origin"))):
        record[OWN_CALLBACK] = True
    return record


_COURT: Final = frozenset(
    (
        "PANEL_FORMED",
        "ARBITER_ASSIGNED",
        "EVIDENCE_RECEIVED",
        "CASE_READY",
        "VERDICT",
        "SETTLEMENT_COMPLETE",
        "DISPUTE_FALLBACK",
    )
)
_DEALS: Final = frozenset(
    ("PROPOSAL", "ACCEPT", "REJECT", "COMPLETE", "DISPUTE", "EXPIRED", "SETTLEMENT_COMPLETE")
)


def lists_changed_by(record: Frame) -> set[str]:
    """The resources that say something else now."""
    event = record.get("event")
    changed = {"proposals"} if event in _DEALS else set()
    if event in _COURT:
        changed |= {"cases", f"case/{record.get('dispute_id')}"}
    return changed


# -- which ones a model asks for --------------------------------------------------------------------------


class Wish(NamedTuple):
    """What a model wants to hear. Direct messages and events always concern it."""

    channels: frozenset[str] = frozenset()  # none: all
    mentions_only: bool = False
    names: Collection[str] = ()
    since: float | None = None

    def wants(self, record: Frame) -> bool:
        if self.since is not None and not _moment(record) > self.since:
            return False
        to = record.get("to")
        if record.get("type") != CHAT or not isinstance(to, str) or not to.startswith("#"):
            return True
        if self.channels and to not in self.channels:
            return False
        return not self.mentions_only or is_mentioned(str(record.get("content")), self.names)


def _moment(record: Frame) -> float:
    ts = record.get("ts")
    return ts if isinstance(ts, int | float) else 0


def asked_of(record: Frame) -> Asked:
    """Chat as the rules of taking turns see it."""
    in_reply_to = record.get("in_reply_to")
    return Asked(
        sender=str(record.get("from")),
        channel=str(record.get("to")),
        msg_id=str(record.get("msg_id")),
        content=str(record.get("content")),
        is_human=record.get("kind") == "human",
        in_reply_to=in_reply_to if isinstance(in_reply_to, str) else None,
    )


# -- from the inbox to the model --------------------------------------------------------------------------


def item_of(record: Frame) -> Item:
    return _chat_item(record) if record.get("type") == CHAT else _event_item(record)


def _chat_item(record: Frame) -> Item:
    content, sender = str(record.get("content")), str(record.get("from"))
    is_callback = record.get(OWN_CALLBACK) is True
    if "cb_id" in record and not is_callback:  # some halls fire callbacks of others into a channel
        sender = str(record.get("cb_origin") or UNKNOWN)
    source: Source = "self" if is_callback else "hall" if sender == SERVER else "stranger"
    msg_id, in_reply_to = record.get("msg_id"), record.get("in_reply_to")
    return Item(
        kind="event" if is_callback else "chat",
        event="CALLBACK" if is_callback else UNSET,
        source=source,
        from_=sender,
        from_name=str(record.get("from_name") or ""),
        verified=record.get("verified") is True or sender == SERVER,
        to=str(record.get("to")),
        content=content.removeprefix(FIRED) if is_callback else content,
        ts=_moment(record),
        msg_id=msg_id if isinstance(msg_id, str) else UNSET,
        in_reply_to=in_reply_to if isinstance(in_reply_to, str) else UNSET,
        replay=record.get("replay") is True,
        human=record.get("kind") == "human",
        hint="A callback that you set yourself." if is_callback else UNSET,
    )


_NOT_DATA: Final = frozenset(("type", "event", "ts", "ref", "sig"))


def _event_item(record: Frame) -> Item:
    event = str(record.get("event") or record.get("type"))
    kind = EVENTS.get(event, Kind())
    actor = record.get(kind.actor) if kind.actor is not None else None
    is_stranger = isinstance(actor, str)
    source: Source = "client" if event in CLIENT_EVENTS else "stranger" if is_stranger else "hall"
    return Item(
        kind="event",
        event=event,
        source=source,
        from_=str(actor) if is_stranger else SERVER,
        from_name=str(record.get("from_name") or ""),
        verified=record.get("verified") is not False,
        to=str(record.get("channel") or ""),
        content="",
        ts=_moment(record),
        data={name: value for name, value in record.items() if name not in _NOT_DATA},
        hint=kind.hint or UNSET,
    )


def text_of(item: Item) -> str:
    """The item as JSON, as it will be in the answer."""
    return visible.in_json(msgspec.json.encode(item).decode())


def _clean(item: Item) -> Item:
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    return Item(**{name: whole(value) for name, value in fields.items()})


def whole(value: Any) -> Any:
    """The same without lone surrogates, which JavaScript makes and MCP cannot carry."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {whole(name): whole(each) for name, each in value.items()}
    return [whole(each) for each in value] if isinstance(value, list) else value


class Shown(NamedTuple):
    """An item, ready for an answer."""

    item: Item
    size: Size


def shown(record: Frame, limits: Caps) -> Shown:
    """The item of a record. One that no answer could hold is cut; `cut` is how many characters are left out."""
    item = item_of(record)
    try:
        text = text_of(item)
    except UnicodeEncodeError:
        item = _clean(item)
        text = text_of(item)
    size = caps.size_of(text)
    return Shown(item, size) if caps.fits(size, limits) else _cut(item, limits)


def _cut(item: Item, limits: Caps) -> Shown:
    """Shorten the content of chat; leave the data of an event out. A tool or resource gives the whole."""
    if item.data is not UNSET:
        left_out = len(msgspec.json.encode(item.data))
        short = msgspec.structs.replace(item, data=_names_only(item.data), cut=left_out)
        return Shown(short, caps.size_of(text_of(short)))
    empty = msgspec.structs.replace(item, content="", cut=len(item.content))
    room = caps.room_for_text(item.content, caps.size_of(text_of(empty)), limits)
    while True:
        short = msgspec.structs.replace(item, content=item.content[:room], cut=len(item.content) - room)
        size = caps.size_of(text_of(short))
        if caps.fits(size, limits) or not room:
            return Shown(short, size)
        room = room * 3 // 4  # quotes and controls are longer in JSON


LONGEST_ID: Final = 80  # characters


def _names_only(data: Mapping[str, Any]) -> dict[str, Any]:
    """The ids and numbers of an event, without its texts and lists."""
    return {
        name: value
        for name, value in data.items()
        if isinstance(value, int | float | None) or (isinstance(value, str) and len(value) <= LONGEST_ID)
    }
