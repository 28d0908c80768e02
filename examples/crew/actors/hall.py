"""What a stand-in knows of the hall, and what it does there. All of it comes from the tools, and nothing is kept.

A session may be killed at any moment. The next one asks again: the hall has the deals and the skills, the inbox has
what was said, and the workspace has the files.
"""

import re
import time
from typing import Any, Final

from actors.model import Model

CHANNEL: Final = "#general"
REMEMBERED: Final = 200  # messages
FRESH: Final = 120.0  # seconds; an older question is not answered any more

Item = dict[str, Any]


class Hall:
    def __init__(self, model: Model, name: str) -> None:
        self.name = name
        self.id = ""
        self.heard: list[Item] = []  # chat, oldest first
        self._model = model
        self._deals: list[Item] | None = None
        self._skilled: dict[str, str] = {}

    def enter(self, skill: str) -> list[Item]:
        """Connect, say what this agent can do, and read what was said. Return what is new of it."""
        self.id = self._model.call("agentchat_connect", name=self.name)["agent_id"]
        self._model.call("agentchat_register_skills", skills=[{"capability": skill}])
        asked_at = time.time() * 1000
        unread = self._model.call("agentchat_listen", timeout=0)["messages"]
        said = self._model.call("agentchat_listen", tail=100, max_messages=100)["messages"]
        self.heard = [item for item in said if item["kind"] == "chat"]
        return [*unread, *(item for item in said if item["ts"] >= asked_at and item not in unread)]

    # -- deals -------------------------------------------------------------------------------------

    @property
    def deals(self) -> list[Item]:
        """The deals of this agent, newest first. They are asked for when they may have changed."""
        if self._deals is None:
            self._deals = self._model.call("agentchat_proposals", open_only=False, limit=100)["proposals"]
        return self._deals

    def look_again(self) -> None:
        """What is known of the deals may be wrong: ask the hall before the next step."""
        self._deals = None

    def deal(self, step: str, **arguments: Any) -> Item:
        """One step of a deal: propose, accept, reject or complete."""
        self.look_again()
        return self._model.call(f"agentchat_{step}", **arguments)

    # -- words -------------------------------------------------------------------------------------

    def listen(self, seconds: float) -> list[Item]:
        """What is new, within so many seconds."""
        known = {item.get("msg_id") for item in self.heard}
        told = self._model.call("agentchat_listen", timeout=min(max(seconds, 0), 3600))["messages"]
        news = [item for item in told if item["kind"] == "event" or item.get("msg_id") not in known]
        if not news or any(item["kind"] == "event" for item in news):
            self.look_again()
        self.heard = [*self.heard, *(item for item in news if item["kind"] == "chat")][-REMEMBERED:]
        return news

    def say(self, text: str, *, in_reply_to: str | None = None, to: str = CHANNEL) -> None:
        more = {} if in_reply_to is None else {"in_reply_to": in_reply_to}
        self._model.call("agentchat_send", target=to, message=text, **more)

    def answer(self, item: Item, text: str) -> bool:
        """Answer a message of the channel, if this agent gets the floor. False if another agent has it."""
        if not self._model.call("agentchat_claim", msg_id=item["msg_id"], channel=item["to"])["granted"]:
            return False
        self.say(text, in_reply_to=item["msg_id"], to=item["to"])
        return True

    def is_named(self, item: Item) -> bool:
        """True if a message is for this agent, whatever others do."""
        return re.search(rf"@{re.escape(self.name)}(?![\w-])", item["content"]) is not None

    @staticmethod
    def is_fresh(item: Item) -> bool:
        return bool(time.time() - item["ts"] / 1000 < FRESH)

    # -- others ------------------------------------------------------------------------------------

    def agent_with(self, skill: str) -> str | None:
        """The id of the agent that offers a skill, the best rated first; None if there is none yet."""
        if skill not in self._skilled:
            found = self._model.call("agentchat_search_skills", capability=skill, limit=1)["results"]
            if not found:
                return None
            self._skilled[skill] = found[0]["agent_id"]
        return self._skilled[skill]

    # -- files -------------------------------------------------------------------------------------

    def offer_files(self, to: str, folder: str) -> str:
        """The id of the transfer."""
        return str(self._model.call("agentchat_file_send", target=to, paths=[folder])["transfer_id"])

    def take_files(self, transfer: str, folder: str) -> None:
        self._model.call("agentchat_file_receive", transfer_id=transfer, save_directory=folder)
