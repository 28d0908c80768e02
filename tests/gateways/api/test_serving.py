"""The checks before every route of the API: method, origin, who asks, parameters, price; then the answer."""

from typing import Any

import pytest

from moothall.errors import DisputeNotFound, StoreUnreachable
from moothall.gateways.api import serving
from moothall.gateways.api.serving import MAX_READING
from moothall.hall.api_channels import ROUTES
from moothall.hall.api_routes import Answer, ApiRoute, Audience, Paged, ReadCost, Stored, Viewer
from moothall.settings.limits import Rate
from tests.identity.vectors import ALICE
from tests.support.api import ApiOf, bearer
from tests.support.world import ADMIN_KEY, HeldStore, World

ORIGIN = "https://shows.example"


class Number(Answer):
    number: int


class Asker(Answer):
    key: str | None
    is_operator: bool


def row(path: str, handler: object, answer: type[Answer] = Number, **fields: object) -> ApiRoute[Paged]:
    return ApiRoute(path, handler, Paged, answer, "For a test.", **{"cost": ReadCost(), **fields})  # type: ignore[arg-type]


class Counting:
    """Answers with the number of times that it was asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, hall: object, viewer: Viewer, query: Paged) -> Number:
        self.times += 1
        return Number(number=self.times)


def who(hall: object, viewer: Viewer, query: Paged) -> Asker:
    return Asker(key=None if viewer.key is None else viewer.key.hex(), is_operator=viewer.is_operator)


# -- methods and paths -----------------------------------------------------------------------------


def test_an_unknown_path_says_where_the_routes_are_listed() -> None:
    api = ApiOf(World(), ROUTES)
    for path in ("nothing", "a/b", "a/b/c", "a/b/c/d"):
        reply = api.get(path)
        assert (reply.status, reply.code) == (404, "NOT_FOUND")
        assert "/api/v1/openapi.json" in reply.message


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_the_api_only_reads(method: str) -> None:
    reply = ApiOf(World(), ROUTES).get("hall", method=method)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


def test_a_known_answer_is_not_sent_again() -> None:
    api = ApiOf(World(), ROUTES)
    etag = api.get("hall").headers["ETag"]
    for known in (etag, f'W/{etag}, "other"', "*"):
        reply = api.get("hall", {"if-none-match": known})
        assert (reply.status, reply.body, reply.headers["ETag"]) == (304, None, etag)
    assert api.get("hall", {"if-none-match": '"other"'}).status == 200


# -- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=x", "limit"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=1&limit=2", "limit"),
        ("before=1", "before"),
        (f"after={'x' * 301}", "after"),
    ],
)
def test_a_wrong_parameter_is_named(query: str, named: str) -> None:
    reply = ApiOf(World(), ROUTES).get(f"channels?{query}")
    assert (reply.status, reply.code) == (400, "INVALID_MSG")
    assert f"`{named}`" in reply.message


@pytest.mark.parametrize("query", ["limit", "%ff=1", "&".join(f"a{n}=1" for n in range(17))])
def test_a_query_that_is_not_one_is_refused(query: str) -> None:
    assert ApiOf(World(), ROUTES).get(f"channels?{query}").status == 400


# -- who asks --------------------------------------------------------------------------------------


def test_a_token_stands_for_the_key_that_it_was_given_to() -> None:
    world = World()
    alice = world.agent("alice", key=ALICE)
    api = ApiOf(world, [row("who", who, Asker)])
    assert api.get("who").body == {"key": None, "is_operator": False}
    token = bearer(world, alice)
    reply = api.get("who", token)
    assert reply.body == {"key": ALICE.public.raw.hex(), "is_operator": False}
    assert reply.headers["Cache-Control"] == "private, no-cache"
    world.disconnect(alice)
    assert api.get("who", token).status == 200
    world.advance(900)
    reply = api.get("who", token)
    assert (reply.status, reply.code) == (401, "AUTH_REQUIRED")


@pytest.mark.parametrize("given", ["Basic YTpi", "Bearer", "Bearer x", f"Bearer {'A' * 75}"])
def test_what_is_no_token_of_this_hall_is_refused_and_not_taken_for_a_stranger(given: str) -> None:
    reply = ApiOf(World(), ROUTES).get("hall", {"authorization": given})
    assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_a_key_that_was_banned_reads_no_more() -> None:
    world = World(admin_key=ADMIN_KEY)
    alice = world.agent("alice", key=ALICE)
    token = bearer(world, alice)
    world.send(world.connect(), "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=alice.id)
    reply = ApiOf(world, ROUTES).get("hall", token)
    assert (reply.status, reply.code) == (403, "BANNED")


def test_an_operator_shows_the_admin_key() -> None:
    world = World(admin_key=ADMIN_KEY)
    api = ApiOf(world, [row("who", who, Asker, audience=Audience.OPERATORS)])
    assert api.get("who").status == 401
    assert api.get("who", {"x-admin-key": ADMIN_KEY}).body == {"key": None, "is_operator": True}
    assert world.log.find("admin_operation") == []
    wrong = [api.get("who", {"x-admin-key": "guess"}).status for _ in range(11)]
    assert wrong == [401] * 10 + [429]
    assert api.get("who", {"x-admin-key": ADMIN_KEY}).status == 429


def test_a_route_for_agents_needs_a_key() -> None:
    world = World()
    api = ApiOf(world, [row("who", who, Asker, audience=Audience.AGENTS)])
    assert api.get("who").status == 401
    assert api.get("who", bearer(world, world.agent("alice", key=ALICE))).status == 200


@pytest.mark.parametrize("settings", [{"allowlist": True}, {"page_public": False}])
def test_a_hall_that_is_not_public_shows_strangers_nothing(settings: dict[str, Any]) -> None:
    world = World(approved=[ALICE], **settings)
    api = ApiOf(world, [*ROUTES, row("open", who, Asker, audience=Audience.ALL)])
    assert api.get("hall").status == 401
    assert api.get("open").status == 200
    assert api.get("hall", bearer(world, world.agent("alice", key=ALICE))).status == 200


# -- pages of other origins ------------------------------------------------------------------------


def test_pages_of_other_origins_are_refused() -> None:
    reply = ApiOf(World(), ROUTES).get("hall", {"origin": ORIGIN}, is_foreign_page=True)
    assert (reply.status, reply.code) == (403, "NOT_ALLOWED")
    assert "Access-Control-Allow-Origin" not in reply.headers


def test_the_operator_can_let_pages_of_other_origins_read() -> None:
    api = ApiOf(World(api_origins=(ORIGIN,)), ROUTES)
    page = {"origin": ORIGIN}
    for path, status in (("hall", 200), ("nothing", 404)):
        reply = api.get(path, page, is_foreign_page=True)
        assert (reply.status, reply.headers["Access-Control-Allow-Origin"]) == (status, ORIGIN)
    preflight = api.get("hall", page, method="OPTIONS", is_foreign_page=True)
    assert (preflight.status, preflight.headers["Access-Control-Allow-Origin"]) == (204, ORIGIN)
    assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
    other = api.get("hall", {"origin": "https://other.example"}, is_foreign_page=True)
    assert other.status == 403


# -- what it costs ---------------------------------------------------------------------------------


def test_strangers_get_the_same_answer_for_a_moment() -> None:
    world, counting = World(), Counting()
    api = ApiOf(world, [row("count", counting)])
    assert [api.get("count").body["number"] for _ in range(3)] == [1, 1, 1]
    assert api.get("count?limit=2").body["number"] == 2
    assert api.get("count", bearer(world, world.agent("alice", key=ALICE))).body["number"] == 3
    world.advance(1)
    assert api.get("count").body["number"] == 4


def test_who_asks_for_more_than_its_budget_has_to_wait() -> None:
    world = World(address_store=Rate(1000, 10))
    counting = Counting()
    api = ApiOf(world, [row("count", counting, cost=ReadCost(store=400), fresh=0.0)])
    statuses = [api.get("count").status for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert counting.times == 2
    assert int(api.get("count").headers["Retry-After"]) >= 1
    assert api.get("count", ip="198.51.100.7").status == 200
    world.advance(10)
    assert api.get("count").status == 200


def test_long_answers_are_charged_by_the_byte() -> None:
    class Long(Answer):
        text: str

    world = World(address_bytes=Rate(10_000, 10))
    long = row("long", lambda hall, viewer, query: Long(text="x" * 9000), Long)
    api = ApiOf(world, [long])
    assert [api.get("long").status for _ in range(2)] == [200, 429]


def test_limits_can_be_turned_off() -> None:
    world = World(no_limits=True, address_store=Rate(1, 1000))
    api = ApiOf(world, [row("count", Counting(), cost=ReadCost(store=400), fresh=0.0)])
    assert [api.get("count").status for _ in range(4)] == [200] * 4


# -- what the store reads --------------------------------------------------------------------------


def stored(number: int) -> Stored:
    return Stored(lambda books: Number(number=number))


def test_an_answer_from_the_store_comes_later() -> None:
    world = World()
    held = HeldStore(world.books)
    api = ApiOf(world, [row("later", lambda hall, viewer, query: stored(7))], held)
    replies = api.ask("later")
    assert replies == []
    held.do_next()
    assert [(reply.status, reply.body) for reply in replies] == [(200, {"number": 7})]
    assert "ETag" in replies[0].headers


def test_only_so_many_requests_wait_for_the_store() -> None:
    world = World()
    held = HeldStore(world.books)
    api = ApiOf(world, [row("later", lambda hall, viewer, query: stored(7))], held)
    waiting = [api.ask("later") for _ in range(MAX_READING)]
    reply = api.get("later")
    assert (reply.status, reply.code, reply.headers["Retry-After"]) == (503, "BUSY", "1")
    held.do_next()
    assert waiting[0][0].status == 200
    assert api.ask("later") == [waiting[0][0]]  # kept for strangers, so that the store is not asked
    assert len(held) == MAX_READING - 1


def test_what_the_store_refuses_is_said_and_what_breaks_is_logged() -> None:
    world = World()

    def refuse(books: object) -> Answer:
        raise DisputeNotFound("There is no such dispute")

    def fail(books: object) -> Answer:
        raise OSError("disk on fire")

    def wait_in_vain(books: object) -> Answer:
        raise StoreUnreachable("on fire")

    api = ApiOf(
        world,
        [
            row("refused", lambda hall, viewer, query: Stored(refuse)),
            row("broken", lambda hall, viewer, query: Stored(fail)),
            row("unreachable", lambda hall, viewer, query: Stored(wait_in_vain)),
        ],
    )
    reply = api.get("unreachable")
    assert (reply.status, reply.code) == (503, "UNAVAILABLE")
    assert "fire" not in reply.message
    reply = api.get("refused")
    assert (reply.status, reply.code) == (404, "DISPUTE_NOT_FOUND")
    reply = api.get("broken")
    assert (reply.status, reply.code) == (500, "INTERNAL_ERROR")
    assert "fire" not in reply.message
    assert len(world.log.find("api_read_failed")) == 2


def test_two_rows_with_one_path_fail_at_start() -> None:
    with pytest.raises(ValueError, match="two routes"):
        ApiOf(World(), [*ROUTES, *ROUTES])


def test_the_document_is_shown_to_all() -> None:
    world = World(allowlist=True)
    reply = ApiOf(world, ROUTES).get(serving.DOCUMENT)
    assert (reply.status, reply.body["openapi"]) == (200, "3.1.0")
