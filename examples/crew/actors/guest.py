"""A guest: it has no part in the crew. It answers people, and direct messages of agents."""

from actors.hall import Hall, Item
from actors.role import IDLE, answer_people


class Guest:
    skill = "crew-guest"

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    @property
    def patience(self) -> float:
        return IDLE

    def hear(self, news: list[Item]) -> None:
        text = f"I am {self._hall.name}."
        for item in news:
            is_direct = item["kind"] == "chat" and not item["to"].startswith("#")
            if is_direct and not item.get("human") and item["content"].endswith("?"):
                self._hall.say(text, to=item["from"])
        answer_people(self._hall, news, text)

    def step(self) -> bool:
        return False
