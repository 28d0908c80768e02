"""Whatever arrives in whatever order: every question gets its own answer, and nothing is lost or shown twice."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.keep.sorting import Sorting, asks_server, is_answer
from moothall.wire.keep.packet import Packet
from tests.keep.scripted import BEAT, forged, from_bob, reply

IDS = [f"q-{number}" for number in range(4)]
QUESTIONS = st.lists(
    st.builds(
        Packet, id=st.sampled_from(IDS), dst=st.sampled_from(["", "server", "discover:info", "bot:bob"])
    ),
    max_size=4,
    unique_by=lambda packet: packet.id,
)
ARRIVALS = st.lists(
    st.one_of(
        st.builds(lambda name: reply(Packet(id=name)), st.sampled_from([*IDS, "unknown", ""])),
        st.builds(lambda name: from_bob("hi", id=name), st.sampled_from([*IDS, "his own"])),
        st.just(BEAT),
        st.just(forged("lies")),
    ),
    max_size=12,
)


@given(QUESTIONS, ARRIVALS)
def test_everything_finds_its_place_once(questions: list[Packet], arrivals: list[Packet]) -> None:
    sorting = Sorting()
    answers: dict[str, list[Packet]] = {question.id: [] for question in questions}
    for question in questions:
        sorting.expect(question, answers[question.id].append)
    news = [packet for packet in arrivals if sorting.sort(packet) is not None]
    for question in questions:
        assert len(answers[question.id]) <= 1
        for answer in answers[question.id]:
            assert is_answer(answer, question)
            assert not (asks_server(question.dst) and answer.sig)
    placed = [*news, *(answer for found in answers.values() for answer in found)]
    wanted = [packet for packet in arrivals if packet is not BEAT and packet.body != "lies"]
    assert sorted(map(id, placed)) == sorted(map(id, wanted))
    assert sorting.is_waiting == any(not found for found in answers.values())


@given(QUESTIONS, ARRIVALS)
def test_what_was_given_up_is_answered_to_nobody(questions: list[Packet], arrivals: list[Packet]) -> None:
    sorting = Sorting()
    for question in questions:
        sorting.expect(question, lambda _: None)
        sorting.give_up(question)
    assert not sorting.is_waiting
    late = {question.id for question in questions if asks_server(question.dst)}
    for packet in arrivals:
        is_news = sorting.sort(packet) is not None
        if packet.id in late and not packet.sig:
            late.discard(packet.id)  # a server answers once
            assert not is_news
        else:
            assert is_news == (packet is not BEAT and packet.body != "lies")
