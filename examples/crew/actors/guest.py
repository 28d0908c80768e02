"""A guest: it has no part in the crew. It answers questions."""

from actors.hall import Hall, Item
from actors.role import IDLE, answer_visitors


class Guest:
    skill = "crew-guest"

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    @property
    def patience(self) -> float:
        return IDLE

    def hear(self, news: list[Item]) -> None:
        answer_visitors(self._hall, news, f"I am {self._hall.name}.")

    def step(self) -> bool:
        return False
