"""Settings of the bus that only make sense together."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from moothall.errors import SettingsError
from moothall.settings.fields import Settings

NODE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
VARIABLE: Final = "MOOTHALL_BUS"
PROOFS: Final = ("bus_password", "bus_credentials", "bus_nkey")


def check_bus(settings: Settings, origins: Mapping[str, str]) -> None:
    """Raises SettingsError, with a text that has no password."""
    if settings.node_name and not NODE_NAME.fullmatch(settings.node_name):
        raise SettingsError(
            f"node_name from {origins['node_name']}: a name has 1 to 64 letters, digits, - and _"
        )
    if not settings.bus:
        return
    if not settings.store:
        raise SettingsError(
            f"bus from {origins['bus']}: nodes on several machines need a common database: add --store"
            " postgresql://…; on one machine `moothall serve --nodes N` runs several nodes without one"
        )
    if origins["bus"] != VARIABLE and any(_has_password(url) for url in settings.bus):
        raise SettingsError(
            f"bus from {origins['bus']}: other users may read the password in it there; set {VARIABLE}, or"
            " bus_user and bus_password_file"
        )
    given = [name for name in PROOFS if getattr(settings, name)]
    if len(given) > 1:
        raise SettingsError(f"{' and '.join(given)} are set, and the bus takes one of them")
    if settings.bus_user and not settings.bus_password:
        raise SettingsError(
            f"bus_user from {origins['bus_user']}: needs a password: set bus_password_file,"
            " or MOOTHALL_BUS_PASSWORD"
        )
    if (settings.bus_cert is None) != (settings.bus_key is None):
        raise SettingsError("TLS of the bus needs both bus_cert and bus_key, or neither")


def _has_password(url: str) -> bool:
    try:
        return "@" in urlsplit(url).netloc
    except ValueError:
        return "@" in url
