"""Two real halls on one PostgreSQL: agents of either deal with each other, and what one decides holds at both.

What is decided in the store holds in the same way for two nodes of one hall, so tests of that run on a bus too.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from moothall.identity import PrivateKey
from moothall.identity.certificates import revoke
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver
from tests.identity.vectors import ALICE, BOB, CAROL, NOW_MS
from tests.store.server import Server
from tests.support.agentchat import AgentChat, Message, Refused
from tests.support.cases import ARBITERS, COMMITMENT, NONCE, signed_step
from tests.support.deals import signed
from tests.support.mesh_peer import MeshPeer, mesh_peer
from tests.support.nats_server import NatsServer
from tests.support.server import ADMIN_KEY, PATIENCE, HallProcess

pytestmark = pytest.mark.slow

JUDGES = ARBITERS[:3]
BOB_ID = BOB.public.agent_id()
TALK = bytes(range(1, 17))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


# The database tells the test when a hall has said that it is alive.
TELL_OF_LIFE = """
    CREATE OR REPLACE FUNCTION tell_of_life() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NOTIFY life; RETURN NULL; END $$;
    CREATE OR REPLACE TRIGGER life AFTER INSERT OR UPDATE ON halls
        FOR EACH STATEMENT EXECUTE FUNCTION tell_of_life()
"""


class Halls:
    """Two on one database, each with a data directory of its own. With a bus they are nodes of one hall."""

    def __init__(self, folder: Path, url: str, bus: str = "") -> None:
        self.url = url
        self.made: list[HallProcess] = []
        for name in ("here", "there"):
            (folder / name / "data").mkdir(parents=True, mode=0o700)
            environment = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY, "MOOTHALL_STORE": url}
            if bus:
                environment |= {"MOOTHALL_BUS": bus, "MOOTHALL_NODE_NAME": name}
            flags = (
                "--set",
                "allowlist=true",
                "--set",
                "allowlist_strict=false",
                "--set",
                "verified_means=grant",
            )
            self.made.append(HallProcess(folder / name, *flags, environment=environment))
        self.here, self.there = self.made

    def start(self) -> None:
        for hall in self.made:
            hall.start()

    async def present(self, *keys: PrivateKey) -> None:
        """The store knows that agents with these keys are connected, and no others."""
        expected = sorted(key.public.raw for key in keys)
        async with asyncio.timeout(PATIENCE):
            while self.connected() != expected:
                await asyncio.to_thread(self.next_change)

    def connected(self) -> list[bytes]:
        with psycopg.connect(self.url) as connection:
            return sorted(row[0] for row in connection.execute("SELECT key FROM present").fetchall())

    def next_change(self) -> None:
        """Until a hall says that it is alive: it writes down who is connected at the same time."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(TELL_OF_LIFE)
            connection.execute("LISTEN life")
            assert list(connection.notifies(timeout=PATIENCE, stop_after=1)), "no hall is alive"


@pytest.fixture
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a bus, for tests that ask for one."""
    if not getattr(request, "param", False):
        yield ""
        return
    with NatsServer(tmp_path / "nats") as nats:
        yield nats.url


on_a_bus_too = pytest.mark.parametrize("bus", [False, True], indirect=True, ids=["store", "bus"])


@pytest.fixture
def halls(tmp_path: Path, server: Server, bus: str) -> Iterator[Halls]:
    made = Halls(tmp_path, server.new_database(), bus)
    yield made
    for hall in made.made:
        if hall.port:
            hall.kill()


async def administer(hall: HallProcess, operation: str, **fields: Any) -> Message:
    async with await AgentChat.open(hall.url) as admin:
        return await admin.ask("ADMIN_RESULT", type=operation, admin_key=ADMIN_KEY, **fields)


async def come(hall: HallProcess, key: PrivateKey) -> AgentChat:
    return await AgentChat.connect(hall.url, "agent", key)


async def propose(proposer: AgentChat, key: PrivateKey, recipient: AgentChat, **fields: Any) -> str:
    offer = signed(key, "PROPOSAL", to=recipient.agent_id, task="review", **fields)
    deal: str = (await proposer.ask("PROPOSAL", type="PROPOSAL", **offer))["id"]
    return deal


async def proposals(hall: HallProcess) -> int:
    _, _, body = await hall.get("/health")
    total: int = json.loads(body)["proposals"]["total"]
    return total


# -- deals and cases -----------------------------------------------------------------------------------


async def test_a_deal_between_agents_of_two_halls(halls: Halls) -> None:
    """They have never been anywhere before: the binding of an id is committed before WELCOME."""
    halls.start()
    async with await come(halls.here, ALICE) as alice, await come(halls.there, BOB) as bob:
        deal = await propose(alice, ALICE, bob, elo_stake=30)
        offer = await bob.expect("PROPOSAL", id=deal)
        assert (offer["from"], offer["task"], offer["elo_stake"]) == (alice.agent_id, "review", 30)
        accepted = signed(BOB, "ACCEPT", proposal_id=deal, elo_stake=20)
        own = await bob.ask("ACCEPT", type="ACCEPT", **accepted)
        told = await alice.expect("ACCEPT", proposal_id=deal)
        assert told == {name: value for name, value in own.items() if name != "ref"}
        await bob.ask("COMPLETE", type="COMPLETE", **signed(BOB, "COMPLETE", proposal_id=deal))
        assert (await alice.expect("COMPLETE", proposal_id=deal))["rating_changes"]
        await alice.settle()
        await bob.settle()
        assert (alice.pending("PROPOSAL"), bob.pending("COMPLETE"), alice.pending("COMPLETE")) == ([], [], [])


async def test_a_key_at_both_halls_is_told_at_both_and_both_count_its_deal(halls: Halls) -> None:
    halls.start()
    async with (
        await come(halls.here, ALICE) as alice,
        await come(halls.here, BOB) as bob,
        await come(halls.there, BOB) as again,
    ):
        await halls.present(ALICE, BOB, BOB)
        deal = await propose(alice, ALICE, bob)
        assert (await bob.expect("PROPOSAL", id=deal)) == (await again.expect("PROPOSAL", id=deal))
        for hall in (halls.here, halls.there):
            async with asyncio.timeout(PATIENCE):
                while await proposals(hall) != 1:
                    await asyncio.to_thread(halls.next_change)


@on_a_bus_too
async def test_a_case_across_two_halls(halls: Halls) -> None:
    """The parties are here and there, two arbiters there and one here. The one here comes back there."""
    ratings = {
        f"@{key.public.agent_id(16)}": {"rating": 1400, "transactions": 30, "updated": None} for key in JUDGES
    }
    (halls.here.data_dir / "ratings.json").write_text(json.dumps(ratings))
    halls.start()
    places = {ALICE: halls.here, BOB: halls.there, JUDGES[0]: halls.here}
    places |= dict.fromkeys(JUDGES[1:], halls.there)
    agents = {key: await come(hall, key) for key, hall in places.items()}
    await halls.present(*places)

    async def act(key: PrivateKey, kind: str, answer: str, **fields: Any) -> Message:
        await agents[key].send(type=kind, ref=kind, **signed_step(key, kind, **fields))
        return await agents[key].answer(answer, ref=kind)

    deal = await propose(agents[ALICE], ALICE, agents[BOB], elo_stake=30)
    await agents[BOB].expect("PROPOSAL", id=deal)
    await agents[BOB].ask("ACCEPT", type="ACCEPT", **signed(BOB, "ACCEPT", proposal_id=deal, elo_stake=20))
    await agents[ALICE].expect("ACCEPT", proposal_id=deal)
    filing = {"proposal_id": deal, "reason": "nothing came", "commitment": COMMITMENT}
    dispute = (await act(ALICE, "DISPUTE_INTENT", "DISPUTE_INTENT_ACK", **filing))["dispute_id"]
    await agents[BOB].expect("MSG", **{"from": "@server"})
    await act(ALICE, "DISPUTE_REVEAL", "DISPUTE_REVEALED", proposal_id=deal, nonce=NONCE)
    panel = await agents[BOB].expect("PANEL_FORMED", dispute_id=dispute)
    assert set(panel["pool"]) == {agents[key].agent_id for key in JUDGES}
    for key in JUDGES:
        await agents[key].expect("ARBITER_ASSIGNED", dispute_id=dispute)

    await agents[JUDGES[0]].close()
    agents[JUDGES[0]] = await come(halls.there, JUDGES[0])
    await agents[JUDGES[0]].expect("ARBITER_ASSIGNED", dispute_id=dispute)  # reminded by the other hall
    for key in JUDGES:
        await act(key, "ARBITER_ACCEPT", "ACK", dispute_id=dispute)
    await agents[ALICE].expect("MSG", **{"from": "@server"})
    evidence = {"dispute_id": dispute, "items": [{"kind": "commit", "value": "abc"}], "statement": "look"}
    await act(ALICE, "EVIDENCE", "EVIDENCE_RECEIVED", **evidence)
    await agents[BOB].expect("EVIDENCE_RECEIVED", **{"from": agents[ALICE].agent_id})
    await act(BOB, "EVIDENCE", "EVIDENCE_RECEIVED", **{**evidence, "items": []})
    for key in JUDGES:
        ready = await agents[key].expect("CASE_READY", dispute_id=dispute)
        assert ready["disputant_evidence"]["statement"] == "look"
        ballot = {"dispute_id": dispute, "verdict": "disputant", "reasoning": "so I found"}
        await act(key, "ARBITER_VOTE", "ACK", **ballot)
    for key in (ALICE, BOB, *JUDGES):
        assert (await agents[key].expect("VERDICT"))["verdict"] == "disputant"
        await agents[key].expect("SETTLEMENT_COMPLETE")
    await agents[ALICE].settle()
    assert agents[ALICE].pending("VERDICT") == []
    for agent in agents.values():
        await agent.close()


async def test_a_deadline_is_acted_on_once_and_both_parties_hear_of_it(halls: Halls) -> None:
    halls.start()
    async with await come(halls.here, ALICE) as alice, await come(halls.there, BOB) as bob:
        deal = await propose(alice, ALICE, bob, expires=1)
        for party in (alice, bob):
            await party.expect("EXPIRED", proposal_id=deal)
        second = await propose(alice, ALICE, bob)  # what was told twice would have come before this
        await bob.expect("PROPOSAL", id=second)
        assert (alice.pending("EXPIRED"), bob.pending("EXPIRED")) == ([], [])


async def test_a_deadline_of_a_hall_that_died_is_kept_by_the_other(halls: Halls) -> None:
    halls.start()
    async with await come(halls.here, ALICE) as alice, await come(halls.there, BOB) as bob:
        deal = await propose(alice, ALICE, bob, expires=2)
        await bob.expect("PROPOSAL", id=deal)
        halls.here.kill()
        await bob.expect("EXPIRED", proposal_id=deal)
        alice.cut()


async def test_agents_of_a_hall_that_died_are_not_drawn(halls: Halls) -> None:
    halls.start()
    async with await come(halls.here, ALICE), await come(halls.there, BOB):
        await halls.present(ALICE, BOB)
        halls.there.kill()
        await halls.present(ALICE)


async def test_a_hall_that_stops_takes_its_agents_along(halls: Halls) -> None:
    halls.start()
    async with await come(halls.here, ALICE), await come(halls.there, BOB):
        await halls.present(ALICE, BOB)
        halls.there.stop()
        assert halls.connected() == [ALICE.public.raw]


# -- what all halls have in common ---------------------------------------------------------------------


async def test_both_have_the_same_key_and_say_that_it_is_not_encrypted(halls: Halls) -> None:
    halls.start()
    assert halls.here.key == halls.there.key
    for hall in halls.made:
        assert "store_secret_file" in (await hall.logged("hall_key_not_encrypted"))["advice"]


@on_a_bus_too
async def test_a_ban_and_its_end(halls: Halls) -> None:
    halls.start()
    async with await come(halls.there, BOB) as bob:
        await administer(halls.here, "ADMIN_BAN", agent_id=BOB_ID, reason="spam")
        assert (await bob.expect("BANNED"))["reason"] == "spam"
        assert await bob.closed() == (1000, "Banned by admin")
    with pytest.raises(Refused, match="BANNED: spam"):
        await come(halls.there, BOB)
    await administer(halls.there, "ADMIN_UNBAN", agent_id=BOB_ID)
    async with asyncio.timeout(PATIENCE):
        while True:  # the other hall reads its list within a second
            with suppress(Refused):
                async with await come(halls.here, BOB):
                    return


async def test_what_a_worker_spends_at_both_halls_is_one_sum_also_after_a_kill(halls: Halls) -> None:
    def report(spent: int) -> dict[str, Any]:
        return {"type": "SET_PRESENCE", "budget": {"limit": 1000, "spent": spent, "session": "s"}, "ref": "r"}

    halls.start()
    await administer(halls.here, "ADMIN_SET_BUDGET", tokens=100)
    async with await come(halls.here, ALICE) as alice:
        await alice.ask("ACK", **report(60))
    halls.here.kill()
    async with await come(halls.there, ALICE) as alice:  # the same session goes on
        await alice.ask("ACK", **report(60))
        await alice.ask("ACK", **report(100))
        await alice.send(**report(101))
        assert "101 of 100 tokens" in (await alice.refusal())["message"]
    result = await administer(halls.there, "ADMIN_BUDGET")
    assert (result["spent"], result["cap"], [each["spent"] for each in result["budgets"]]) == (
        101,
        100,
        [101],
    )


async def welcomed(hall: HallProcess, key: PrivateKey, *, verified: bool) -> dict[str, Any]:
    """Come again until the hall has read the list: it may read the message of the day before."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with await come(hall, key) as agent:
                if agent.welcome["verified"] is verified:
                    return agent.welcome


@on_a_bus_too
async def test_an_approval_and_its_end(halls: Halls) -> None:
    halls.start()
    async with await AgentChat.open(halls.there.url) as watcher:
        await administer(halls.here, "ADMIN_APPROVE", pubkey=ALICE.public.pem, note="founder")
        await administer(halls.here, "ADMIN_MOTD", motd="one")
        await watcher.expect("MOTD_UPDATE", motd="one")
        welcome = await welcomed(halls.there, ALICE, verified=True)
        assert welcome["motd"] == "one"
        (entry,) = (await administer(halls.there, "ADMIN_LIST"))["entries"]
        assert entry["note"] == "founder"
        await administer(halls.here, "ADMIN_REVOKE", pubkey=ALICE.public.pem)
        await administer(halls.here, "ADMIN_MOTD", motd="")
        await watcher.expect("MOTD_UPDATE", motd=None)
        await welcomed(halls.there, ALICE, verified=False)


@on_a_bus_too
async def test_a_revoked_key(halls: Halls) -> None:
    halls.start()
    async with await come(halls.there, CAROL) as carol, await AgentChat.open(halls.here.url) as stranger:
        await stranger.ask("KEY_REVOKED", type="REVOKE_KEY", notice=revoke(CAROL, now_ms=NOW_MS))
        await carol.expect("KEY_REVOKED", fingerprint=CAROL.public.fingerprint)
        assert await carol.closed() == (1000, "Key revoked")


async def test_a_connection_that_is_lost_costs_no_news(halls: Halls, server: Server) -> None:
    """The halls look by themselves, and listen again."""
    halls.start()
    async with await come(halls.there, BOB) as bob:
        for _ in range(2):
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'moothall' AND query LIKE 'LISTEN%'"
            )
        await administer(halls.here, "ADMIN_BAN", agent_id=BOB_ID)
        assert await bob.closed() == (1000, "Banned by admin")


# -- the mesh --------------------------------------------------------------------------------------------


def conversing(peer: MeshPeer, msg_type: MsgType, payload: bytes, to: PrivateKey) -> Any:
    return peer.send(msg_type, payload, to.public.raw, TALK)


@on_a_bus_too
async def test_a_conversation_between_agents_of_two_halls(halls: Halls) -> None:
    """The notary is at the other hall than the party that accepts."""
    halls.start()
    async with (
        mesh_peer(halls.here.url, ALICE) as alice,
        mesh_peer(halls.there.url, BOB) as bob,
        mesh_peer(halls.there.url, CAROL) as carol,
    ):
        await halls.present(ALICE, BOB, CAROL)
        told = await conversing(alice, MsgType.PROPOSE, Propose().encode(), BOB)
        assert (told["type"], alice.notices) == ("accepted", [])
        assert (await bob.envelope(MsgType.PROPOSE)).sender == ALICE.public.raw
        for party in (alice, bob):
            await party.send(MsgType.NOTARIZE_BID, NotarizeBid(BidType.REQUEST, TALK).encode())
        await carol.send(MsgType.NOTARIZE_BID, NotarizeBid(BidType.OFFER, TALK).encode())
        offered = bob.seal(MsgType.COUNTER, Counter().encode(), ALICE.public.raw, TALK)
        await bob.post(offered)
        assert await alice.envelope(MsgType.COUNTER) == offered
        await conversing(alice, MsgType.ACCEPT, Accept().encode(), BOB)
        await bob.envelope(MsgType.ACCEPT)
        assert (await carol.envelope(MsgType.NOTARIZE_ASSIGN)).sender == halls.here.key.raw
        for party in (alice, bob):
            assert (await party.notice("notary_assigned"))["notary"] == CAROL.public.raw.hex()
        delivery = Deliver(conversation_id=TALK, inline=b"work").encode()
        assert (await conversing(bob, MsgType.DELIVER, delivery, ALICE))["state"] == "DELIVERED"
        await alice.envelope(MsgType.DELIVER)
        verdict = Verdict(Judgement.APPROVE, ALICE.public.raw, BOB.public.raw).encode()
        assert (await conversing(carol, MsgType.VERDICT, verdict, ALICE))["state"] == "RESOLVED"
        await alice.envelope(MsgType.VERDICT)


async def test_an_envelope_is_taken_by_one_hall(halls: Halls) -> None:
    """It is replayed to the other one, which has never seen its nonce."""
    halls.start()
    async with mesh_peer(halls.here.url, ALICE) as alice, mesh_peer(halls.there.url, BOB) as bob:
        await halls.present(ALICE, BOB)
        await conversing(alice, MsgType.PROPOSE, Propose(max_rounds=3).encode(), BOB)
        counter = bob.seal(MsgType.COUNTER, Counter(amount=5).encode(), ALICE.public.raw, TALK)
        await bob.post(counter)
        await bob.notice("accepted")
        async with mesh_peer(halls.here.url, BOB) as replayed:
            await replayed.post(counter)
            assert "taken before" in (await replayed.notice("out_of_order"))["reason"]


async def test_a_conversation_that_ends_at_its_review_is_told_at_both_halls(halls: Halls) -> None:
    for hall in halls.made:
        hall.use("--set", "mesh_review=0.2")
    halls.start()
    async with mesh_peer(halls.here.url, ALICE) as alice, mesh_peer(halls.there.url, BOB) as bob:
        await halls.present(ALICE, BOB)
        await conversing(alice, MsgType.PROPOSE, Propose().encode(), BOB)
        await conversing(bob, MsgType.ACCEPT, Accept().encode(), ALICE)
        delivery = Deliver(conversation_id=TALK, inline=b"work").encode()
        await conversing(bob, MsgType.DELIVER, delivery, ALICE)
        for party in (alice, bob):
            changed = await party.notice("conversation_changed")
            assert (changed["state"], changed["cause"]) == ("RESOLVED", "review")


async def test_a_case_about_a_conversation_is_told_at_both_halls(halls: Halls) -> None:
    """Nothing is revealed: the conversation goes on."""
    for hall in halls.made:
        hall.use("--set", "court_reveal_timeout=0.2")
    halls.start()
    async with mesh_peer(halls.here.url, ALICE) as alice, mesh_peer(halls.there.url, BOB) as bob:
        await halls.present(ALICE, BOB)
        await conversing(alice, MsgType.PROPOSE, Propose().encode(), BOB)
        await conversing(bob, MsgType.ACCEPT, Accept().encode(), ALICE)
        delivery = Deliver(conversation_id=TALK, inline=b"work").encode()
        await conversing(bob, MsgType.DELIVER, delivery, ALICE)
        await conversing(alice, MsgType.DISPUTE, b"", BOB)
        lawyer = await AgentChat.connect(halls.here.url, "alice", ALICE)
        intent = {"proposal_id": f"mesh:{TALK.hex()}", "reason": "no", "commitment": COMMITMENT}
        await lawyer.send(type="DISPUTE_INTENT", **signed_step(ALICE, "DISPUTE_INTENT", **intent))
        await lawyer.answer("DISPUTE_INTENT_ACK")
        for _ in ("filed", "fallen back"):
            for party in (alice, bob):
                changed = await party.notice("conversation_changed")
                assert (changed["state"], changed["cause"]) == ("NEGOTIATING", "court")
        assert (await conversing(bob, MsgType.ACCEPT, Accept().encode(), ALICE))["state"] == "COMMITTED"
        await lawyer.close()


async def test_an_envelope_to_an_agent_that_is_elsewhere_without_the_mesh_waits_for_it(halls: Halls) -> None:
    for hall in halls.made:
        hall.use("--set", "mesh_inbox=store")
    halls.start()
    async with mesh_peer(halls.here.url, ALICE) as alice, await come(halls.there, BOB):
        await halls.present(ALICE, BOB)
        await conversing(alice, MsgType.PROPOSE, Propose().encode(), BOB)
        assert (await alice.notice("offline"))["stored"] is True
        async with mesh_peer(halls.there.url, BOB) as bob:
            assert len((await bob.ask("inbox"))["envelopes"]) == 1


async def test_an_envelope_that_the_other_hall_brought_is_not_kept(halls: Halls) -> None:
    for hall in halls.made:
        hall.use("--set", "mesh_inbox=store")
    halls.start()
    async with mesh_peer(halls.here.url, ALICE) as alice, mesh_peer(halls.there.url, BOB) as bob:
        await halls.present(ALICE, BOB)
        await conversing(alice, MsgType.PROPOSE, Propose().encode(), BOB)
        await bob.envelope(MsgType.PROPOSE)
        # Units of a hall are done one after another.
        await conversing(bob, MsgType.COUNTER, Counter().encode(), ALICE)
        assert (await bob.ask("inbox"))["envelopes"] == []
        assert alice.notices == []


async def test_an_envelope_to_an_agent_of_a_hall_that_died_is_in_its_inbox(halls: Halls) -> None:
    for hall in halls.made:
        hall.use("--set", "mesh_inbox=store")
    halls.start()
    async with mesh_peer(halls.here.url, ALICE) as alice:
        async with mesh_peer(halls.there.url, BOB):
            await halls.present(ALICE, BOB)
            halls.there.kill()
        await conversing(alice, MsgType.PROPOSE, Propose().encode(), BOB)
        async with mesh_peer(halls.here.url, BOB) as bob:
            assert len((await bob.ask("inbox"))["envelopes"]) == 1


async def test_a_sender_is_told_of_an_agent_that_left_the_other_hall_a_moment_before(halls: Halls) -> None:
    halls.start()
    async with mesh_peer(halls.here.url, ALICE) as alice:
        async with mesh_peer(halls.there.url, BOB):
            await halls.present(ALICE, BOB)
        await halls.present(ALICE)
        with psycopg.connect(halls.url) as connection:  # as it was before the departure was written
            connection.execute(
                "INSERT INTO present (hall, key, presence, on_mesh)"
                " SELECT id, %s, 'mesh', TRUE FROM halls WHERE id NOT IN (SELECT hall FROM present)",
                (BOB.public.raw,),
            )
        await conversing(alice, MsgType.PROPOSE, Propose().encode(), BOB)
        assert (await alice.notice("offline"))["stored"] is True
        async with mesh_peer(halls.there.url, BOB) as bob:
            assert len((await bob.ask("inbox"))["envelopes"]) == 1
