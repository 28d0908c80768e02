"""Which of the things that are said is the answer to a question."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.client.events import Departure
from moothall.client.message import Message
from moothall.client.question import CLAIM, DEPARTURE, GRANTED, MAX_EARLY, MESSAGE, RELEASE, Question
from moothall.wire.agentchat.server import Chat

ID = "1-a"
ME = ("1a2b3c4d", "asker")


def said(content: str = "hm", by: str = "@bob", **changes: Any) -> Message:
    fields: dict[str, Any] = {"ts": 1, "from_": by, "from_name": by[1:], "to": "#general", "msg_id": "2-b"}
    return Message(Chat(content=content, **{**fields, **changes}), b"{}", None)  # type: ignore[arg-type]


def frame(agent: str = "@bob", *, field: str = "from", **changes: Any) -> dict[str, Any]:
    return {"msg_id": ID, "channel": "#general", field: agent, **changes}


def granted(agent: str = "@bob", **changes: Any) -> dict[str, Any]:
    return frame(agent, field="holder", **changes)


def asked(place: str = "#general", msg_id: str | None = ID) -> Question:
    question = Question(place, ME)
    question.sent(msg_id)
    return question


def answered(question: Question, *events: tuple[str, Any]) -> str | None:
    for event, what in events:
        question.hear(event, what)
    return question.answer.content if question.answer is not None else None


def test_a_reply_to_the_question() -> None:
    assert answered(asked(), (MESSAGE, said("yes", in_reply_to=ID))) == "yes"


@pytest.mark.parametrize(
    "other",
    [
        said(in_reply_to="9-z"),
        said(by="@server", in_reply_to=ID),
        said(to="#other", in_reply_to=ID),
        said(to="@1a2b3c4d"),
        said(),
    ],
)
def test_what_is_not_the_answer(other: Message) -> None:
    assert answered(asked(), (MESSAGE, other)) is None


def test_the_next_message_of_the_floor_holder() -> None:
    question = asked()
    assert answered(question, (MESSAGE, said("before the claim")), (GRANTED, granted())) is None
    assert question.claimants == ["@bob"]
    assert answered(question, (MESSAGE, said("of another", by="@eve"))) is None
    assert answered(question, (MESSAGE, said("to another", in_reply_to="9-z"))) is None
    assert answered(question, (MESSAGE, said("yes"))) == "yes"


def test_of_two_claims_the_one_that_the_hall_granted_last() -> None:
    question = asked()
    answered(question, (CLAIM, frame("@eve")), (GRANTED, granted("@eve")), (GRANTED, granted("@bob")))
    assert question.claimants == ["@bob"]
    assert answered(question, (MESSAGE, said("no", by="@eve")), (MESSAGE, said("yes"))) == "yes"


def test_every_claimant_where_the_hall_does_not_decide() -> None:
    question = asked()
    answered(question, (CLAIM, frame("@eve")), (CLAIM, frame("@bob")))
    assert question.claimants == ["@bob", "@eve"]
    assert answered(question, (MESSAGE, said("yes"))) == "yes"


@pytest.mark.parametrize(
    "other",
    [
        granted(msg_id="9-z"),
        granted(channel="#other"),
        {"msg_id": ID, "channel": "#general"},
        granted(holder=5),
        {},
    ],
)
def test_claims_that_are_not_about_the_question(other: dict[str, Any]) -> None:
    question = asked()
    assert answered(question, (GRANTED, other), (MESSAGE, said())) is None
    assert question.claimants == []


@pytest.mark.parametrize("end", [(RELEASE, frame()), (DEPARTURE, Departure("#general", "@bob", None))])
def test_a_claim_that_has_ended(end: tuple[str, Any]) -> None:
    question = asked()
    assert answered(question, (GRANTED, granted()), (CLAIM, frame()), end, (MESSAGE, said())) is None
    assert question.claimants == []


def test_an_agent_that_leaves_another_channel_goes_on() -> None:
    elsewhere = (DEPARTURE, Departure("#other", "@bob", None))
    assert answered(asked(), (GRANTED, granted()), elsewhere, (MESSAGE, said("yes"))) == "yes"


@pytest.mark.parametrize("name", ME)
def test_a_message_that_mentions_the_asker(name: str) -> None:
    assert answered(asked(), (MESSAGE, said(f"@{name} yes"))) == f"@{name} yes"


def test_in_a_direct_conversation_it_is_the_next_message_of_the_peer() -> None:
    question = asked("@bob")
    others = [
        said("elsewhere"),
        said("of another", by="@eve", to="@1a2b3c4d"),
        said(by="@server", to="@1a2b3c4d"),
    ]
    assert answered(question, *((MESSAGE, other) for other in others)) is None
    assert answered(question, (MESSAGE, said("to another", to="@1a2b3c4d", in_reply_to="9-z"))) is None
    assert answered(question, (MESSAGE, said("yes", to="@1a2b3c4d"))) == "yes"


@pytest.mark.parametrize("place", ["#general", "@bob"])
def test_what_comes_before_the_id_of_the_question_counts(place: str) -> None:
    question = Question(place, ME)
    to = "#general" if place == "#general" else "@1a2b3c4d"
    assert answered(question, (MESSAGE, said("quick", to=to, in_reply_to=ID))) is None
    question.sent(ID)
    assert answered(question) == "quick"


def test_what_comes_before_the_id_of_the_question_is_bounded() -> None:
    question = Question("#general", ME)
    for _ in range(2 * MAX_EARLY):
        question.hear(MESSAGE, said())
    assert len(question._early) == MAX_EARLY


# -- guesses ---------------------------------------------------------------------------------------------


def test_a_plain_message_is_a_guess() -> None:
    question = asked()
    assert answered(question, (MESSAGE, said("first")), (MESSAGE, said("second"))) is None
    question.take_guesses()
    assert answered(question) == "first"


def test_after_a_while_the_first_plain_message_is_taken() -> None:
    question = asked(msg_id=None)
    question.take_guesses()
    assert answered(question, (MESSAGE, said(by="@server")), (MESSAGE, said("yes"))) == "yes"


def test_a_guess_waits_for_an_agent_that_claimed_the_question() -> None:
    question = asked()
    answered(question, (MESSAGE, said("guess", by="@eve")), (GRANTED, granted()))
    question.take_guesses()
    assert answered(question) is None
    assert answered(question, (RELEASE, frame())) == "guess"


# -- whatever happens --------------------------------------------------------------------------------------

agents = st.sampled_from(["@bob", "@eve", "@server", "@1a2b3c4d"])
places = st.sampled_from(["#general", "#other", "@1a2b3c4d"])
replies = st.sampled_from([None, ID, "9-z"])
events = st.one_of(
    st.builds(
        lambda by, to, reply: (MESSAGE, said(by=by, to=to, in_reply_to=reply)), agents, places, replies
    ),
    st.builds(lambda agent: (GRANTED, granted(agent)), agents),
    st.builds(lambda agent: (CLAIM, frame(agent)), agents),
    st.builds(lambda agent: (RELEASE, frame(agent)), agents),
    st.builds(lambda agent, place: (DEPARTURE, Departure(place, agent, None)), agents, places),
    st.builds(lambda value: (GRANTED, value), st.dictionaries(st.text(), st.integers() | st.text())),
)


@given(st.sampled_from(["#general", "@bob"]), st.lists(events), st.integers(0, 5), st.booleans())
def test_the_answer_is_never_of_the_server_nor_elsewhere(
    place: str, happens: list[tuple[str, Any]], early: int, guesses: bool
) -> None:
    question = Question(place, ME)
    for number, (event, what) in enumerate(happens):
        if number == early:
            question.sent(ID)
            if guesses:
                question.take_guesses()
        question.hear(event, what)
    if question.answer is not None:
        assert question.answer.sender != "@server"
        assert question.answer.in_reply_to in (None, ID)
        assert question.answer.reply_to == place
