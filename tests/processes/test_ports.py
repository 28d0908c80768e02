"""Ports that several processes listen on."""

import socket

import pytest

from moothall.errors import SettingsError
from moothall.processes.ports import HeldPort


def listening(port: int) -> socket.socket:
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    opened.bind(("127.0.0.1", port))
    opened.listen()
    return opened


def test_processes_can_listen_on_a_port_that_is_held() -> None:
    held = HeldPort("127.0.0.1", 0)
    assert held.port
    with (
        listening(held.port),
        listening(held.port),
        socket.create_connection(("127.0.0.1", held.port)) as dialled,
    ):
        assert dialled.getpeername()[1] == held.port
    held.close()


def test_a_port_that_others_listen_on_is_refused_even_if_they_share_it() -> None:
    free = HeldPort("127.0.0.1", 0)
    with listening(free.port), pytest.raises(SettingsError, match=r"cannot listen .* in use; choose another"):
        HeldPort("127.0.0.1", free.port, advice="; choose another")
    free.close()


def test_a_free_port_is_the_same_on_all_addresses_of_a_host() -> None:
    held = HeldPort("localhost", 0)
    again = HeldPort("localhost", held.port)  # nobody listens yet
    assert again.port == held.port
    again.close()
    held.close()


@pytest.mark.parametrize(
    ("host", "reason"), [("no.such.host.invalid", "no such host"), ("192.0.2.1", "address")]
)
def test_an_address_that_is_not_to_be_had_is_explained(host: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        HeldPort(host, 0)
