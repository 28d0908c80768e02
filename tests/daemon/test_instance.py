"""What is believed of the files of an instance."""

from pathlib import Path

import pytest

from moothall.daemon.folder import Folder
from moothall.daemon.instance import STATUS, Instance

WRITTEN = (
    '{"pid":1,"url":"u","agent":"@a","name":"a","channels":[],"connected":true,"started_at":1,"since":%d}'
)


@pytest.mark.parametrize(("since", "is_believed"), [(1, True), (-1, False), (10**15, False), (2**70, False)])
def test_a_status_with_an_impossible_time_is_none(tmp_path: Path, since: int, is_believed: bool) -> None:
    instance = Instance(Folder(tmp_path))
    with instance.running():
        (tmp_path / STATUS).write_text(WRITTEN % since)
        assert (instance.status() is not None) == is_believed
