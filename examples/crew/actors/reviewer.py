"""The reviewer: it takes the coder's files, checks them, and says what it found."""

import json
import time
from pathlib import Path
from typing import Any, Final

from actors import lines, tasks
from actors.hall import Hall, Item
from actors.role import IDLE, answer_visitors, take_turn
from actors.tasks import Task

MOST_BYTES: Final = 1_000_000
REVIEW: Final = "review.json"


class Reviewer:
    skill = "crew-review"

    def __init__(self, hall: Hall, workspace: Path) -> None:
        self._hall = hall
        self._received = workspace / "received"  # task-N/TRANSFER/task-N/files, and the review beside
        self._offers: dict[Task, str] = {}  # the newest transfer of each task

    @property
    def patience(self) -> float:
        return IDLE

    def hear(self, news: list[Item]) -> None:
        wanted: dict[int, float] = {}  # tasks that the planner asks for, and when
        for item in news:
            if item.get("event") == "FILE_OFFER":
                self._consider(item)
            elif item["kind"] == "chat" and lines.is_how_far(item["content"]):
                wanted[lines.number_in(item["content"]) or 0] = item["ts"]
            elif item["kind"] == "chat" and lines.is_question(item["content"]) and self._hall.is_fresh(item):
                task = tasks.of_deal(item["content"])
                if task is not None:
                    take_turn(self._hall, item, lines.advice(task))
        for number, asked_at in wanted.items():
            self._tell(number, asked_at)
        answer_visitors(self._hall, news, "I check what the coder writes. Ask the planner where we are.")

    def step(self) -> bool:
        """Take what is offered, check what is not checked, say what is not said."""
        if self._offers:
            task, transfer = self._offers.popitem()
            self._hall.take_files(transfer, f"received/task-{task.number}/{transfer}")
        for task in tasks.TASKS:
            for folder in self._transfers(task):
                review = _review(folder) or self._check(task, folder)
                if not review["said_at"]:
                    self._hall.say(review["text"])
                    _write(folder, review | {"said_at": time.time() * 1000})
                    return True
        return bool(self._offers)

    def _consider(self, item: Item) -> None:
        """Take files of the coder, for a task that is not approved yet."""
        offer = item["data"]
        names = {str(file["name"]).partition("/")[0] for file in offer["files"]}
        task = next((task for task in tasks.TASKS if names == {f"task-{task.number}"}), None)
        is_coder = item["from"] == self._hall.agent_with("crew-coding")
        if task is None or not is_coder or offer["total_size"] > MOST_BYTES:
            return
        review = self._newest_review(task)
        if review is not None and review["approved"]:
            self._hall.say(review["text"])  # the coder has not heard it
        else:
            self._offers[task] = offer["transfer_id"]

    def _tell(self, number: int, asked_at: float) -> None:
        """Say again how a task stands, unless that was said after the question."""
        task = tasks.of_number(number)
        review = None if task is None else self._newest_review(task)
        if review is None and task not in self._offers:
            self._hall.say(lines.missing(number))
        elif review is not None and review["said_at"] and review["said_at"] < asked_at:
            self._hall.say(review["text"])

    # -- reviews -----------------------------------------------------------------------------------

    def _transfers(self, task: Task) -> list[Path]:
        """The folders that have been received whole, oldest first."""
        found = self._received.glob(f"task-{task.number}/*/task-{task.number}")
        return sorted(found, key=lambda folder: folder.stat().st_mtime_ns)

    def _newest_review(self, task: Task) -> dict[str, Any] | None:
        found = [review for folder in self._transfers(task) if (review := _review(folder)) is not None]
        return found[-1] if found else None

    def _check(self, task: Task, folder: Path) -> dict[str, Any]:
        fault = tasks.check(task, folder)
        text = lines.verdict(task, tasks.digest(folder), fault)
        review = {"approved": fault is None, "text": text, "said_at": None}
        _write(folder, review)
        return review


def _review(folder: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads((folder.parent / REVIEW).read_text()))
    except FileNotFoundError:
        return None


def _write(folder: Path, review: dict[str, Any]) -> None:
    """Replace the review in one step: a session that is killed leaves a whole one."""
    new = folder.parent / f".{REVIEW}"
    new.write_text(json.dumps(review))
    new.replace(folder.parent / REVIEW)
