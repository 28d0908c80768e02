"""Every tool has the name, the arguments and the result fields of the specification, and a whole description."""

import re
from typing import Any

import pytest

from moothall.tools.table import Arguments, Hints, Result, Tool, collected, schema_of
from moothall.tools.toolbox import TOOLS

# Agentchat wire 19.1 and keep wire 13: arguments (`?` optional), and fields of the result.
SPECIFIED = """
agentchat_connect | name? identity_path? channels? | success agent_id server persistent identity_path marketplace
agentchat_send | target message in_reply_to? | success target message from
agentchat_listen | channels? tail? timeout? since? mentions_only? max_tokens? | messages from_inbox elapsed_ms
agentchat_channels | | channels joined
agentchat_leave | channel | success left remaining
agentchat_create_channel | channel invite_only? | success channel agents
agentchat_nick | nick | success nick agent_id
agentchat_claim | msg_id channel | success msg_id channel started_at agent_id granted
agentchat_set_presence | status_text | success status_text
agentchat_daemon_start | server_url channels? identity_path? instance? | success message
agentchat_daemon_stop | instance? | success message instance
agentchat_inbox | lines? instance? | messages total_lines returned_lines
agentchat_kick | target reason? | success action target
agentchat_ban | target reason? | success action target
agentchat_unban | target | success action target
agentchat_file_list_offers | | offers count
agentchat_file_receive | transfer_id save_directory? | success verified save_directory files total_size hash_match
agentchat_file_send | target paths | success transfer_id
agentchat_register_skills | skills | success agent_id skills_count registered_at
agentchat_search_skills | capability? max_rate? currency? limit? | results total query
agentchat_propose | to task amount? currency? expires? elo_stake? | success proposal_id from to task status
agentchat_accept | proposal_id elo_stake? | success proposal_id status accepted_by
agentchat_reject | proposal_id reason? | success proposal_id status reason
agentchat_complete | proposal_id proof? | success proposal_id status completed_by proof rating_changes
agentchat_dispute | proposal_id reason | success proposal_id status disputed_by reason
agentchat_get_rating | agent_id | agent_id rating transactions updated is_new
agentchat_leaderboard | limit? | leaderboard total_agents
agentchat_my_rating | | agent_id rating transactions updated is_new
agentchat_dispute_file | proposal_id reason | commitment nonce
agentchat_dispute_reveal | proposal_id nonce | success proposal_id
agentchat_evidence | dispute_id items statement | success dispute_id items_count
agentchat_arbiter_accept | dispute_id | success dispute_id
agentchat_arbiter_decline | dispute_id reason? | success dispute_id
agentchat_arbiter_vote | dispute_id verdict reasoning | success dispute_id verdict
agentchat_cases | dispute_id? | cases count
agentchat_proposals | open_only? | proposals count
agentchat_verify | agent_id | success agent_id verified
keep_send | dst body fee? ttl? scar? | result
keep_discover | query? | result
keep_discover_agents | | result
keep_listen | timeout? register_src? | result
keep_ensure_server | | result
"""
ROWS = [[cell.strip() for cell in line.split("|")] for line in SPECIFIED.strip().splitlines()]

LISTENED = {"settled", "timeout", "tail", "count", "omitted", "how_to_get_omitted", "notice"}

ENUMS = {
    ("agentchat_arbiter_vote", "verdict"): {"disputant", "respondent", "mutual"},
    ("agentchat_evidence", "kind"): {"commit", "message_log", "file", "screenshot", "attestation", "other"},
}
DEFAULTS = {
    ("agentchat_inbox", "lines"): 50,
    ("agentchat_leaderboard", "limit"): 10,
    ("agentchat_listen", "max_messages"): 50,
    ("agentchat_listen", "max_chars"): 32_000,
    ("keep_listen", "timeout"): 10,
    ("keep_send", "ttl"): 60,
    ("keep_send", "fee"): 0,
    ("keep_send", "scar"): "",
    ("keep_discover", "query"): "info",
}


def test_there_is_a_row_for_every_tool_and_a_tool_for_every_row() -> None:
    assert {name for name, _, _ in ROWS} == TOOLS.keys()
    assert sum(name.startswith("agentchat_") for name in TOOLS) == 33 + 4


@pytest.mark.parametrize(("name", "arguments", "fields"), ROWS, ids=[row[0] for row in ROWS])
def test_arguments_and_results_are_those_of_the_specification(name: str, arguments: str, fields: str) -> None:
    tool = TOOLS[name]
    given, answered = tool.input_schema["properties"], tool.output_schema["properties"]
    for word in arguments.split():
        assert word.rstrip("?") in given
    required = {word for word in arguments.split() if not word.endswith("?")}
    assert set(tool.input_schema.get("required", ())) == required
    assert tool.input_schema["additionalProperties"] is False
    assert set(fields.split()) <= answered.keys()


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_every_argument_has_a_type_a_description_and_bounds(tool: Tool[Any, Any]) -> None:
    def check(name: str, field: dict[str, Any]) -> None:
        if "$ref" in field or "enum" in field or field.get("type") == "boolean":
            return
        assert field["type"] in ("string", "integer", "number", "array"), name
        limits = {"maxLength", "maximum", "maxItems", "minimum", "exclusiveMinimum"}
        assert limits & field.keys(), f"{tool.name}: {name} has no bounds"
        if field["type"] == "array":
            check(f"{name}[]", field["items"])

    for name, field in tool.input_schema["properties"].items():
        assert field.get("description") or field.get("maxLength") == 64 or tool.name == "keep_send", name
        check(name, field)
    for part in tool.input_schema.get("$defs", {}).values():
        for name, field in part["properties"].items():
            check(name, field)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_every_tool_has_hints_and_says_what_it_is_for(tool: Tool[Any, Any]) -> None:
    assert re.fullmatch(r"[A-Z].{10,}\.", tool.purpose, re.DOTALL)
    assert re.fullmatch(r"[A-Z].{3,40}", tool.title)
    assert not (tool.hints.read_only and tool.hints.destructive)
    assert tool.output_schema["type"] == tool.input_schema["type"] == "object"


def test_what_cannot_be_undone_is_marked() -> None:
    destructive = {name for name, tool in TOOLS.items() if tool.hints.destructive}
    assert destructive == {
        "agentchat_ban",
        "agentchat_complete",
        "agentchat_daemon_stop",
        "agentchat_dispute",
        "agentchat_kick",
        "agentchat_reject",
    }


@pytest.mark.parametrize(("place", "words"), ENUMS.items(), ids=[".".join(place) for place in ENUMS])
def test_a_choice_is_an_enum(place: tuple[str, str], words: set[str]) -> None:
    schema = TOOLS[place[0]].input_schema
    shapes = [schema, *schema.get("$defs", {}).values()]
    (field,) = [shape["properties"][place[1]] for shape in shapes if place[1] in shape["properties"]]
    assert set(field["enum"]) == words


@pytest.mark.parametrize(("place", "value"), DEFAULTS.items(), ids=[".".join(place) for place in DEFAULTS])
def test_defaults_are_those_of_the_specification(place: tuple[str, str], value: object) -> None:
    assert TOOLS[place[0]].input_schema["properties"][place[1]]["default"] == value


def test_all_tools_together_leave_room_in_a_context() -> None:
    """They are in the model's context all the time: four characters are about a token."""
    import json

    size = sum(len(json.dumps([tool.purpose, tool.input_schema])) for tool in TOOLS.values())
    assert size < 40_000


class Count(Arguments):
    to: int
    step: int | None = None


class Counted(Result):
    last: int


async def count(call: object, asked: Count) -> Counted:
    return Counted(last=asked.to)


ROW = Tool("count", "Count", "Count up to a number.", Count, Counted, count, Hints())


def test_an_answer_of_listen_says_what_it_leaves_out() -> None:
    schema = TOOLS["agentchat_listen"].output_schema
    assert schema["properties"].keys() >= LISTENED
    item = schema["$defs"]["Item"]
    assert {"from", "from_name", "to", "content", "ts", "verified", "source"} <= set(item["required"])
    assert "cut" in item["properties"]


def test_two_tools_with_one_name_fail_at_import() -> None:
    with pytest.raises(TypeError, match="count"):
        collected((ROW,), (Tool("count", "Count", "Another.", Count, Counted, count, Hints()),))


def test_a_schema_says_nothing_twice() -> None:
    assert schema_of(Count) == {
        "type": "object",
        "properties": {"to": {"type": "integer"}, "step": {"type": "integer"}},
        "required": ["to"],
        "additionalProperties": False,
    }
