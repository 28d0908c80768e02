"""The ports of the demo: the usual ones if they are free, and others if not."""

import socket
from pathlib import Path

import pytest

from moothall.demo import stage
from moothall.demo.pace import Pace
from moothall.known_halls import PATH_VARIABLE


@pytest.fixture(autouse=True)
def nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "known.json"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


async def test_usual_ports_that_are_taken_or_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(stage, "PORT", taken.getsockname()[1])
        monkeypatch.setattr(stage, "KEEP_PORT", other.getsockname()[1])
        async with stage.opened(None, None, Pace(1)) as here:
            assert here.app.port.address[1] not in (0, stage.PORT)
            assert here.keep_port not in (0, stage.KEEP_PORT)
    async with stage.opened(None, None, Pace(1)) as here:
        assert (here.app.port.address[1], here.keep_port) == (stage.PORT, stage.KEEP_PORT)
        assert not here.app.settings.no_limits
