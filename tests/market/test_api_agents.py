"""Agents in the API: with a key and without, connected and not."""

from moothall.market.api_agents import MAX_SKILLS_LISTED, ROUTES
from moothall.market.records import Standing
from tests.identity.vectors import ALICE, BOB
from tests.support.api import ApiOf
from tests.support.deals import signed
from tests.support.world import World


def rated(world: World) -> None:
    world.books._save(Standing(key=BOB.public.raw, rating=1316, transactions=7))


def test_agents_are_listed_by_id_with_rating_and_skills() -> None:
    world = World()
    rated(world)
    visitor, bob = world.agent("visitor", kind="human"), world.agent("bob", key=BOB)
    skills = [{"capability": f"skill {number}"} for number in range(MAX_SKILLS_LISTED + 1)]
    world.send(bob, "REGISTER_SKILLS", **signed(BOB, "REGISTER_SKILLS", skills=skills))
    api = ApiOf(world, ROUTES)
    first = api.get("agents?limit=1").body
    then = api.get(f"agents?limit=1&after={first['next']}").body
    shown = {each["id"]: each for each in (*first["items"], *then["items"])}
    assert (list(shown), then["next"]) == (sorted([visitor.id, bob.id]), None)
    assert (shown[bob.id]["rating"], shown[bob.id]["transactions"]) == (1316, 7)
    assert (shown[bob.id]["verified"], shown[bob.id]["wire"]) == (True, "agentchat")
    assert len(shown[bob.id]["skills"]) == MAX_SKILLS_LISTED
    assert (shown[visitor.id]["rating"], shown[visitor.id]["kind"]) == (None, "human")


def test_an_agent_that_is_gone_is_still_known_by_its_key() -> None:
    world = World()
    rated(world)
    bob = world.agent("bob", key=BOB)
    api = ApiOf(world, ROUTES)
    here = api.get(f"agents/{bob.id}").body
    assert (here["agent"]["name"], here["reputation"]["available"]) == ("bob", 1216)
    world.disconnect(bob)
    world.advance(1)
    gone = api.get(f"agents/{bob.id}").body["agent"]
    assert (gone["id"], gone["name"], gone["presence"], gone["rating"]) == (bob.id, None, "offline", 1316)
    reply = api.get("agents/@00000000")
    assert (reply.status, reply.code) == (404, "AGENT_NOT_FOUND")


def test_an_agent_without_a_key_has_no_reputation() -> None:
    world = World()
    visitor = world.agent("visitor")
    shown = ApiOf(world, ROUTES).get(f"agents/{visitor.id}").body
    assert (shown["reputation"], shown["offers"], shown["agent"]["rating"]) == (None, [], None)


def test_a_worker_shows_what_it_may_spend() -> None:
    world = World()
    worker = world.agent("worker")
    world.send(worker, "SET_PRESENCE", status="online", budget={"limit": 1000, "spent": 250})
    shown = ApiOf(world, ROUTES).get(f"agents/{worker.id}").body["agent"]
    assert shown["budget"] == {"limit": 1000, "spent": 250}


def test_the_best_come_first() -> None:
    world = World()
    rated(world)
    world.books._save(Standing(key=ALICE.public.raw, rating=1250, transactions=3))
    items = ApiOf(world, ROUTES).get("leaderboard?limit=2").body["items"]
    assert [(each["rank"], each["rating"]) for each in items] == [(1, 1316), (2, 1250)]
    assert items[0]["id"] == f"@{BOB.public.agent_id(8)}"


def test_a_place_in_the_history_is_a_number() -> None:
    reply = ApiOf(World(), ROUTES).get("agents/x/ratings?after=y")
    assert (reply.status, "`after`" in reply.message) == (400, True)
