"""The page verifies cases exactly as `moothall court verify` does: the same findings, word for word.

Honest files and files with one change each come from the court's own tests. Every rule that a file can keep is
broken by at least one of them.
"""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall.court.panel import MAX_POOL, pool_hash_of, shuffled
from moothall.court.verify import verify_case
from moothall.identity import PrivateKey
from moothall.identity.seals import CASE, Seal
from moothall.market.proof import Proof
from moothall.wire.canonical import canonical_json
from tests.court.support import Courtroom
from tests.court.test_verify import at, called_off, flipped, good_case, invented, leaves, replaced
from tests.identity.vectors import ALICE, BOB
from tests.store.conftest import sqlite  # noqa: F401
from tests.store.support import Place
from tests.support.court_talks import CourtTalks
from tests.support.seals import HALL_ID, SEAL
from tests.support.world import TWIN_ID, TWINS
from tests.web.conftest import NewVisitor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

FORMAT_1 = Path(__file__).parents[1] / "vectors/court_format_1.json"
# What Python's decoder and its readers of keys say is worded otherwise.
OWN_WORDS = ("This is not the file of a case:", "A `key` cannot be read:")
VERIFY = """async ([files, halls]) => {
  const { verifyCase } = await import("/page/proofs/court/verify.js");
  const found = [];
  for (const file of files) {
    const proof = await verifyCase(JSON.parse(file), halls);
    found.push([proof.steps, proof.proven, proof.consistent, proof.hallWord, proof.contradictions, proof.unproven]);
  }
  return found;
}"""


def resealed(case: Any) -> Any:
    """Signed again by the hall, after it was changed."""
    record = {name: value for name, value in case.items() if name != "hall_sig"} | {"hall_key": SEAL.hall_key}
    return {**record, "hall_sig": SEAL.sign(CASE, canonical_json(record))}


def open_cases() -> Iterator[tuple[str, Any]]:
    for phase in ("file", "reveal", "seat", "plead"):
        court = Courtroom(judges=4)
        getattr(court, phase)()
        yield phase, court.file_of()
        yield f"{phase}, called off", called_off(court.file_of())
        if phase == "seat":
            yield "a panel that waits", {**court.file_of(), "phase": "arbiter_response"}
        if phase == "plead":
            complete = court.file_of()
            for arbiter in complete["arbiters"]:
                arbiter["status"] = "voted"
            yield "votes that wait", complete
            yield (
                "arbiters that are missing",
                {**court.file_of(), "arbiters": court.file_of()["arbiters"][:2]},
            )


def judgements() -> Iterator[tuple[str, Any]]:
    for verdicts in (
        ("disputant",) * 3,
        ("respondent",) * 3,
        ("mutual", "disputant", "respondent"),
        ("mutual",),
        (),
    ):
        court = Courtroom(judges=3)
        court.judge(*verdicts, stakes=(7, 11), amount=1.5, currency="SOL", expires=600)
        yield f"votes {verdicts}", court.file_of()
        for verdict in ("disputant", "respondent", "mutual"):
            changed = replaced(court.file_of(), ("judgement", "verdict"), verdict)
            yield f"votes {verdicts}, verdict {verdict}", changed
    court = Courtroom(judges=3, newcomer_transfer_cap=6)
    court.judge("respondent", "respondent", "mutual", stakes=(3, 4))
    yield "rules against farming", court.file_of()
    yield "a transfer", replaced(court.file_of(), ("settlement", "transfer", "paid"), 999)


def redacted() -> Any:
    court = Courtroom(judges=3)
    court.judge("disputant", "disputant", "disputant")
    case = court.file_of()
    case["deal"]["proposal"]["task"] = "use [REDACTED:token]"
    return resealed(case)


def odd_values() -> Iterator[tuple[str, Any]]:
    """Values that two languages could write differently."""
    court = Courtroom(judges=3)
    court.seat()
    items = [
        {
            "2": 1,
            "10": 2,
            "b": {"2": 0, "a": [1e21, 1e-7, 0.1, -0.0, 1e15, True, None, 'é\u2028\u007f\u0001"']},
            "a": "\U0001f600",
        },
        {"\U0001f600": 1, "\ufb33": 2, "1e3": 1e3, "nested": {"nested": {"other": 1}, "b": 1}},
    ]
    court.act(ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=items, statement="é")
    court.act(BOB, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="")
    for key in court.panel:
        court.vote(key, "disputant", "so | so")
    yield "odd evidence", court.file_of()
    yield (
        "odd evidence, out of order",
        replaced(court.file_of(), ("evidence", "disputant", "items"), items[::-1]),
    )
    for name, value in {
        "half a character": "\ud800",
        "a large number": 2**60,
        "too large a number": 10**400,
        "deep": json.loads("[" * 200 + "]" * 200),
        "a null": None,
        "a bar": "a|b",
    }.items():
        for path in (("deal", "terms"), ("reason",), ("evidence", "disputant", "items", 0, "a")):
            yield f"{name} in {path}", replaced(court.file_of(), path, value)
    for party in ("disputant", "respondent"):
        many = replaced(court.file_of(), ("evidence", party, "items"), [{"a": 1}] * 11)
        yield f"many items of the {party}", many
    yield (
        "long evidence",
        replaced(court.file_of(), ("evidence", "disputant", "items"), [{"a": "x" * 300_000}]),
    )
    yield (
        "wide evidence",
        replaced(court.file_of(), ("evidence", "disputant", "items"), [{"a": [0] * 300_000}]),
    )


def tampered(case: Any) -> Iterator[tuple[str, Any]]:
    """One change each."""
    for path in leaves(case):
        yield f"flipped {path}", replaced(case, path, flipped(at(case, path)))
    for name in case:
        yield f"without {name}", {other: value for other, value in case.items() if other != name}
    yield "more members", {**case, "verdict": "respondent"}


def judged_otherwise() -> Iterator[tuple[str, Any]]:
    case = good_case("judged")
    yield "signed again", resealed(replaced(case, ("reason",), "another"))
    stranger = Seal(PrivateKey(bytes(32)))
    record = {**case, "hall_key": stranger.hall_key}
    del record["hall_sig"]
    yield "another hall", {**record, "hall_sig": stranger.sign(CASE, canonical_json(record))}
    yield "no hall", {**case, "hall_key": None}
    yield "invented", invented()
    yield "terms", replaced(case, ("deal", "proposal", "terms"), "by Friday")
    yield (
        "a key of small order",
        replaced(
            case,
            ("disputant", "key"),
            case["disputant"]["key"][:43] + "A" * 43 + "=" + case["disputant"]["key"][87:],
        ),
    )
    twins = copy.deepcopy(case)
    for arbiter, twin in zip(twins["arbiters"], TWINS, strict=False):
        arbiter.update(id=f"@{TWIN_ID}", key=twin.public.pem)
    yield "twins", twins
    for path in (("arbiters",), ("judgement", "results"), ("judgement", "votes"), ("settlement", "shares")):
        yield f"turned {path}", replaced(case, path, at(case, path)[::-1])
        yield f"doubled {path}", replaced(case, path, at(case, path) * 2)
    yield "the old format", {**case, "format": 1}
    yield "no hash of the pool", {**case, "pool_hash": None}
    yield "a pool of its own", replaced(case, ("arbiters", 3, "pool"), [case["arbiters"][3]["id"]])
    yield "a party in the pool", replaced(case, ("pool",), sorted([*case["pool"], case["disputant"]["id"]]))
    large = sorted({*case["pool"], *(f"@{number:08x}" for number in range(MAX_POOL))})
    yield "a large pool", {**case, "pool": large, "pool_hash": pool_hash_of(large)}
    order = shuffled(case["seed"], case["pool"])
    late = {"id": order[-1], "why": "absent", "at": 1}
    yield "passed over late", {**case, "skipped": [*case["skipped"], late]}
    yield "hidden", {**case, "skipped": []}
    left = good_case("fallen back")
    yield "left", {**left, "skipped": left["skipped"][:-1]}
    yield "nothing revealed", {**case, "reveal": None}
    yield "no pool", {**case, "pool": None}
    yield "evidence too early", {**case, "phase": "arbiter_response"}
    yield "back at the reveal", {**case, "phase": "reveal_pending"}
    unanswered = Courtroom(judges=4)
    unanswered.reveal()
    unanswered.world.advance(1801)
    yield "nobody answered", unanswered.file_of()
    few = Courtroom(judges=3)
    few.file()
    few.leave(few.judges[0])
    few.act(ALICE, "DISPUTE_REVEAL", proposal_id=few.deal_id, nonce="0f1e2d3c4b5a69788796a5b4c3d2e1f0")
    yield "too few", few.file_of()
    yield "too few, not closed", {**few.file_of(), "phase": "arbiter_response"}


def mesh_cases(place: Place) -> Iterator[tuple[str, Any]]:
    talks = CourtTalks(place)
    talks.quarrel()
    case = talks.file()
    talks.reveal()
    talks.judge(case, "disputant", "disputant", "mutual")
    file = talks.file_of(case)
    talks.close()
    yield "mesh", file
    for path in (
        ("proposal_id",),
        ("deal", "proposal", "amount"),
        ("deal", "proposal", "signed"),
        ("deal", "accept", "signed"),
        ("deal", "proposal", "sig"),
    ):
        yield f"mesh, flipped {path}", replaced(file, path, flipped(at(file, path)))
    other = f"mesh:{bytes(16).hex()}"
    yield (
        "mesh, another talk",
        replaced(replaced(file, ("proposal_id",), other), ("deal", "accept", "proposal_id"), other),
    )
    exchanged = copy.deepcopy(file)
    deal = exchanged["deal"]
    deal["proposal"]["signed"], deal["accept"]["signed"] = (
        deal["accept"]["signed"],
        deal["proposal"]["signed"],
    )
    yield "mesh, exchanged", exchanged
    yield (
        "mesh, accepted by the offer",
        replaced(file, ("deal", "accept", "signed"), file["deal"]["proposal"]["signed"]),
    )


def not_cases() -> Iterator[tuple[str, Any]]:
    values: tuple[Any, ...] = (None, True, 0, "case", [], {}, {"format": 2}, [[[]]])
    for value in values:
        yield f"{value!r}", value


def lists(proof: Proof) -> list[list[str]]:
    return [
        proof.steps,
        proof.proven,
        proof.consistent,
        proof.hall_word,
        proof.contradictions,
        proof.unproven,
    ]


def comparable(found: list[list[str]]) -> list[list[str]]:
    return [
        [next((prefix for prefix in OWN_WORDS if line.startswith(prefix)), line) for line in lines]
        for lines in found
    ]


def rule_of(sentence: str) -> str:
    """A sentence without the agents that it names, and without how it is said where it holds."""
    names = r"@[0-9a-f]+|`[^`]*`: it does not hold that |(, as bytes of another wire)? \(key .*\)|\.$"
    return re.sub(names, "", sentence).strip().lower()


async def test_the_page_finds_what_the_command_line_finds(
    new_visitor: NewVisitor,
    sqlite: Place,  # noqa: F811
) -> None:
    old = json.loads(FORMAT_1.read_text())
    cases = dict(
        [
            ("judged", good_case("judged")),
            ("fallen back", good_case("fallen back")),
            *(
                (f"old {number}", case)
                for number, case in enumerate(old.values() if isinstance(old, dict) else old)
            ),
            *tampered(good_case("judged")),
            *open_cases(),
            *judgements(),
            ("redacted", redacted()),
            *odd_values(),
            *judged_otherwise(),
            *mesh_cases(sqlite),
            *not_cases(),
        ]
    )
    files = [json.dumps(case) for case in cases.values()]
    expected = [lists(verify_case(json.loads(file), [HALL_ID])) for file in files]
    visitor = await new_visitor()
    found = await visitor.page.evaluate(VERIFY, [files, [HALL_ID]])
    for name, ours, theirs in zip(cases, found, expected, strict=True):
        assert comparable(ours) == comparable(theirs), name
    honest = [lines for lines in expected if not lines[4]]
    kept = {rule_of(line) for lines in honest for line in (*lines[1], *lines[2]) if "agreed on" not in line}
    broken = {rule_of(line) for lines in expected for line in lines[4]}
    assert sorted(kept - broken) == []
