"""Before a port opens, it is known whether this version of the loop has the TLS protocol that is expected."""

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import Callable

import pytest
import uvloop

from moothall.errors import SettingsError
from moothall.gateways.doorstep import behind_tls


class Passer(asyncio.Protocol):
    def arrive(self, transport: asyncio.BaseTransport) -> bool:
        return True

    def vanish(self) -> None:
        pass


class OtherArguments:
    def __init__(self, loop: object) -> None:
        pass


class OtherCallbacks:
    def __init__(self, *args: object, **options: object) -> None:
        pass


def made(loop_of: Callable[[], asyncio.AbstractEventLoop]) -> None:
    loop = loop_of()
    try:
        behind_tls(loop, Passer, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), 1.0)
    finally:
        loop.close()


@pytest.mark.parametrize("loop_of", [uvloop.new_event_loop, asyncio.SelectorEventLoop])
def test_the_installed_versions_are_known(loop_of: Callable[[], asyncio.AbstractEventLoop]) -> None:
    made(loop_of)


@pytest.mark.parametrize("other", [OtherArguments, OtherCallbacks, None])
def test_another_version_is_refused_with_advice(other: object, monkeypatch: pytest.MonkeyPatch) -> None:
    if other is None:
        monkeypatch.delattr(sslproto, "SSLProtocol")
    else:
        monkeypatch.setattr(sslproto, "SSLProtocol", other)
    with pytest.raises(SettingsError, match=r"cannot serve TLS with this version of asyncio\.sslproto"):
        made(asyncio.SelectorEventLoop)
