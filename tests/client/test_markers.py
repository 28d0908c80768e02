"""Markers in a text: found, taken out, and left alone where they are quoted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall import Agent, InvalidMessage, Message
from moothall.client.markers import Ctrl, Marker, Mem, Mood, Sleep, Wake, strip
from moothall.hall.callbacks import extract
from tests.client.meeting import Heard, listen

MARKERS: dict[str, Marker] = {
    "@@joy:0.6@@": Mood("joy", 0.6),
    "@@Calm_ish:1@@": Mood("Calm_ish", 1.0),
    "@@fear:0@@": Mood("fear", 0.0),
    "@@sleep:30s@@": Sleep(30.0, "buffer"),
    "@@sleep:0.5s:buffer@@": Sleep(0.5, "buffer"),
    "@@sleep:30s:drop@@": Sleep(30.0, "drop"),
    "@@wake@@": Wake(),
    "@@mem:3@@": Mem(3),
    "@@ctrl:model=small@@": Ctrl("model", "small"),
    "@@ctrl:a.b-c_d=x @ y = z@@": Ctrl("a.b-c_d", "x @ y = z"),
    "@@ctrl:empty=@@": Ctrl("empty", ""),
}
TEXTS = [
    "@@joy@@",
    "@@joy:2@@",
    "@@joy:0.6",
    "@@joy:-0.1@@",
    "@@joy:nan@@",
    "@@ joy:0.6@@",
    "@@sleep:30@@",
    "@@sleep:1@@",
    "@@sleep:30s:later@@",
    "@@sleep:s@@",
    "@@WAKE@@",
    "@@wake:1@@",
    "@@mem:x@@",
    "@@mem:1@",
    "@@ctrl:x@@",
    "@@ctrl:=x@@",
    "@@ctrl:a=b\n@@",
    "@@cb:600@@no s",
    "@@cb:0.5@@",
    "@@\u0661:0.5@@",
    "mail me@@home",
    "@@@@",
    "",
]


@pytest.mark.parametrize("written", MARKERS)
def test_markers_are_taken_out_and_told(written: str) -> None:
    assert strip(f"before {written} after") == ("before after", (MARKERS[written],))
    assert strip(written) == ("", (MARKERS[written],))


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_not_exactly_a_marker_is_text(text: str) -> None:
    assert strip(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Good morning! @@joy:0.6@@ @@wake@@", "Good morning!"),
        ("@@joy:0.6@@ Good morning!", "Good morning!"),
        ("a@@wake@@b", "ab"),
        ("a @@wake@@b", "a b"),
        ("a@@wake@@ b", "a b"),
        ("a @@wake@@@@mem:1@@ b", "a b"),
        ("a @@wake@@, b", "a , b"),
        ("one\n@@wake@@\ntwo", "one\ntwo"),
        ("one\n  @@wake@@ @@mem:1@@  \ntwo", "one\ntwo"),
        ("one\n@@wake@@\n@@mem:1@@\ntwo", "one\ntwo"),
        ("one\r\n@@wake@@\r\ntwo", "one\r\ntwo"),
        ("one\n\n@@wake@@", "one"),
        ("@@wake@@\n\none", "one"),
        ("one @@wake@@\ntwo", "one\ntwo"),
        ("- one\n  @@wake@@ two", "- one\n  two"),
        (" \t@@wake@@ \n ", ""),
        ("  two  spaces  @@wake@@", "  two  spaces"),
    ],
)
def test_the_rest_reads_as_if_there_had_been_none(text: str, rest: str) -> None:
    assert strip(text).text == rest


@pytest.mark.parametrize(
    "text",
    [
        "write `@@wake@@` to wake up",
        "write ``a ` @@wake@@`` to wake up",
        "`one\n@@wake@@ two`",
        "```\n@@wake@@\n```",
        "```python\n@@wake@@\n``\n@@wake@@\n```",
        "~~~~\n@@wake@@\n~~~\n```\n@@wake@@\n~~~~~",
        "text\n   ```\n@@wake@@",
        "- ```\n  @@wake@@\n  ```",
        "10. item\n    ```\n    a\n\n    @@wake@@\n    ```",
        "```\n- ```\n@@wake@@",
        "> @@wake@@ they said",
        "  > > @@wake@@",
        'write "@@wake@@" to wake up',
        'he said "well, @@wake@@ then"',
        "write \u201c@@wake@@\u201d, or \u00ab@@wake@@\u00bb",
        "write '@@wake@@'",
        "write \u2018@@wake@@\u2019",
        '{"content": "@@wake@@"}',
    ],
)
def test_what_is_code_or_quoted_is_left_alone(text: str) -> None:
    assert strip(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("a ` b @@wake@@", "a ` b"),
        ("`a`` b @@wake@@", "`a`` b"),
        ("`code` @@wake@@ `code`", "`code` `code`"),
        ("```\ncode\n```\n@@wake@@", "```\ncode\n```"),
        ("```a``` @@wake@@", "```a```"),
        ("`a\n\n@@wake@@ b`", "`a\n\nb`"),
        ('5" of snow @@wake@@', '5" of snow'),
        ('a "quote" @@wake@@ and "another"', 'a "quote" and "another"'),
        ('one "\n@@wake@@\ntwo "', 'one "\ntwo "'),
        ("don't @@wake@@ can't", "don't can't"),
        ("a > b @@wake@@", "a > b"),
        ("> quoted\n@@wake@@ said", "> quoted\nsaid"),
        ("`@@ctrl:a=` @@wake@@", "`@@ctrl:a=`"),
    ],
)
def test_what_only_looks_like_code_or_a_quote(text: str, rest: str) -> None:
    assert strip(text) == (rest, (Wake(),))


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("@@jo@@wake@@y:0.5@@", "@@jo y:0.5@@"),
        ("@@@wake@@@wake@@", "@ @wake@@"),
        ("@@c@@wake@@b:5s@@later", "@@c b:5s@@later"),
        ("@@\nwo@@wake@@rd", "@@\nword"),
    ],
)
def test_both_sides_of_a_marker_do_not_make_another_one(text: str, rest: str) -> None:
    assert strip(text) == (rest, (Wake(),))


@pytest.mark.parametrize("opener", ["\u201c", "\u00ab", "`" * 3])
def test_a_long_text_of_quotes_that_are_never_closed(opener: str) -> None:
    """The time is that of the length; the square of it would be minutes here."""
    text = f"{opener}@@wake@@\n" + f"x{opener}" * 200_000
    assert strip(text.replace("\n", "")).markers == (Wake(),) * ("`" not in opener)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("@@cb:5s@@look @@wake@@ again", "@@cb:5s@@look @@wake@@ again"),
        ("@@joy:1@@ hi @@cb:5s#ops@@look @@joy:1@@", "hi @@cb:5s#ops@@look @@joy:1@@"),
        ("@@cb:5s@@a @@cb:600@@ b @@wake@@", "@@cb:5s@@a @@cb:600@@ b"),
    ],
)
def test_callbacks_pass_with_their_payloads(text: str, rest: str) -> None:
    assert strip(text).text == rest
    assert extract(rest, "abc").callbacks == extract(text, "abc").callbacks


OTHERS = ["``", "```", "\n```\n", "~~~\n", "\n\n", "\r\n", "> ", "word", "@@cb:5s@@", "@@cb:5s#ops@@"]
PIECES = st.sampled_from([*MARKERS, *TEXTS, *OTHERS, *"`\"'@ \t\n\u201c\u201d\u2028\ud800"])
ANYTHING = st.text() | st.lists(PIECES, max_size=30).map("".join)


@given(ANYTHING)
def test_any_text_is_stripped_without_an_error(text: str) -> None:
    found = strip(text)
    assert len(found.text) <= len(text)
    if not found.markers:
        assert found.text == text
    assert extract(found.text, "abc").callbacks == extract(text, "abc").callbacks


@given(ANYTHING)
def test_nothing_but_markers_and_blanks_is_taken_out(text: str) -> None:
    found = strip(text)
    letters = [letter for letter in found.text if not letter.isspace()]
    rest = iter(text)
    assert all(letter in rest for letter in letters)  # in the same order


@given(ANYTHING)
def test_code_keeps_its_markers(text: str) -> None:
    fenced = "\n".join(["~~~~~~~~", text.replace("~", "-"), "~~~~~~~~"])
    assert strip(fenced) == (fenced, ())
    quoted = "\n".join("> " + line for line in text.splitlines())
    assert strip(quoted) == (quoted, ())


# -- in what an agent says --------------------------------------------------------------------------------


async def test_an_agent_says_no_markers_and_its_program_gets_them(url: str) -> None:
    alice, bob = Agent("alice", channels="general"), Agent("bob")
    markers: Heard[Marker] = Heard()
    alice.on_marker(markers)
    heard = listen(bob, "general")
    async with alice.connected(url), bob.connected(url):
        assert await alice.send("general", "@@wake@@") is None
        assert await alice.send("general", "good night @@sleep:30s:drop@@") is not None
        assert (await heard.next()).content == "good night"
        assert [await markers.next(), await markers.next()] == [Wake(), Sleep(30.0, "drop")]
        with pytest.raises(InvalidMessage, match="only markers"):
            await alice.send("general", "@@wake@@", receipt=True)


@pytest.mark.parametrize(("markers", "human"), [(False, False), (True, True)])
async def test_markers_can_be_left_in(url: str, markers: bool, human: bool) -> None:
    alice, bob = Agent("alice", channels="general", markers=markers, human=human), Agent("bob")
    heard = listen(bob, "general")
    async with alice.connected(url), bob.connected(url):
        await alice.send("general", "@@wake@@")
        assert (await heard.next()).content == "@@wake@@"


async def test_callbacks_reach_the_hall(url: str) -> None:
    alice = Agent("alice", channels="general")
    fired: Heard[Message] = Heard()
    alice.on_server_message(fired)
    async with alice.connected(url):
        await alice.send("general", "@@joy:1@@@@cb:0s@@@@joy:1@@ look")
        assert (await fired.next()).content == "@@cb-fire@@@@joy:1@@ look"
