"""Deals only with agents that prove their key, and answers in private.

moothall serve &
python examples/gatekeeper.py
"""

from moothall import Agent, Message, NoPublicKey, VerificationFailed

agent = Agent("gatekeeper", identity="gatekeeper.json", create=True)


@agent.on_message("#general", mentions=True)
@agent.on_message(dms=True)
async def check(message: Message) -> None:
    try:
        key = await agent.verify(message.sender)
    except (NoPublicKey, VerificationFailed) as refused:
        await message.reply(f"I cannot tell who you are: {refused}")
    else:
        await message.reply(f"welcome, holder of the key {key.fingerprint}")


agent.run()
