"""Nodes of two versions are one hall during an upgrade: messages keep their fields, and new ones come last."""

from typing import get_args

import msgspec
import pytest

from moothall.hall.cluster import (
    addresses,
    claims,
    directory,
    events,
    log,
    moves,
    ownership,
    remote,
    roster,
    topics,
)
from moothall.wire.bus import BusMessage

# As they were in the first version. Nothing here ever changes; a message that is new is added.
FIRST = {
    "agent-deliver": ["ids", "frames", "awaits"],
    "agent-deliver-line": ["ids", "text", "awaits"],
    "agent-deliver-packet": ["id", "packet"],
    "agent-close": ["id", "code", "reason"],
    "agent-ask-written": ["id", "number"],
    "agent-is-written": ["number", "is_written"],
    "agent-backlog": ["id", "unread"],
    "agent-grant-verified": ["id", "verified"],
    "agents-maintain": ["motd"],
    "agents-banned": ["ban"],
    "agent-ask-passed": ["id", "number", "asker", "moves"],
    "agent-is-passed": ["number"],
    "agent-pass-on": ["id", "ref", "text"],
    "id-displace": ["id", "claim", "new_ip"],
    "id-released": ["id", "claim", "rates", "debts"],
    "roster-present": ["serial", "agent"],
    "roster-departed": ["serial", "id", "arrival", "rates", "debts"],
    "roster-new-key": ["ip"],
    "roster-serial": ["serial"],
    "roster-knows-you": [],
    "roster-want": [],
    "roster-list": ["serial", "part", "parts", "agents"],
    "address-loads": ["loads"],
    "address-wrong-key": ["ip"],
    "floor-lapse": ["id", "address", "age"],
    "topics-heard": ["topics", "hears_all", "asks", "listeners", "is_bridge"],
    "topics-changed": ["heard", "unheard", "listeners"],
    "topic-envelope": ["topic", "envelope", "author"],
    "channel-counts": ["members"],
    "channel-submit": ["channel", "epoch", "serial", "mark", "body"],
    "channel-expect": ["channel", "epoch", "serial"],
    "channel-answer": ["channel", "mark", "body"],
    "channel-happened": ["channel", "epoch", "record"],
    "channel-tip": ["channel", "epoch", "number"],
    "channel-follow": ["channel", "epoch", "last_epoch", "number", "own", "apart"],
    "channel-unfollow": ["channel"],
    "channel-missed": ["channel", "epoch", "records", "taken", "ends"],
    "channel-snapshot": ["channel", "epoch", "number", "marks", "state", "taken", "ends"],
    "channel-lend": ["channel", "epoch", "last_epoch", "number", "apart"],
    "channel-lent": ["channel", "epoch", "last_epoch", "number", "records", "marks", "state", "ends"],
}
FIRST_RECORD = [
    *("node", "life", "arrival", "id", "name", "key", "claimed_key", "kind", "via"),
    *("presence", "status_text", "budget", "verified", "granted", "lurking", "takes_receipts"),
    *("ip", "counted", "user_agent", "connected_at", "takeover_delay", "claim", "identity"),
]
# What is in the log of a channel, or submitted to it, by tag.
FIRST_EVENTS = {
    "said": ["text", "author", "has_echo", "by_agent", "asks"],
    "told": ["frames", "but"],
    "entered": ["agent"],
    "left": ["id"],
    "invited": ["id"],
    "shown": ["id", "ref", "arrival"],
    "replied": ["id", "frames", "arrival"],
    "unsaid": [],
    "claimed": ["msg_id", "holder", "started_at", "is_human", "address", "age"],
    "unclaimed": ["msg_id"],
    "missing": ["reason"],
    "ordered": ["agent", "ref", "text"],
    "say": ["id", "text", "asks"],
    "announce": ["text", "buffered"],
    "arrive": ["agent", "is_visitor"],
    "depart": ["id", "is_visitor", "is_named", "arrival"],
    "discard": [],
    "swarm": ["node", "text", "packet", "told"],
}
# What has no tag, because the message or its field says what it is.
FIRST_PARTS: dict[type[msgspec.Struct], list[str]] = {
    log.Record: ["number", "mark", "body"],
    events.Answered: ["code", "message", "frames"],
    events.Own: ["members", "claims"],
    events.State: ["members", "invited", "lines", "claims"],
}
EVENTS: dict[str, type[msgspec.Struct]] = {
    str(each.__struct_config__.tag): each for each in (*get_args(events.Event), *get_args(events.Submission))
}
MESSAGES: dict[str, type[BusMessage]] = {
    each.KIND: each
    for module in (addresses, claims, directory, log, moves, ownership, remote, roster, topics)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, BusMessage) and each is not BusMessage
}


def assert_extended(struct: type[msgspec.Struct], first: list[str]) -> None:
    fields = msgspec.structs.fields(struct)
    assert [field.name for field in fields][: len(first)] == first
    assert all(not field.required for field in fields[len(first) :])


def test_every_message_is_listed() -> None:
    assert MESSAGES.keys() == FIRST.keys()


@pytest.mark.parametrize("kind", FIRST)
def test_a_message_has_the_fields_that_it_had(kind: str) -> None:
    assert_extended(MESSAGES[kind], FIRST[kind])


def test_every_event_is_listed() -> None:
    assert EVENTS.keys() == FIRST_EVENTS.keys()


@pytest.mark.parametrize("tag", FIRST_EVENTS)
def test_an_event_has_the_fields_that_it_had(tag: str) -> None:
    assert_extended(EVENTS[tag], FIRST_EVENTS[tag])


def test_a_record_of_an_agent_has_the_fields_that_it_had() -> None:
    assert_extended(remote.AgentRecord, FIRST_RECORD)


@pytest.mark.parametrize("part", FIRST_PARTS)
def test_a_part_without_a_tag_has_the_fields_that_it_had(part: type[msgspec.Struct]) -> None:
    assert_extended(part, FIRST_PARTS[part])
    assert part.__struct_config__.tag is None
