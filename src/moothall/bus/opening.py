"""The bus of a hall, from its settings."""

import re
import socket
from secrets import token_hex
from typing import TYPE_CHECKING

from moothall.bus.access import Access
from moothall.errors import UsageError
from moothall.extras import install_command
from moothall.hall.outside import Log
from moothall.settings import Settings

if TYPE_CHECKING:
    from moothall.bus.nats_bus import NatsBus


def build_bus(settings: Settings, hall: str, node: str, log: Log) -> "NatsBus":
    """`hall` is the fingerprint of the hall's key. Raises UsageError if a URL is wrong, or nats-py is missing."""
    try:
        from moothall.bus.nats_bus import NatsBus
    except ImportError:
        raise UsageError(
            f"the bus needs nats-py, which is not installed; run: {install_command('cluster')}"
        ) from None
    return NatsBus(
        settings.bus, hall, log, access_of(settings), name=node, replicas=settings.bus_replicas or None
    )


def access_of(settings: Settings) -> Access:
    is_token = not settings.bus_user
    return Access(
        user=settings.bus_user,
        password="" if is_token else settings.bus_password,
        token=settings.bus_password if is_token else "",
        credentials=settings.bus_credentials,
        nkey=settings.bus_nkey,
        ca=settings.bus_ca,
        certificate=settings.bus_cert,
        key=settings.bus_key,
    )


def name_node(settings: Settings) -> str:
    """Two nodes never have the same name, unless the operator gave it to both."""
    if settings.node_name:
        return settings.node_name
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:48] or "node"
    return f"{host}-{token_hex(4)}"
