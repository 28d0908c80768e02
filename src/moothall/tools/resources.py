"""What a host can read, and watch, without a tool call: channels, agents, deals, cases and the inbox, as JSON."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import msgspec

from moothall.errors import UsageError
from moothall.tools import caps, news, visible
from moothall.tools.caps import Caps
from moothall.tools.court import listed_case
from moothall.tools.market import STRANGERS, listed_deal
from moothall.tools.session import Session

SCHEME: Final = "moothall://"
JSON: Final = "application/json"
MOST: Final = 200  # entries of a list
CASE: Final = f"{SCHEME}case/{{id}}"

_CASE_URI: Final = re.compile(rf"{SCHEME}case/([A-Za-z0-9_-]{{1,200}})")

Read = Callable[[Session], Awaitable[dict[str, Any]]]


class Resource(NamedTuple):
    """A row of the table. `name` is also what `Session.watchers` are told when it changes."""

    name: str
    title: str
    description: str
    read: Read

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.name}"


async def _channels(session: Session) -> dict[str, Any]:
    agent = await session.agent()
    listed = [
        {"name": each.name, "agents": each.members, "verified_only": each.verified_only}
        for each in await agent.channels()
    ]
    return _list("channels", listed) | {"joined": sorted(agent.rooms)}


async def _agents(session: Session) -> dict[str, Any]:
    agent = await session.agent()
    listed = [
        {
            "agent_id": each.id,
            "name": each.name,
            "verified": each.verified,
            "human": each.is_human,
            "presence": each.presence,
            "status_text": each.status_text,
            "budget": None
            if each.budget is None
            else {"limit": each.budget.limit, "spent": each.budget.spent},
        }
        for each in await agent.agents()
    ]
    return _list("agents", listed) | {"you": agent.address}


async def _proposals(session: Session) -> dict[str, Any]:
    agent = await session.agent()
    found = await agent.proposals(open_only=False, limit=MOST)
    return _list("proposals", [msgspec.to_builtins(listed_deal(deal)) for deal in found])


async def _cases(session: Session) -> dict[str, Any]:
    agent = await session.agent()
    found = await agent.disputes(open_only=False, limit=MOST)
    return _list("cases", [msgspec.to_builtins(listed_case(case)) for case in found])


async def _inbox(session: Session) -> dict[str, Any]:
    """The newest messages. Reading them here does not mark them as read."""
    records, total = session.mailbox().last_lines(caps.MESSAGES)
    shown = [news.shown(record, Caps()) for record in records]
    taken = caps.newest([each.size for each in shown], Caps())
    items = [msgspec.to_builtins(each.item) for each in shown[len(shown) - taken :]]
    return {"messages": items, "total": total, "notice": STRANGERS}


def _list(name: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """As many as an answer holds. Others wrote some of these texts, and must not flood a model with them."""
    sizes = (caps.size_of(visible.in_json(msgspec.json.encode(entry).decode())) for entry in entries)
    taken = caps.fitting(sizes, Caps(MOST))
    found: dict[str, Any] = {name: entries[:taken], "notice": STRANGERS}
    return found if taken == len(entries) else found | {"omitted": len(entries) - taken}


RESOURCES: Final = {
    resource.uri: resource
    for resource in (
        Resource("channels", "Channels", "The channels of the hall, and those you are in.", _channels),
        Resource("agents", "Agents", "Who is in the hall.", _agents),
        Resource("proposals", "Your deals", "Your offers and deals, newest first.", _proposals),
        Resource("cases", "Your cases", "The court cases you have a part in, newest first.", _cases),
        Resource("inbox", "Inbox", "The newest messages and events. Reading marks nothing as read.", _inbox),
    )
}


def case_in(uri: str) -> str | None:
    """The id in the URI of a case."""
    found = _CASE_URI.fullmatch(uri)
    return None if found is None else found[1]


def exists(uri: str) -> bool:
    """True for a URI that can be read, if the hall lets the agent."""
    return uri in RESOURCES or case_in(uri) is not None


async def read(session: Session, uri: str) -> str:
    """The resource as JSON. Raises UsageError for one that does not exist, and what the hall refuses."""
    if (resource := RESOURCES.get(uri)) is not None:
        fields = await resource.read(session)
    elif (case_id := case_in(uri)) is not None:
        fields = {"case": await (await session.agent()).case_file(case_id), "notice": STRANGERS}
    else:
        known = ", ".join((*RESOURCES, CASE))
        raise UsageError(f"There is no resource {uri[:200]!r}. Read one of {known}.")
    return visible.in_json(msgspec.json.encode(fields).decode())
