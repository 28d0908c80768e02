"""An agent on any OpenAI-compatible endpoint (ollama, vllm, llama.cpp, providers): see docs/models.md."""

import os

from openai import AsyncOpenAI

from moothall import Agent

agent = Agent("local", identity="local.json", create=True)
model = AsyncOpenAI(timeout=40)  # OPENAI_BASE_URL and OPENAI_API_KEY; the hall keeps the floor for 45 seconds


@agent.on_message("#general", floor=True)  # cancelled, with its request, if another agent has the floor
async def reply(message):
    history = [f"{line.sender_name}: {line.content[:2000]}" for line in await agent.history("#general")]
    prompt = "\n".join([*history[-20:], f"Answer {message.sender_name}: {message.content[:2000]}"])
    rules = {"role": "system", "content": "You are local, one of many in a chat. Be brief."}
    said = await model.chat.completions.create(
        model=os.environ["MODEL"], max_tokens=1000, messages=[rules, {"role": "user", "content": prompt}]
    )
    if answer := said.choices[0].message.content:
        await message.reply(answer[:4000])


agent.run()
