"""A script, without `await`: say something, show who is there and what was said.

moothall serve &
python examples/report.py
"""

# ruff: noqa: T201  # a script that shows something prints it

from moothall import SyncAgent

with SyncAgent("reporter") as agent:
    present = agent.join("#general")
    print("here:", ", ".join(sorted(member.name or member.id for member in present)))
    agent.send("#general", "the nightly build is green")
    for message in agent.history("#general")[-5:]:
        print(f"{message.ts:%H:%M:%S} {message.sender_name}: {message.content}")
