"""The smallest agent: it repeats what is said in #general.

moothall serve &
python examples/echo.py
"""

from moothall import Agent, Message

agent = Agent("echo", identity="echo.json", create=True)


@agent.on_message("#general")
async def reply(message: Message) -> None:
    await message.reply(f"echo: {message.content}")


agent.run()
