"""Who is in the hall: found by id, key and name, whatever came and went before."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.roster import LocalRoster, Present, Roster
from moothall.hall.session import HERE, Agent, Session
from moothall.identity import PrivateKey
from tests.support.world import FakeLink

KEYS = tuple(PrivateKey(bytes([number]) * 32).public for number in range(3))
NAMES = ("ann", "Ann", "bob")
IDS = ("one", "two", "three")


class Line:
    """A connection of another wire."""

    is_gone = False

    def put(self, outgoing: object) -> None: ...

    def when_written(self, told: object) -> None: ...


def agent(agent_id: str, name: str = "ann", key: int | None = None, claimed: int | None = None) -> Agent:
    session = Session(FakeLink(), "192.0.2.1", "test", 0.0, None)
    made = Agent(session, agent_id, name, None if key is None else KEYS[key], None)
    made.claimed_key = None if claimed is None else KEYS[claimed]
    return made


def test_an_agent_is_found_by_id_key_and_name() -> None:
    local = LocalRoster()
    ann = agent("one", "Ann", key=0)
    local.add(ann)
    roster: Roster = local  # as other rooms see it
    found: Present | None = roster.get("one")
    assert found is ann
    assert roster.find("one") is ann
    assert roster.holder(KEYS[0].raw) is ann
    assert list(roster.named("aNN")) == [ann]
    assert list(roster.everyone()) == [ann]
    assert len(roster) == 1
    assert ann.node == HERE


def test_a_claimed_key_has_bearers_and_no_holder() -> None:
    roster = LocalRoster()
    bearers = [agent("one", claimed=0), agent("two", claimed=0)]
    for each in bearers:
        roster.add(each)
    assert roster.holder(KEYS[0].raw) is None
    assert list(roster.bearers(KEYS[0].raw)) == bearers
    roster.remove(bearers[0])
    assert list(roster.bearers(KEYS[0].raw)) == bearers[1:]


def test_an_agent_whose_connection_has_ended_cannot_be_told_anything() -> None:
    roster, line = LocalRoster(), Line()
    ann = agent("one")
    ann.relay = line
    roster.add(ann)
    assert roster.find("one") is ann
    line.is_gone = True
    assert roster.find("one") is None
    assert roster.get("one") is ann


def test_local_is_an_agent_of_the_same_machine() -> None:
    roster = LocalRoster()
    near, far = agent("one", key=0), agent("two", key=1)
    far.session.counted = True
    roster.add(near)
    roster.add(far)
    assert roster.is_local(KEYS[0].raw)
    assert not roster.is_local(KEYS[1].raw)
    assert not roster.is_local(KEYS[2].raw)


def test_listeners_hear_of_arrivals_departures_and_presence() -> None:
    roster = LocalRoster()
    heard: list[tuple[str, str]] = []

    def arrival(ann: Present) -> None:
        heard.append(("came", ann.id))

    roster.on_arrival(arrival)
    roster.on_departure(lambda ann: heard.append(("goes", ann.id)))
    roster.on_presence(lambda ann: heard.append(("is", ann.presence)))
    ann = agent("one")
    roster.arrived(ann)
    roster.presence_changed(ann)
    roster.departing(ann)
    roster.off_arrival(arrival)
    roster.arrived(ann)
    assert heard == [("came", "one"), ("is", "online"), ("goes", "one")]


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "rename", "ask"]),
        st.sampled_from(range(len(IDS))),
        st.sampled_from(NAMES),
    ),
    max_size=30,
)


@given(steps)
def test_it_forgets_what_left_and_nothing_else(steps: list[tuple[str, int, str]]) -> None:
    """The agent of each id has the key of the same number; the last one that was added under an id has it."""
    roster = LocalRoster()
    present: dict[str, Agent] = {}
    replaced: list[Agent] = []
    for step, number, name in steps:
        held = present.get(IDS[number])
        if step == "add" and held is None:
            made = present[IDS[number]] = agent(IDS[number], name, key=number)
            roster.add(made)
        elif step == "rename" and held is not None:
            roster.rename(held, name)
        elif step == "remove" and held is not None:
            roster.remove(held)
            replaced.append(present.pop(held.id))
        elif step == "ask":
            assert all(each is present[each.id] for each in roster.named(name))
        for gone in replaced:
            roster.remove(gone)  # a second time, when another may have its id
    assert list(roster.everyone()) == list(present.values())
    for number, key in enumerate(KEYS):
        assert roster.holder(key.raw) is present.get(IDS[number])
    for name in NAMES:
        expected = [each for each in present.values() if each.name.lower() == name.lower()]
        assert sorted(each.id for each in roster.named(name)) == sorted(each.id for each in expected)
    assert roster._by_name is not None
    assert not any(not group for group in roster._by_name.values())
