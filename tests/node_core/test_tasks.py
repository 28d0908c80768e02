"""The task log."""

from pathlib import Path

import pytest

from moothall.errors import NodeRefused
from moothall.node import tasks
from tests.support.nodes import life, options


async def test_tasks_are_kept_listed_shared_and_removed(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice", address=None)) as alice:
        log = alice.node.tasks
        made = [await log.add({"title": f"t{number}", "id": 9, "shared": True}) for number in range(5)]
        assert made[0].fields == {"title": "t0"}
        assert not made[0].shared
    async with life(options(tmp_path, "alice", address=None)) as alice:
        log = alice.node.tasks
        assert await log.read() == made[::-1]
        assert await log.read(limit=2) == [made[4], made[3]]
        assert await log.read(limit=2, before=made[3].id) == [made[2], made[1]]
        shared = await log.share(made[1].id, shared=True)
        assert (shared.id, shared.shared, shared.fields) == (made[1].id, True, {"title": "t1"})
        await log.remove(made[4].id)
        assert [task.shared for task in await log.read()] == [False, False, True, False]
        again = await log.add({})
        assert again.id > made[4].id  # an id is not used twice


@pytest.mark.parametrize("task", [0, -1, 7, 2**63, 10**30])
async def test_a_task_that_is_not_there(tmp_path: Path, task: int) -> None:
    async with life(options(tmp_path, "alice", address=None)) as alice:
        with pytest.raises(NodeRefused) as refused:
            await alice.node.tasks.share(task, shared=True)
        assert refused.value.status == 404
        with pytest.raises(NodeRefused, match="There is no task"):
            await alice.node.tasks.remove(task)


async def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with life(options(tmp_path, "alice", address=None)) as alice:
        with pytest.raises(NodeRefused) as refused:
            await alice.node.tasks.add({"title": "x" * tasks.MAX_FIELDS})
        assert refused.value.status == 413
        monkeypatch.setattr(tasks, "MAX_TASKS", 1)
        await alice.node.tasks.add({})
        with pytest.raises(NodeRefused, match="limit"):
            await alice.node.tasks.add({})
