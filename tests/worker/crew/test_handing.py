"""Secrets on their way to a container. That process 1 of one gets them is in test_podman.py."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker.crew import keys, sockets
from moothall.worker.crew.doors import Door
from moothall.worker.crew.handing import contents, handing_out
from moothall.worker.crew.runtime import Recipe


def test_an_agent_has_its_key_and_a_token_where_no_proxy_has_it(recipe: Recipe, tmp_path: Path) -> None:
    recipe.places.make()
    keys.make(recipe.places)
    assert json.loads(contents(recipe)["identity"]) == json.loads(recipe.places.identity.read_text())
    (tmp_path / "token").write_text("abc\n")
    told = replace(recipe, crew=replace(recipe.crew, token=tmp_path / "token"))
    assert contents(told)["oauth-token"].strip() == "abc"


def test_what_cannot_be_read_is_an_error(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the key of one cannot be read"):
        contents(recipe)
    told = replace(recipe, crew=replace(recipe.crew, token=tmp_path / "none"))
    recipe.places.make()
    keys.make(recipe.places)
    with pytest.raises(UsageError, match=r"the token file .* cannot be read"):
        contents(told)


async def test_a_process_that_is_not_the_first_of_a_container_gets_nothing(recipe: Recipe) -> None:
    recipe.places.make()
    keys.make(recipe.places)
    said: list[str] = []
    door = Door(recipe.places.run / "secrets.sock", handing_out(recipe, said.append))
    door.open()
    try:
        for _ in range(3):
            reader, writer = await asyncio.open_unix_connection(sock=sockets.connect(door.path))
            assert await reader.read(-1) == b""
            writer.close()
    finally:
        await door.close()
    assert said == ["one: another process than the first has asked for the secrets, and got none"]
