"""Messages on their way out: each wire encodes one once, however many connections get it."""

import json

from moothall.wire.agentchat.codec import framed
from moothall.wire.agentchat.server import Chat, Pong, ServerMessage
from moothall.wire.outgoing import Bundle, Outgoing
from tests.support.world import texts

LINE = Chat("@a", "a", "#general", "hello", ts=1)


def test_all_connections_get_the_same_frame() -> None:
    outgoing = Outgoing(LINE)
    assert framed(outgoing) is framed(outgoing) is outgoing.frame
    (text,) = texts(framed(outgoing))
    assert json.loads(text) == {
        "type": "MSG",
        "ts": 1,
        "from": "@a",
        "from_name": "a",
        "to": "#general",
        "content": "hello",
    }


def test_an_answer_carries_the_ref_of_its_command() -> None:
    (text,) = texts(framed(Outgoing(Pong(ts=1), "r1")))
    assert json.loads(text) == {"type": "PONG", "ts": 1, "ref": "r1"}


def test_another_wire_encodes_once_and_for_itself() -> None:
    calls: list[ServerMessage] = []

    def shout(message: ServerMessage) -> str:
        calls.append(message)
        return "HELLO"

    def whisper(message: ServerMessage) -> None:
        calls.append(message)

    outgoing = Outgoing(LINE)
    assert [outgoing.encoded(shout) for _ in range(3)] == ["HELLO"] * 3
    assert [outgoing.encoded(whisper) for _ in range(3)] == [None] * 3
    assert calls == [LINE, LINE]
    assert outgoing.frame is None


def test_a_bundle_is_one_piece_in_order() -> None:
    parts = [Outgoing(LINE), Outgoing(Pong(ts=2))]
    bundle = Bundle(parts)
    assert framed(bundle) is framed(bundle)
    assert framed(bundle) == framed(parts[0]) + framed(parts[1])


def test_a_replay_says_that_it_is_one() -> None:
    replay = [json.loads(text) for text in texts(framed(Bundle([Outgoing(LINE)] * 2, is_replay=True)))]
    assert [(line["content"], line["replay"]) for line in replay] == [("hello", True)] * 2


def test_an_answer_shares_its_text_with_what_others_get() -> None:
    outgoing = Outgoing(LINE)
    answer = outgoing.answering("r1")
    (told,), (answered,) = texts(framed(outgoing)), texts(framed(answer))
    assert json.loads(answered) == {**json.loads(told), "ref": "r1"}
    assert outgoing.text == told
    assert answer.text is None
