"""Ports that all node processes of a hall listen on, with SO_REUSEPORT: the kernel gives each connection to one.

Any process of the same user could join them. So the supervising process first makes sure that the port is free, and
then holds it, without listening, for as long as the hall runs.
"""

import socket
from contextlib import ExitStack
from typing import Any, Final

from moothall.gateways.listening import cannot_listen

ATTEMPTS: Final = 10  # to find a number that is free on all addresses of a host


class HeldPort:
    def __init__(self, host: str, port: int, *, purpose: str = "", advice: str = "") -> None:
        """Port 0 takes a free one. Raises SettingsError if the address is not to be had."""
        self._held = ExitStack()
        try:
            self.port = self._hold(host, port)
        except (OSError, UnicodeError) as error:
            raise cannot_listen(error, host, port, purpose, advice) from None

    def close(self) -> None:
        self._held.close()

    def _hold(self, host: str, port: int) -> int:
        places = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for _ in range(ATTEMPTS - 1 if port == 0 else 0):
            try:
                return self._hold_all(places, port)
            except OSError:
                self.close()
        return self._hold_all(places, port)

    def _hold_all(self, places: list[Any], port: int) -> int:
        for family, kind, protocol, _, (address, _, *rest) in places:
            with _socket(family, kind, protocol) as probe:
                probe.bind((address, port, *rest))
                probe.listen()  # fails if others listen here, whatever they share
                port = probe.getsockname()[1]
            held = self._held.enter_context(_socket(family, kind, protocol))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind((address, port, *rest))
        return port


def _socket(family: int, kind: int, protocol: int) -> socket.socket:
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return opened
