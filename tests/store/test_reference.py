"""A folder that the reference server wrote, taken over (agentchat wire 12.5, 12.7, 12.9, 14, 17.3)."""

import json
from hashlib import sha256
from typing import Any

import pytest

from moothall.errors import InvalidProposal, UsageError
from moothall.identity import PrivateKey
from moothall.market.books import Books
from moothall.market.records import SkillStanding, Standing
from tests.store.server import Server
from tests.store.support import ALICE, BOB, CAROL, DAVE, Place, full_deal, offered, propose, run

SKILL = {"capability": "review", "rate": 5, "currency": "ELO"}


def shown(agent: PrivateKey) -> str:
    return f"@{agent.public.fingerprint}"


RATINGS = {
    shown(ALICE): {
        "rating": 1316,
        "transactions": 42,
        "updated": "2026-01-02T03:04:05.678Z",
        "skills": {"review": {"rating": 1250, "transactions": 3, "updated": None}},
    },
    shown(BOB): {"rating": 1100, "transactions": 7, "updated": None},
}
RECEIPTS = [
    {
        "type": "COMPLETE",
        "proposal_id": f"prop_old_{number}",
        "from": shown(ALICE),
        "to": shown(partner),
        "stored_at": 1_767_000_000_000 + number,
    }
    for number, partner in enumerate([BOB, CAROL])
]
ALICE_IMPORTED = Standing(
    key=ALICE.public.raw,
    rating=1316,
    transactions=42,
    updated=1_767_323_045_678,
    skills={"review": SkillStanding(rating=1250, transactions=3)},
)


def leave(place: Place, name: str, content: Any) -> None:
    (place.directory.path / name).write_text(json.dumps(content, indent=2))


def leave_receipts(place: Place, *lines: str) -> None:
    (place.directory.path / "receipts.jsonl").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def folder(place: Place) -> Place:
    leave(place, "ratings.json", RATINGS)
    leave(place, "skills.json", {ALICE.public.fingerprint: registered(ALICE)})
    leave_receipts(place, *(json.dumps(receipt) for receipt in RECEIPTS))
    return place


def registered(agent: PrivateKey) -> dict[str, Any]:
    return {"agent_id": agent.public.fingerprint, "skills": [SKILL], "registered_at": 1000, "sig": "s"}


async def test_a_rating_waits_for_the_first_key_that_fits(folder: Place) -> None:
    async with folder.opened() as store:
        assert await run(store, lambda books: books.leaders(10)) == []
        assert await run(store, lambda books: books.standing(ALICE.public.raw)) == ALICE_IMPORTED
        assert await run(store, lambda books: books.standing(DAVE.public.raw)) == Standing(
            key=DAVE.public.raw
        )
        assert await run(store, lambda books: books.find_key(ALICE.public.agent_id())) == ALICE.public.raw
        registration = await run(store, lambda books: books.registration(ALICE.public.raw))
        assert registration is not None
        assert registration.skills == [SKILL]
        assert await run(store, offered) == [(ALICE.public.raw, SKILL)]
    assert folder.problems() == []
    assert folder.log.facts("reference_imported") == {"ratings": 2, "skills": 1, "receipts": 2, "bound": 0}


async def test_an_imported_agent_deals_on_from_where_it_stood(folder: Place) -> None:
    async with folder.opened() as store:
        await full_deal(store, "prop_1", ALICE, BOB)
        alice = await run(store, lambda books: books.standing(ALICE.public.raw))
        bob = await run(store, lambda books: books.standing(BOB.public.raw))
    assert (alice.transactions, bob.transactions) == (43, 8)
    assert alice.rating > 1316
    assert bob.rating > 1100
    assert folder.problems() == []


async def test_it_is_imported_once(folder: Place) -> None:
    async with folder.opened() as store:
        await full_deal(store, "prop_1", ALICE, BOB)
        before = await run(store, lambda books: books.leaders(10))
    leave(folder, "ratings.json", {shown(ALICE): {"rating": 9000, "transactions": 1, "updated": None}})
    async with folder.opened() as store:
        assert await run(store, lambda books: books.leaders(10)) == before
    assert json.loads((folder.directory.path / "ratings.json").read_text())[shown(ALICE)]["rating"] < 9000


async def test_a_store_that_is_there_already_does_not_make_a_folder_vanish(place: Place) -> None:
    """Say, a database that another hall has used before."""
    async with place.opened() as store:
        await full_deal(store, "prop_1", CAROL, DAVE)
    leave(place, "ratings.json", RATINGS)
    leave_receipts(place, *(json.dumps(receipt) for receipt in RECEIPTS))
    left = {name: (place.directory.path / name).read_bytes() for name in ("ratings.json", "receipts.jsonl")}
    place.log.events.clear()
    for _ in range(2):
        async with place.opened():
            pass
    told = [facts["file"] for event, facts in place.log.events if event == "reference_not_imported"]
    assert told == ["ratings.json", "receipts.jsonl"]
    for name, content in left.items():
        assert (place.directory.path / name).read_bytes() != content
        assert (place.directory.path / f"{name}.before-import").read_bytes() == content


async def test_what_was_kept_once_is_not_replaced_by_what_is_kept_later(folder: Place) -> None:
    kept = folder.directory.path / "ratings.json.before-import"
    leave(folder, "ratings.json", {**RATINGS, "nobody": {"rating": 1000, "transactions": 0}})
    async with folder.opened():
        pass
    first = kept.read_bytes()
    for rating in (1400, 1400, 1500):  # the same file once more is not kept twice
        leave(folder, "ratings.json", {"@" + 16 * "b": {"rating": rating, "transactions": 1}})
        async with folder.opened():
            pass
    assert kept.read_bytes() == first
    later = [json.loads(kept.with_name(f"{kept.name}.{number}").read_bytes()) for number in (2, 3)]
    assert [each["@" + 16 * "b"]["rating"] for each in later] == [1400, 1500]
    assert len(list(folder.directory.path.glob("*.before-import*"))) == 3


async def test_receipts_that_a_backup_knows_nothing_of_are_kept(folder: Place) -> None:
    async with folder.opened() as store:
        await full_deal(store, "prop_1", CAROL, DAVE)
    file = folder.directory.path / "receipts.jsonl"
    written = file.read_bytes() + file.read_bytes().replace(b"prop_1", b"prop_2")
    file.write_bytes(written)
    async with folder.opened():
        pass
    assert (folder.directory.path / "receipts.jsonl.before-import").read_bytes() == written


@pytest.mark.parametrize("name", ["ratings.json", "receipts.jsonl"])
async def test_a_file_that_cannot_be_opened_is_one_line_at_every_start(folder: Place, name: str) -> None:
    async with folder.opened():
        pass
    (folder.directory.path / name).unlink()
    (folder.directory.path / name).mkdir()
    with pytest.raises(UsageError, match=f"{name}: Is a directory"):
        async with folder.opened():
            pass


async def test_files_of_our_own_are_not_copied_at_each_start(folder: Place) -> None:
    async with folder.opened() as store:
        await full_deal(store, "prop_1", CAROL, DAVE)
    (folder.directory.path / "receipts.jsonl").write_bytes(b"")  # the power failed
    async with folder.opened():
        pass
    (folder.directory.path / "ratings.json").write_bytes(b'{"@')
    async with folder.opened():
        pass
    assert "reference_not_imported" not in [event for event, _ in folder.log.events]
    assert list(folder.directory.path.glob("*.before-import")) == []


async def test_keys_that_the_reference_wrote_down_are_bound_at_once(folder: Place) -> None:
    """Also a key whose text was spelled in a way of its own, and so had an id of its own."""
    odd = CAROL.public.pem.replace("\n", "\r\n")
    odd_id = f"@{sha256(odd.encode()).hexdigest()[:16]}"
    leave(folder, "ratings.json", {**RATINGS, odd_id: {"rating": 1400, "transactions": 9, "updated": None}})
    seen = {ALICE.public.pem: 1, odd: 2, "no key": 3}
    (folder.directory.path.parent / "first-seen.json").write_text(json.dumps(seen))
    async with folder.opened() as store:
        best = await run(store, lambda books: books.leaders(10))
        assert [(each.key, each.rating) for each in best] == [
            (CAROL.public.raw, 1400),
            (ALICE.public.raw, 1316),
        ]
        assert len(await run(store, offered)) == 1
    assert folder.problems() == []
    assert folder.log.facts("reference_imported")["bound"] == 2


async def test_receipts_are_found_by_the_parties_they_name(folder: Place) -> None:
    async with folder.opened() as store:
        for agent, expected in [(ALICE, [1, 0]), (BOB, [0]), (DAVE, [])]:
            receipts = await run(store, lambda books, agent=agent: books.receipts(agent.public.raw).items)  # type: ignore[misc]
            assert [json.loads(each.body) for each in receipts] == [RECEIPTS[number] for number in expected]
            assert [each.at for each in receipts] == [RECEIPTS[number]["stored_at"] for number in expected]


async def test_what_our_own_files_say_can_be_brought_back(place: Place, server: Server) -> None:
    """The database is gone, and the files beside it are there."""
    async with place.opened() as store:
        await full_deal(store, "prop_1", ALICE, BOB)
        before = await run(store, lambda books: books.standing(ALICE.public.raw))
        receipts = await run(store, lambda books: books.receipts(BOB.public.raw).items)
    if place.url:
        place.url = server.new_database()
    else:
        (place.directory.path / "hall.db").unlink()
    async with place.opened() as store:
        assert await run(store, lambda books: books.standing(ALICE.public.raw)) == before
        assert await run(store, lambda books: books.receipts(BOB.public.raw).items) == receipts
    assert place.problems() == []


async def test_stakes_that_were_open_are_given_back(place: Place) -> None:
    """The deals behind them were in the reference's memory only."""
    leave(place, "ratings.json", RATINGS)
    escrow = {"from": {"agent_id": shown(ALICE), "stake": 30}, "to": {"agent_id": shown(BOB), "stake": None}}
    leave(
        place,
        "escrows.json",
        {
            "prop_1": {"proposal_id": "prop_1", "status": "active", **escrow},
            "prop_2": {"proposal_id": "prop_2", "status": "settled", **escrow},
        },
    )
    async with place.opened() as store:
        standing = await run(store, lambda books: books.standing(ALICE.public.raw))
    assert standing.escrowed == 0
    assert place.log.facts("reference_escrows_released") == {"escrows": 1, "stakes": 30}


async def test_what_cannot_be_taken_over_is_kept_beside_it(place: Place) -> None:
    leave(
        place, "ratings.json", {**RATINGS, "@k3x9q2ab": {"rating": 1200, "transactions": 1, "updated": None}}
    )
    whole = [json.dumps(receipt) for receipt in RECEIPTS]
    leave_receipts(place, *whole, whole[0], '{"no": "deal"}', whole[1][:40])
    original = (place.directory.path / "receipts.jsonl").read_bytes()
    async with place.opened() as store:
        assert len(await run(store, lambda books: books.receipts().items)) == 2
        await run(store, propose("prop_1"))
    assert (place.directory.path / "receipts.jsonl").read_text().splitlines() == whole
    assert (place.directory.path / "receipts.jsonl.before-import").read_bytes() == original
    assert "@k3x9q2ab" in (place.directory.path / "ratings.json.before-import").read_text()
    skipped = [facts for event, facts in place.log.events if event == "reference_rows_skipped"]
    assert [(facts["file"], facts["rows"]) for facts in skipped] == [
        ("ratings.json", 1),
        ("receipts.jsonl", 3),
    ]


@pytest.mark.parametrize("name", ["ratings.json", "skills.json", "escrows.json"])
@pytest.mark.parametrize(
    "content", ["", "[]", '{"@a": {"rating"', '{"@a": 7}', '{"@a": {"skills": 1, "from": 1}}']
)
async def test_a_damaged_file_is_one_line_and_nothing_was_made(place: Place, name: str, content: str) -> None:
    """A hall that opened without its ratings would write over them."""
    (place.directory.path / name).write_text(content)
    with pytest.raises(UsageError, match=f"{name}: .*move it away"):
        async with place.opened():
            pass
    (place.directory.path / name).unlink()
    leave(place, "ratings.json", RATINGS)
    async with place.opened() as store:
        assert await run(store, lambda books: books.standing(ALICE.public.raw)) == ALICE_IMPORTED


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("ratings.json", {"rating": 1e300, "transactions": 1}),
        ("ratings.json", {"rating": 1200, "transactions": 10**30}),
        ("ratings.json", {"rating": 1200, "transactions": -1}),
        ("skills.json", {"skills": [SKILL], "registered_at": 1e30}),
    ],
)
async def test_a_number_that_no_column_holds_is_a_damaged_file(
    place: Place, name: str, row: dict[str, Any]
) -> None:
    leave(place, name, {ALICE.public.fingerprint: row})
    with pytest.raises(UsageError, match=f"{name}: .*move it away"):
        async with place.opened():
            pass


async def test_a_long_history_is_brought_in(place: Place) -> None:
    """More values than fit into one statement."""
    leave_receipts(
        place, *(json.dumps({**RECEIPTS[0], "proposal_id": f"prop_{number}"}) for number in range(14_000))
    )
    async with place.opened() as store:
        assert len(await run(store, lambda books: books.receipts(limit=20_000).items)) == 14_000


async def test_a_receipt_with_such_a_number_is_skipped(place: Place) -> None:
    leave_receipts(place, json.dumps({**RECEIPTS[0], "stored_at": 1e300}), json.dumps(RECEIPTS[1]))
    async with place.opened() as store:
        assert len(await run(store, lambda books: books.receipts().items)) == 1
    assert place.log.facts("reference_rows_skipped")["rows"] == 1


@pytest.mark.parametrize(
    "line",
    [
        b'{"proposal_id": "prop_\xff"}',
        b'{"proposal_id": "prop_1", "proof": "\xff"}',
        b'{"proposal_id": "prop_1", "proof": ' + 2000 * b"[" + 2000 * b"]" + b"}",
        rb'{"proposal_id": "prop_\u0000"}',
        rb'{"proposal_id": "prop_1", "from": "@\u0000"}',
        b'{"proposal_id": "prop_' + 9000 * b"1" + b'"}',
    ],
    ids=["id in no UTF-8", "proof in no UTF-8", "deep", "NUL", "NUL in a party", "long"],
)
async def test_a_damaged_receipt_is_skipped(place: Place, line: bytes) -> None:
    """Its party would get it as it is, and PostgreSQL would not take it: the others are worth more."""
    path = place.directory.path / "receipts.jsonl"
    path.write_bytes(line + b"\n" + json.dumps(RECEIPTS[1]).encode() + b"\n")
    async with place.opened() as store:
        found = await run(store, lambda books: books.receipts().items)
    assert [receipt.proposal_id for receipt in found] == ["prop_old_1"]
    assert place.log.facts("reference_rows_skipped")["rows"] == 1


async def test_nesting_without_end_is_a_damaged_file(place: Place) -> None:
    nested = 2000 * "[" + 2000 * "]"
    (place.directory.path / "skills.json").write_text(f'{{"@a": {{"skills": [{{"capability": {nested}}}]}}}}')
    with pytest.raises(UsageError, match=r"skills.json: .*move it away"):
        async with place.opened():
            pass


@pytest.mark.parametrize("updated", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z", "yesterday"])
async def test_a_time_that_no_text_names_is_not_brought_in(place: Place, updated: str) -> None:
    """`ratings.json` could not be written any more."""
    leave(place, "ratings.json", {shown(ALICE): {"rating": 1316, "transactions": 42, "updated": updated}})
    async with place.opened():
        pass
    kept = json.loads((place.directory.path / "ratings.json").read_bytes())
    assert kept == {shown(ALICE): {"rating": 1316, "transactions": 42, "updated": None}}


async def test_no_more_skills_are_brought_in_than_an_agent_may_offer(place: Place) -> None:
    """Otherwise one agent's could cut off whoever searches."""
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    odd = [{"capability": "long", "description": 5000 * "x"}, {"capability": "deep", "description": deep}]
    many = [{"capability": f"skill-{number}", "description": 500 * "x"} for number in range(100)]
    leave(place, "skills.json", {ALICE.public.fingerprint: {**registered(ALICE), "skills": [*odd, *many]}})
    async with place.opened() as store:
        await run(store, lambda books: books.standing(ALICE.public.raw))
        found = [skill for _, skill in await run(store, offered)]
    assert found == many[: len(found)]
    assert 15_000 < len(json.dumps(found, separators=(",", ":"))) < 16 * 1024


async def test_a_skill_without_a_name_is_not_brought_in(place: Place) -> None:
    """Nobody could search any more, for anything."""
    nameless: list[dict[str, Any]] = [{"name": "review"}, {"capability": None}, {"capability": ""}]
    leave(
        place,
        "skills.json",
        {
            ALICE.public.fingerprint: {**registered(ALICE), "skills": [*nameless, SKILL]},
            BOB.public.fingerprint: {**registered(BOB), "skills": nameless},
        },
    )
    async with place.opened() as store:
        for agent, expected in [(ALICE, [SKILL]), (BOB, [])]:
            await run(store, lambda books, key=agent.public.raw: books.standing(key))  # type: ignore[misc]
            found = await run(store, offered)
            assert [skill for key, skill in found if key == agent.public.raw] == expected
    assert place.log.facts("reference_rows_skipped") == {"file": "skills.json", "rows": 1}


async def test_a_binding_that_is_undone_with_its_unit_is_made_again(folder: Place) -> None:
    def look_and_refuse(books: Books) -> None:
        assert books.standing(ALICE.public.raw) == ALICE_IMPORTED
        raise InvalidProposal("no")

    async with folder.opened() as store:
        with pytest.raises(InvalidProposal):
            await run(store, look_and_refuse)
        assert folder.select("SELECT count(*) FROM standings") == [(0,)]
        await full_deal(store, "prop_1", ALICE, BOB)
    assert folder.problems() == []
