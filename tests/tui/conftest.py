from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tui.desk import hall


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with hall(tmp_path) as opened:
        yield opened.url
