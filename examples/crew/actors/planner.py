"""The planner: it states the tasks one after the other, makes the deals and settles them."""

import time
from typing import Final

from actors import lines, tasks
from actors.hall import Hall, Item
from actors.role import IDLE, Patience, answer_visitors
from actors.tasks import Task

STAKE: Final = 25
UNANSWERED: Final = 2  # times that a question may stay without an answer; then the work begins without one
MOST_OFFERS: Final = 3  # of one task; one that failed so often is left out


class Planner:
    skill = "crew-planning"

    def __init__(self, hall: Hall, history: str, *, tasks: int, pause: float, patience: float) -> None:
        self._hall = hall
        self._history = history  # of the last session
        self._most = tasks
        self._pause = pause
        self._rest_until = 0.0
        self._waiting = Patience(patience)
        self._asked = set[int]()

    @property
    def patience(self) -> float:
        if rest := max(0.0, self._rest_until - time.monotonic()):
            return rest
        return IDLE if self._task() is None else self._waiting.left

    def hear(self, news: list[Item]) -> None:
        task = self._task()
        status = "All tasks are done." if task is None else f"We are at task {task.number}: {task.wish}"
        answer_visitors(self._hall, news, status)

    def step(self) -> bool:
        task = self._task()
        if task is None or time.monotonic() < self._rest_until:
            return False
        deal = self._deal(task)
        self._waiting.at((task.number, deal and deal["status"], task.number in self._asked))
        if deal is None:
            return self._prepare(task)
        if deal["status"] == "accepted" and (version := self._approved(task)):
            return self._settle(task, deal["proposal_id"], version)
        if self._waiting.ends():
            is_pending = deal["status"] == "pending"
            self._hall.say(lines.waiting(task) if is_pending else lines.how_far(task))
        return False

    # -- what the hall says ------------------------------------------------------------------------

    def _task(self) -> Task | None:
        """The first task that is neither done nor given up."""
        for task in tasks.TASKS[: self._most]:
            ends = [deal["status"] for deal in self._deals(task) if not _is_open(deal)]
            if "completed" not in ends and len(ends) < MOST_OFFERS:
                return task
        return None

    def _deals(self, task: Task) -> list[Item]:
        return [deal for deal in self._hall.deals if deal["is_mine"] and tasks.of_deal(deal["task"]) == task]

    def _deal(self, task: Task) -> Item | None:
        return next((deal for deal in self._deals(task) if _is_open(deal)), None)

    def _approved(self, task: Task) -> str | None:
        """The version that the reviewer has approved. The word of another agent does not count."""
        reviewer = self._hall.agent_with("crew-review")
        for item in self._hall.heard:
            verdict = lines.read_verdict(item["content"]) if item["from"] == reviewer else None
            if verdict is not None and verdict.number == task.number and verdict.approved:
                return verdict.version
        return None

    def _is_answered(self, task: Task) -> bool:
        return any(item["content"].startswith(lines.advice(task)) for item in self._hall.heard)

    # -- what the planner does ---------------------------------------------------------------------

    def _prepare(self, task: Task) -> bool:
        """Ask the others first. When one of them has answered, offer the task to the coder."""
        if not self._is_answered(task) and self._waiting.asked < UNANSWERED:
            return self._ask(task)
        coder = self._hall.agent_with("crew-coding")
        if coder is None:
            self._waiting.ends()
            return False
        self._hall.deal("propose", to=coder, task=task.text, elo_stake=STAKE)
        self._hall.say(lines.offered(task, STAKE))
        return True

    def _ask(self, task: Task) -> bool:
        question = lines.question(task)
        was_asked = task.number in self._asked or question in self._history
        if was_asked:
            if not self._waiting.ends():
                return False
            if self._waiting.asked == UNANSWERED:
                return True
        self._asked.add(task.number)
        self._hall.say(question)
        return True

    def _settle(self, task: Task, proposal_id: str, version: str) -> bool:
        done = self._hall.deal("complete", proposal_id=proposal_id, proof=f"reviewed: version {version}")
        self._rest_until = time.monotonic() + self._pause
        self._hall.say(lines.settled(task, done["rating_changes"]))
        return True


def _is_open(deal: Item) -> bool:
    return deal["status"] in ("pending", "accepted")
