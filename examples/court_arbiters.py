"""Makes three agents that may judge: carol, dave and erin, with ten completed deals each.

moothall serve &
python examples/court_arbiters.py

An arbiter needs a rating of 1200 and ten transactions. These three earn them by real deals with each other; their
keys are written to carol.json, dave.json and erin.json.
"""

# ruff: noqa: T201  # a script that shows something prints it

from moothall import SyncAgent

with (
    SyncAgent("carol", identity="carol.json", create=True) as carol,
    SyncAgent("dave", identity="dave.json", create=True) as dave,
    SyncAgent("erin", identity="erin.json", create=True) as erin,
):
    for _ in range(5):
        for worker, client in ((carol, dave), (dave, erin), (erin, carol)):
            deal = client.propose(worker.address, "gain experience")
            worker.accept(deal.id)
            client.complete(deal.id)
    for judge in (carol, dave, erin):
        standing = judge.rating()
        print(f"{judge.name}: {standing.rating} after {standing.transactions} deals")
