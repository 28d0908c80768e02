"""`moothall mesh batch|risk`: how agents behaved, from the log in the store."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from moothall.cli.mesh import app
from moothall.identity import PrivateKey
from moothall.market.entropy import required_stake
from moothall.market.epoch_log import epoch_at
from moothall.market.records import Standing
from moothall.store.files import DataDirectory
from moothall.wire.mesh import merkle
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import encode_amount
from tests.identity.vectors import ALICE, BOB, CAROL, NOW_MS
from tests.store.support import Place
from tests.support.envelopes import sent

EPOCH = epoch_at(NOW_MS)


class Kept:
    def __init__(self, folder: Path) -> None:
        self.place = Place(DataDirectory(folder), "")
        self.raws: list[bytes] = []
        with self.place.books():
            pass

    def say(
        self,
        sender: PrivateKey,
        msg_type: MsgType,
        amount: int = 0,
        *,
        to: PrivateKey,
        conversation: int = 1,
        after: int = 0,
    ) -> None:
        envelope, raw = sent(
            sender,
            msg_type,
            encode_amount(amount) + b"{}",
            to=to,
            conversation_id=conversation.to_bytes(16),
            nonce=len(self.raws) + 1,
        )
        with self.place.books() as books:
            books.log(envelope, raw, NOW_MS + after * 1000)
        self.raws.append(raw)

    def notary(self, conversation: int, notary: PrivateKey) -> None:
        """As the hall assigns it when the offer is accepted."""
        keys = [key.public.raw for key in (ALICE, BOB, notary)]
        with self.place.connected() as connection:
            for key in keys:
                connection.execute(
                    "INSERT INTO keys (key, fingerprint, short) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    (key, key.hex()[:16], key.hex()[:8]),
                )
            connection.execute(
                "INSERT INTO conversations (id, requester, provider, notary, proposer, state, is_open, created_at,"
                " version, record) VALUES (?, ?, ?, ?, ?, 'COMMITTED', 1, 1, 1, ?)",
                (conversation.to_bytes(16), *keys, keys[0], b"{}"),
            )

    def run(self, *arguments: str, code: int = 0) -> Any:
        where = ["--data-dir", str(self.place.directory.path)]
        result = CliRunner().invoke(app, [*arguments, *where])
        assert result.exit_code == code, result.output
        return result


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "data")


def test_a_batch_from_the_log(kept: Kept, tmp_path: Path) -> None:
    kept.say(ALICE, MsgType.PROPOSE, 5, to=BOB)
    kept.say(BOB, MsgType.ACCEPT, 5, to=ALICE, after=60)
    kept.say(CAROL, MsgType.PROPOSE, 7, to=BOB, conversation=2)
    kept.notary(1, CAROL)
    target = tmp_path / "batch.cbor"
    alice = ALICE.public.raw.hex()
    found = json.loads(kept.run("batch", alice, "--epoch", str(EPOCH), "-o", str(target)).output)
    assert (found["agent_id"], found["message_count"]) == (alice, 2)
    assert found["bid_values"] == [
        {"conversation_id": f"{1:032x}", "counterparty": alice, "bid_value": 5, "slot": NOW_MS // 1000}
    ]
    (verifier,) = found["verifier_ids"]
    assert (verifier["verifier_id"], verifier["slot"]) == (CAROL.public.raw.hex(), NOW_MS // 1000 + 60)
    assert found["log_merkle_root"] == merkle.root(list(map(merkle.leaf, kept.raws))).hex()
    assert found["batch_hash"] == keccak256(target.read_bytes()).hex()


def test_an_agent_is_named_as_in_other_commands(kept: Kept, tmp_path: Path) -> None:
    with kept.place.books() as books:
        books.save_standing(Standing(key=ALICE.public.raw))
    alice = ALICE.public.raw.hex()
    file = tmp_path / "alice.pem"
    file.write_text(ALICE.public.pem)
    for word in (alice.upper(), alice[:16], alice[:17], f"@{ALICE.public.agent_id()}", str(file)):
        assert json.loads(kept.run("batch", word).output)["agent_id"] == alice
    assert "does not know" in kept.run("batch", alice[:15], code=2).stderr
    with kept.place.books() as books:
        books.save_standing(Standing(key=bytes.fromhex(alice[:20].ljust(64, "0"))))
    assert "several keys begin with" in kept.run("batch", alice[:16], code=2).stderr
    assert json.loads(kept.run("batch", alice[:21]).output)["agent_id"] == alice


def test_an_agent_that_did_nothing_has_an_empty_batch(kept: Kept) -> None:
    assert json.loads(kept.run("batch", "0" * 64).output)["message_count"] == 0


def test_risk_shows_the_most_suspicious_first(kept: Kept) -> None:
    for number in range(8):
        kept.say(ALICE, MsgType.PROPOSE, 5, to=BOB, conversation=number + 1, after=10 * number)
        kept.say(BOB, MsgType.ACCEPT, 5, to=ALICE, conversation=number + 1, after=2**number)
        kept.notary(number + 1, CAROL)
    report = json.loads(kept.run("risk", "--epoch", str(EPOCH), "--json").output)
    alice, bob = sorted(report["scores"], key=lambda score: score["agent_id"] == BOB.public.raw.hex())
    assert report["agents"] == 2
    assert bob["hv"] == bob["hs"] == 0.0
    assert alice["hv"] is None
    assert report["scores"] == sorted(report["scores"], key=lambda score: -score["anomaly"])
    assert report["flagged"] == sum(score["flagged"] for score in report["scores"])
    assert report["systemic_risk"] == report["flagged"] / 2
    for score in report["scores"]:
        assert score["required_stake"] == required_stake(score["anomaly"], score["cluster_coefficient"])
    (only,) = json.loads(kept.run("risk", "-e", str(EPOCH), "--limit", "1", "--json").output)["scores"]
    assert only == report["scores"][0]
    table = kept.run("risk", "-e", str(EPOCH)).output
    assert f"{report['flagged']} of 2 agents suspicious" in table
    assert "suspicious" in table
    assert BOB.public.raw.hex() in table


def test_a_quiet_epoch_has_no_risk(kept: Kept) -> None:
    result = kept.run("risk")
    assert "systemic risk 0.00" in result.output
    assert "no agent did enough" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("batch", "alice"), "64 hex digits"), (("batch", "0" * 64, "-o", "/proc/none/x"), "No such file")],
)
def test_mistakes_are_told(kept: Kept, arguments: tuple[str, ...], words: str) -> None:
    assert words in kept.run(*arguments, code=2).stderr
