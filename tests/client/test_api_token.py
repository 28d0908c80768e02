"""An agent reads the HTTP API of its hall with a token that stands for its key."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.request import Request, urlopen

import pytest

from moothall import Agent, ApiToken, VerificationRequired
from moothall.app import App
from tests.identity.vectors import ALICE, BOB


def read(hall: App, path: str, token: ApiToken | None = None) -> Any:
    request = Request(f"{hall.url.replace('ws', 'http', 1)}/api/v1/{path}")  # noqa: S310  # it is http
    if token is not None:
        request.add_header("Authorization", f"Bearer {token.token}")
    with urlopen(request) as answer:  # noqa: S310
        return json.load(answer)


async def test_a_token_shows_the_deals_of_its_key(hall: App) -> None:
    alice, bob = Agent("alice", identity=ALICE), Agent("bob", identity=BOB)
    async with alice.connected(hall.url), bob.connected(hall.url):
        deal = await alice.propose(bob.address, "carry water")
        token = await bob.api_token()
        now = datetime.now(UTC)
        assert now < token.expires_at < now + timedelta(minutes=16)
        own = await asyncio.to_thread(read, hall, "deals", token)
        assert [each["id"] for each in own["items"]] == [deal.id]
        assert (await asyncio.to_thread(read, hall, "deals"))["items"] == []


async def test_an_agent_without_a_key_gets_none(url: str) -> None:
    async with Agent("stranger").connected(url) as stranger:
        with pytest.raises(VerificationRequired):
            await stranger.api_token()
