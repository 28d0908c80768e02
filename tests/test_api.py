"""Every route of the API in a real hall: as a stranger, an agent that is not a party, a party, and an operator.

The routes come from the table, so that a new one cannot be forgotten. Secrets are planted in a channel, a message,
deals, a case and a conversation; what each viewer gets is searched for them, and compared with the schema of its
route.
"""

import asyncio
import json
from base64 import b64decode
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from moothall import Agent, EvidenceItem
from moothall.app import App
from moothall.court.verify import verify_case
from moothall.gateways.api.serving import PREFIX
from moothall.identity import PrivateKey, PublicKey
from moothall.identity.seals import key_id
from moothall.identity.signatures import decode_signature, verify
from moothall.market import credit_books
from moothall.mesh import MeshAgent
from moothall.settings import Settings
from moothall.settings.limits import Rate
from tests.client.meeting import QUICKLY, Heard, soon
from tests.store.support import Log, run
from tests.support.cases import ARBITERS
from tests.support.schemas import Schemas

ALICE: Final = PrivateKey(bytes([1]) * 32)
BOB: Final = PrivateKey(bytes([2]) * 32)
OUTSIDER: Final = PrivateKey(bytes([3]) * 32)
ADMIN_KEY: Final = "open-sesame"
PATIENCE: Final = 20.0

CHANNEL = "#cellar"
LINE, DIRECT = "line-in-the-cellar", "whispered-directly"
TASK, SECOND = "task-nobody-knows", "second-task-unknown"
REASON, STATEMENT = "reason-of-the-quarrel", "statement-of-evidence"
OFFER = "offer-on-the-mesh"

STRANGER, OUTSIDE, PARTY, OPERATOR = "stranger", "outsider", "party", "operator"
VIEWERS = (STRANGER, OUTSIDE, PARTY, OPERATOR)
OWN = {CHANNEL: PARTY, LINE: PARTY, TASK: PARTY, SECOND: PARTY, REASON: PARTY, STATEMENT: PARTY, OFFER: PARTY}


class Reply(NamedTuple):
    status: int
    text: str
    etag: str | None

    @property
    def body(self) -> Any:
        return json.loads(self.text)


class Planted(NamedTuple):
    deal: str
    second: str
    case: str
    conversation: str


class Town:
    """A hall with secrets in it."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.alice = MeshAgent("alice", key=ALICE, url=app.url, backoff=QUICKLY)
        self.bob = MeshAgent("bob", key=BOB, url=app.url, backoff=QUICKLY)
        self.judges = [
            Agent(f"judge{number}", identity=key, url=app.url, backoff=QUICKLY)
            for number, key in enumerate(ARBITERS[:3])
        ]
        self.agents: list[Agent | MeshAgent] = [self.alice, self.bob, *self.judges]
        for judge in self.judges:
            judge.on_arbiter_assigned(_accept)
            judge.on_case(_judge)

    async def __aenter__(self) -> "Town":
        for agent in self.agents:
            await agent.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for agent in self.agents:
            await agent.close()

    async def plant(self) -> Planted:
        await run(
            self.app._market_store,
            lambda books: credit_books.deposit(books, ALICE.public.raw, 5_000_000, "first", now=1),
        )
        alice, bob = await self.alice.agentchat(), await self.bob.agentchat()
        await alice.create_channel(CHANNEL, invite_only=True)
        await alice.send(CHANNEL, LINE)
        await alice.send(bob.address, DIRECT)
        await bob.register_skills([{"capability": "digging"}])
        heard: Heard[Any] = Heard()
        self.bob.on("PROPOSE")(heard)
        conversation = await self.alice.propose(self.bob.id, OFFER, amount=1_000_000)
        offered = (await heard.next()).conversation
        await offered.accept()
        second = await alice.propose(bob.address, SECOND)
        await bob.accept(second.id)
        await bob.complete(second.id)
        deal = await alice.propose(bob.address, TASK, stake=20)
        await bob.accept(deal.id, stake=10)
        dispute = await deal.file_dispute(REASON)
        (answer,) = [each for each in await bob.disputes() if each.proposal_id == deal.id]
        await soon(dispute.submit([EvidenceItem.commit("4f2a9c1")], STATEMENT))
        await soon(answer.submit([EvidenceItem.commit("4f2a9c1")], STATEMENT))
        await soon(dispute.outcome())
        return Planted(deal.id, second.id, dispute.dispute_id, conversation.id)

    def headers(self, viewer: str) -> dict[str, str]:
        if viewer == OPERATOR:
            return {"X-Admin-Key": ADMIN_KEY}
        key = {OUTSIDE: OUTSIDER, PARTY: ALICE}.get(viewer)
        if key is None:
            return {}
        hall = self.app.hall
        token, _ = hall.api_tokens.give(key.public.raw, hall.timestamp())
        return {"Authorization": f"Bearer {token}"}

    async def get(self, viewer: str, path: str) -> Reply:
        return await self.ask(path, self.headers(viewer))

    async def ask(self, path: str, headers: dict[str, str], method: str = "GET") -> Reply:
        return await asyncio.to_thread(self._ask, path, headers, method)

    def _ask(self, path: str, headers: dict[str, str], method: str) -> Reply:
        host, port = self.app.port.address
        with closing(HTTPConnection(host, port, timeout=PATIENCE)) as connection:
            connection.request(method, PREFIX + path, headers=headers)
            answer = connection.getresponse()
            return Reply(answer.status, answer.read().decode(), answer.headers["ETag"])


async def _accept(assignment: Any) -> bool:
    return True


async def _judge(case: Any) -> tuple[str, str]:
    return "disputant", "so I found"


def settings(tmp_path: Path, **others: Any) -> Settings:
    return Settings(
        data_dir=tmp_path / "data",
        port=0,
        keep=False,
        court_arbiter_rating=0,
        court_arbiter_transactions=0,
        admin_key=ADMIN_KEY,
        rate_message=Rate(0, 1),
        **others,
    )


def targets(path: str, planted: Planted) -> list[str]:
    """The path of a route with values for its parts. A route with a part that is not known here fails the test."""
    ids = {
        "agents": [ALICE.public.agent_id(8), BOB.public.agent_id(16)],
        "deals": [planted.deal, planted.second],
        "cases": [planted.case],
        "mesh/conversations": [planted.conversation],
    }
    if "{name}" in path:
        return [path.replace("{name}", quote(name, safe="")) for name in ("#general", CHANNEL)]
    if "{id}" in path:
        return [path.replace("{id}", quote(each)) for each in ids[path.partition("/{id}")[0]]]
    return [path, f"{path}?limit=1"] if path in LISTS else [path]


LISTS = ("channels", "agents", "deals", "cases", "mesh/agents", "mesh/conversations", "mesh/ledger")


class Walk:
    """Asks for everything, and checks each answer."""

    def __init__(self, town: Town, planted: Planted, document: dict[str, Any]) -> None:
        self.town = town
        self.planted = planted
        self.schemas = Schemas(document)
        self.answered: dict[str, set[str]] = {}  # viewers by route
        self.seen: dict[str, set[str]] = {secret: set() for secret in (*OWN, DIRECT)}

    async def go(self) -> None:
        for path, methods in self.schemas.document["paths"].items():
            route = path.removeprefix(PREFIX)
            answers = methods["get"]["responses"]
            for target in targets(route, self.planted):
                for viewer in VIEWERS:
                    self._look(route, viewer, await self.town.get(viewer, target), answers)

    def _look(self, route: str, viewer: str, reply: Reply, answers: dict[str, Any]) -> None:
        assert reply.status in (200, 401, 404), f"{route} as {viewer}: {reply}"
        if reply.status == 200:
            self.answered.setdefault(route, set()).add(viewer)
            self.schemas.check(reply.body, answers["200"]["content"]["application/json"]["schema"])
        else:
            self.schemas.check(reply.body, {"$ref": "#/components/schemas/Error"})
        for secret, viewers in self.seen.items():
            if _holds(reply.text, secret):
                viewers.add(viewer)


def _holds(text: str, secret: str) -> bool:
    """Also inside of envelopes, which are base64."""
    if secret in text:
        return True
    if '"envelope":"' not in text:
        return False
    pieces = [piece.partition('"')[0] for piece in text.split('"envelope":"')[1:]]
    return any(secret.encode() in b64decode(piece + "==") for piece in pieces)


def check_steps(answer: Any, count: int) -> None:
    """A reader checks every signature with what is in the answer."""
    assert len(answer["steps"]) == count
    for step in answer["steps"]:
        signature = decode_signature(step["sig"])
        assert signature is not None
        assert step["follows"]
        assert verify(PublicKey.from_pem(step["key"]).raw, b64decode(step["signed"]), signature)


async def check_http(town: Town) -> None:
    """What the port does for the API."""
    for path in ("hall", "leaderboard"):  # from memory, and from the store
        first = await town.get(STRANGER, path)
        assert first.etag is not None
        assert await town.ask(path, {}, "HEAD") == Reply(200, "", first.etag)
        assert await town.ask(path, {"If-None-Match": first.etag}) == Reply(304, "", first.etag)
        refused = await town.ask(path, {"Host": "evil.example"})
        assert (refused.status, refused.body["error"]["code"]) == (403, "NOT_ALLOWED")
        assert (await town.ask(path, {"Origin": "https://evil.example"})).status == 403
        assert (await town.ask(path, {}, "POST")).status == 405


async def test_no_route_shows_more_than_its_viewer_may_see(tmp_path: Path) -> None:
    async with App(settings(tmp_path), Log()) as app, Town(app) as town:
        planted = await town.plant()
        document = (await town.get(STRANGER, "openapi.json")).body
        await check_http(town)
        walk = Walk(town, planted, document)
        await walk.go()
        assert set(walk.answered) == {path.removeprefix(PREFIX) for path in document["paths"]}
        for_operators = ("metrics/history", "connections", "bans", "budgets")
        assert all(walk.answered[route] == {OPERATOR} for route in for_operators)
        assert walk.answered["mesh/ledger"] == {OUTSIDE, PARTY, OPERATOR}
        assert walk.seen == {**{secret: {viewer} for secret, viewer in OWN.items()}, DIRECT: set()}

        case = (await town.get(PARTY, f"cases/{planted.case}")).body
        proof = verify_case(case, [key_id(PublicKey(bytes.fromhex(app.hall.public_key)))])
        assert proof.problems == []
        check_steps((await town.get(PARTY, f"deals/{planted.second}")).body, 3)
        points = (await town.get(STRANGER, f"agents/{ALICE.public.agent_id(8)}/ratings?limit=1")).body
        assert points["next"] is not None
        ledger = (await town.get(PARTY, "mesh/ledger")).body
        assert (ledger["balance"], ledger["totals"]) == (4_000_000, None)
        assert (await town.get(OPERATOR, "mesh/ledger")).body["totals"]["escrows"] == 1_000_000

    opened = settings(tmp_path, public_deals=True, public_cases=True)
    async with App(opened, Log()) as app, Town(app) as town:
        walk = Walk(town, planted, document)
        await walk.go()
        for secret in (TASK, SECOND, REASON, STATEMENT, OFFER):
            assert walk.seen.pop(secret) == set(VIEWERS)
        assert not any(walk.seen.values())
        check_steps((await town.get(STRANGER, f"deals/{planted.deal}")).body, 2)
        mine = (await town.get(OUTSIDE, "deals?whose=mine")).body
        assert (mine["whose"], mine["items"]) == ("mine", [])
        assert mine["counts"]["completed"] == 1
