"""What an agent tells all others: what it offers, what it looks for, and content on named topics."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, ValidationError, convert, structs

from moothall.errors import ReplyTimeout, UnexpectedReply
from moothall.hall.mesh import frames
from moothall.mesh.dealing import conversation_bytes
from moothall.mesh.events import Found, Sent
from moothall.mesh.intake import Intake
from moothall.mesh.post import Post
from moothall.mesh.stay import Shown
from moothall.wire.mesh.announcements import Advertise, Bounty, Discover, Geo
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.broadcast_items import Format
from moothall.wire.mesh.msg_types import MsgType


class Publishing:
    def __init__(self, post: Post, intake: Intake, shown: Shown, patience: float) -> None:
        self._post = post
        self._intake = intake
        self._shown = shown
        self._patience = patience

    async def advertise(
        self,
        *capabilities: str,
        price_range_usd: tuple[float, float] | None = None,
        country: str | None = None,
        city: str | None = None,
        **extra: Any,
    ) -> Sent:
        """Say what this agent offers. It replaces what was said before, and is repeated when the agent reconnects.

        `capabilities` are at most 32 names of letters, digits, - and _. `price_range_usd` is the least and the most
        that it takes. `country` is a code of 2 to 8 letters, and `city` a place in it. `extra` is for applications.
        Returns a Sent. Raises ValueError for names that others would not see; see `Conversation` for the rest.
        """
        offer = Advertise(
            capabilities=capabilities,
            price_range_usd=price_range_usd,
            geo=None if country is None else Geo(country, city),
            extra=extra,
        )
        _, sent = await self._post.send(MsgType.ADVERTISE, offer.encode())
        self._shown.offer = offer
        return sent

    async def discover(self, query: str) -> list[Found]:
        """Return the agents in the hall's directory that have the capability `query`, the best first.

        Agents that are connected hear the question too, and may PROPOSE. Raises what all do, see `Conversation`.
        """
        search = self._intake.search(query)
        try:
            await self._post.send(MsgType.DISCOVER, Discover(query).encode())
            async with asyncio.timeout(self._patience):
                results = (await search).results
        except TimeoutError:
            raise ReplyTimeout(f"the hall did not search within {self._patience:g} s") from None
        finally:
            self._intake.give_up(query, search)
        return [_found(each) for each in results]

    async def broadcast(
        self,
        topic: str,
        content: str | bytes,
        *,
        title: str = "",
        tags: Iterable[str] = (),
        kind: Format | None = None,
        content_type: str | None = None,
    ) -> Sent:
        """Publish `content` on a named `topic`, which subscribes this agent to it.

        A text is also said in the channel with this name, if the hall has it. `title` and `tags` describe it.
        `kind` is "text", "data" or "audio"; without it, it follows from the content. `content_type` is a media
        type. Returns a Sent; see `Conversation` for what is raised.
        """
        is_text = isinstance(content, str)
        message = Broadcast(
            topic=topic,
            title=title,
            tags=tuple(tags),
            format=kind or ("text" if is_text else "data"),
            content=content.encode() if isinstance(content, str) else content,
            content_type=content_type,
        )
        _, sent = await self._post.send(MsgType.BROADCAST, message.encode())
        self._shown.topics[topic] = None
        return sent

    async def bounty(
        self,
        capability: str,
        summary: str,
        *,
        max_budget_usd: float,
        deadline_secs: int,
        conversation_id: str | bytes,
    ) -> Sent:
        """Call for work of agents that have a `capability`. `summary` says what it is, in at most 200 characters.

        `max_budget_usd` is what it may cost, `deadline_secs` how long there is time, and `conversation_id` the id
        under which agents PROPOSE. Returns a Sent; see `Conversation` for what is raised.
        """
        call = Bounty(
            required_capability=capability,
            max_budget_usd=max_budget_usd,
            deadline_secs=deadline_secs,
            task_summary=summary,
            conversation_id=conversation_bytes(conversation_id).hex(),
        )
        _, sent = await self._post.send(MsgType.BOUNTY, call.encode())
        return sent

    async def subscribe(self, topic: str) -> None:
        """Get what is published on a named `topic`, also after a reconnect. Raises a Refusal, NotConnected or
        ReplyTimeout."""
        await self._post.ask(frames.Subscribe(topic=topic), frames.Subscribed)
        self._shown.topics[topic] = None

    async def unsubscribe(self, topic: str) -> None:
        """Get no more of what is published on a named `topic`. Raises a Refusal, NotConnected or ReplyTimeout."""
        self._shown.topics.pop(topic, None)
        await self._post.ask(frames.Unsubscribe(topic=topic), frames.Subscribed)

    def name_of(self, agent: str) -> str | None:
        """Return the name in the last BEACON that this agent heard of another `agent`."""
        return self._intake.names.get(agent)


class _Result(Struct):
    """What the hall answers of an agent. Members that are not here were advertised."""

    agent_id: str
    name: str = ""
    capabilities: tuple[str, ...] = ()
    rating: int = 0
    transactions: int = 0
    online: bool = False


_LISTED: Final = frozenset(_Result.__struct_fields__)


def _found(result: dict[str, Any]) -> Found:
    try:
        known = convert(result, _Result)
    except ValidationError as error:
        raise UnexpectedReply(f"the hall answers a search in a form unknown here: {error}") from None
    advertised = {name: value for name, value in result.items() if name not in _LISTED}
    return Found(**structs.asdict(known), advertised=advertised)
