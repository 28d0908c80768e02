"""The coder: it takes the deals, writes the programs, runs them, and hands the files to the reviewer."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from actors import lines, tasks
from actors.hall import Hall, Item
from actors.lines import Verdict
from actors.role import IDLE, answer_visitors, take_turn
from actors.tasks import Task

STAKE: Final = 10
LONGEST_RUN: Final = 20.0  # seconds


class Coder:
    skill = "crew-coding"

    def __init__(self, hall: Hall, workspace: Path) -> None:
        self._hall = hall
        self._workspace = workspace
        self._offered: dict[str, str] = {}  # transfer to version, in this session

    @property
    def patience(self) -> float:
        return IDLE

    def hear(self, news: list[Item]) -> None:
        for item in news:
            if item.get("event") == "FILE_TRANSFER" and item["data"]["state"] != "delivered":
                self._offered.pop(item["data"]["transfer_id"], None)
            elif item["kind"] == "chat" and lines.is_missing(item["content"]):
                self._offered.clear()
            elif item["kind"] == "chat" and lines.is_question(item["content"]) and self._hall.is_fresh(item):
                task = tasks.of_deal(item["content"])
                if task is not None and not self._has_deal(task):
                    take_turn(self._hall, item, lines.advice(task))
        answer_visitors(self._hall, news, f"I write programs. I have had {len(self._hall.deals)} deals.")

    def step(self) -> bool:
        for deal in self._hall.deals:
            task = tasks.of_deal(deal["task"])
            if deal["is_mine"]:
                continue
            if deal["status"] == "pending":
                return self._answer_offer(deal["proposal_id"], task)
            if deal["status"] == "accepted" and task is not None and self._work(task):
                return True
        return False

    def _has_deal(self, task: Task) -> bool:
        return any(tasks.of_deal(deal["task"]) == task for deal in self._hall.deals)

    def _answer_offer(self, proposal_id: str, task: Task | None) -> bool:
        if task is None:
            self._hall.deal("reject", proposal_id=proposal_id, reason="I know the tasks of this crew only.")
        else:
            self._hall.deal("accept", proposal_id=proposal_id, elo_stake=STAKE)
        return True

    # -- the work ----------------------------------------------------------------------------------

    def _work(self, task: Task) -> bool:
        """Write the files if they are not there or have a fault, and offer them if they need a review."""
        folder = self._workspace / f"task-{task.number}"
        reviewer = self._hall.agent_with("crew-review")
        verdict = self._verdict(task, reviewer)
        if not folder.exists():
            write(task.drafts[0], task, folder)
        elif verdict is not None and verdict.version == tasks.digest(folder):
            better = None if verdict.approved else _next_draft(task, folder)
            if better is None:
                return False
            write(better, task, folder)
        version = tasks.digest(folder)
        if reviewer is None or version in self._offered.values():
            return False
        self._offered[self._hall.offer_files(reviewer, folder.name)] = version
        return True

    def _verdict(self, task: Task, reviewer: str | None) -> Verdict | None:
        """The last word of the reviewer about this task."""
        said = [item["content"] for item in self._hall.heard if item["from"] == reviewer]
        found = [verdict for text in said if (verdict := lines.read_verdict(text)) is not None]
        return next((verdict for verdict in reversed(found) if verdict.number == task.number), None)


def _next_draft(task: Task, folder: Path) -> str | None:
    """A better program than the one in the folder; None if the coder knows none."""
    written = (folder / f"{task.name}.py").read_text()
    later = task.drafts[task.drafts.index(written) + 1 :] if written in task.drafts else task.drafts
    return later[0] if later else None


def write(program: str, task: Task, folder: Path) -> None:
    """Write a program and what it prints. The folder appears when both files are whole."""
    draft = folder.with_name(".draft")
    shutil.rmtree(draft, ignore_errors=True)  # what a killed session has left
    draft.mkdir()
    (draft / f"{task.name}.py").write_text(program)
    printed = subprocess.run(
        [sys.executable, "-I", f"{task.name}.py"],
        cwd=draft,
        capture_output=True,
        check=True,
        timeout=LONGEST_RUN,
    ).stdout
    (draft / f"{task.name}.txt").write_bytes(printed)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)
