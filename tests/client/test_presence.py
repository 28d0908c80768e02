"""What workers tell of their spending, through the SDK."""

import pytest

from moothall import Agent, Budget, BudgetExceeded, PresenceChange, PrivateKey, Welcome
from moothall.client.events import budget
from moothall.client.presence import presence_message
from moothall.wire.agentchat import client
from tests.client.conftest import OpenHall
from tests.client.door import Door
from tests.client.meeting import QUICKLY, Heard, soon

ALICE = PrivateKey(b"a" * 32)
ADMIN_KEY = "open sesame"


def test_what_is_not_told_is_left_out() -> None:
    assert presence_message(("away", None), None) == client.SetPresence(status="away")
    reported = client.ReportedBudget(limit=5, spent=7, session="s")
    assert presence_message(None, Budget(5, 7, "s")) == client.SetPresence(budget=reported)


@pytest.mark.parametrize("told", [None, 5, {}, {"limit": 5}, {"limit": 5, "spent": "x"}, [5, 6]])
def test_what_another_server_tells_may_be_anything(told: object) -> None:
    assert budget(told) is None


def test_what_is_left() -> None:
    assert (Budget(5, 2).left, Budget(5, 7).left) == (3, 0)


async def test_reports_caps_and_a_reconnect(open_hall: OpenHall) -> None:
    alice = Agent("alice", identity=ALICE, channels=["#general"], backoff=QUICKLY)
    async with (
        open_hall(admin_key=ADMIN_KEY) as app,
        Door(app.port.address[1]) as door,
        alice.connected(door.url),
        Agent("bob", channels=["#general"]).connected(app.url) as bob,
    ):
        presences: Heard[PresenceChange] = Heard()
        bob.on_presence(presences)
        admin = bob.admin(ADMIN_KEY)
        await alice.set_presence("busy", "coding", budget=Budget(1000, 10, "s1"))
        await presences.until(lambda change: change.budget == Budget(1000, 10))
        await alice.report_budget(Budget(1000, 70, "s1"))
        change = await presences.until(lambda change: change.budget == Budget(1000, 70))
        assert (change.presence, change.status_text) == ("busy", "coding")
        (shown,) = await bob.agents([alice.address])
        assert shown.budget == Budget(1000, 70)

        back: Heard[Welcome] = Heard()
        alice.on_connect(back)
        door.drop()
        await back.next()
        await presences.until(lambda change: change.budget == Budget(1000, 70))  # it is shown again
        found = await admin.budgets()
        assert (found.spent, found.total, found.cap) == (70, 1, None)  # and not counted again
        assert [(each.agent_id, each.spent, each.cap, each.name) for each in found.keys] == [
            (alice.address, 70, None, "alice")
        ]

        assert await admin.set_budget("alice", 100) == alice.address
        assert await admin.set_budget(None, 5000) is None
        with pytest.raises(BudgetExceeded, match="This key has spent 101 of 100 tokens today"):
            await alice.set_presence("away", budget=Budget(1000, 101, "s1"))
        (shown,) = await bob.agents([alice.address])
        assert (shown.presence, shown.budget) == ("away", Budget(1000, 101))
        with pytest.raises(BudgetExceeded):
            await alice.report_budget(Budget(1000, 101, "s1"))

        door.drop()  # a cap that is exceeded does not keep the agent out
        await back.next()
        assert await admin.set_budget(ALICE.public, None) == alice.address
        await soon(alice.report_budget(Budget(1000, 120, "s1")))
        found = await admin.budgets()
        assert (found.spent, found.cap, [each.cap for each in found.keys]) == (120, 5000, [None])
