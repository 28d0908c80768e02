"""Every type of message, and every event of the hall, has a decorator."""

import inspect

import pytest

from moothall import PrivateKey
from moothall.mesh import MeshAgent
from moothall.mesh.decorators import Decorators
from moothall.wire.mesh.msg_types import MsgType

AGENT = MeshAgent(key=PrivateKey(bytes(32)))
EVENTS = (
    *(each.name for each in MsgType),
    "*",
    "connect",
    "disconnect",
    "notary",
    "change",
    "away",
    "missed",
)


async def handler(_: object) -> None: ...


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_has_a_handler(event: str) -> None:
    assert AGENT.on(event)(handler) is handler


def test_there_are_as_many_names_as_events() -> None:
    named = [name for name, _ in inspect.getmembers(Decorators, inspect.isfunction) if name.startswith("on_")]
    assert len(named) == len(EVENTS)
    for name in named:
        assert getattr(AGENT, name)(handler) is handler


def test_an_event_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="no event 'PROPOSED': choose one of"):
        AGENT.on("PROPOSED")
