"""The operator's key goes to the user's hall, and to no other that a model was talked into."""

from types import SimpleNamespace
from typing import Any

import pytest

from moothall.errors import UsageError
from moothall.tools.operator import Remove, Unban, ban, kick, unban
from moothall.tools.options import Options


@pytest.mark.parametrize(("tool", "asked"), [(kick, Remove), (ban, Remove), (unban, Unban)])
async def test_another_hall_does_not_get_the_key(tool: Any, asked: Any) -> None:
    async def agent() -> None:
        raise AssertionError("the key would be sent")

    options = Options(url="ws://127.0.0.1:6667", admin_key="secret")
    session = SimpleNamespace(options=options, url="ws://127.0.0.1:6668", agent=agent)
    with pytest.raises(UsageError, match="another hall") as refused:
        await tool(SimpleNamespace(session=session), asked(target="@5eed5eed"))
    assert "secret" not in str(refused.value)
