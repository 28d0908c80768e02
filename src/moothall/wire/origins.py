"""Which web pages may connect, and which may ask: browsers say where a page came from, and only pages of ours may.

A program sends no Origin and is not concerned. A page is ours when its origin is the host it connects to;
but a hall on loopback believes only loopback names, because a foreign page can make its own name point there
(DNS rebinding) and then Host and Origin agree. For the same reason it answers questions only under those names: a
page that asks its own host sends no Origin.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

_host: Final = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^:\[\]@/\s]+))(?::[0-9]{0,5})?").fullmatch


@lru_cache(maxsize=1024)
def is_loopback(address: str) -> bool:
    try:
        found = ip_address(address.split("%")[0])
        return ((isinstance(found, IPv6Address) and found.ipv4_mapped) or found).is_loopback
    except ValueError:
        return address == "localhost" or address.endswith(".localhost")


def may_connect(
    origin: str | None, host: str, *, secure: bool, on_loopback: bool, allowed: Collection[str]
) -> bool:
    """`host` is the Host header, `on_loopback` whether the connection arrived on a loopback address."""
    if origin is None or origin in allowed or "*" in allowed:
        return True
    try:
        page = urlsplit(origin)
        if page.scheme not in ("http", "https") or page.hostname is None:
            return False
        here = urlsplit(f"//{host}")
        default = 443 if page.scheme == "https" else 80
        same = (page.hostname, page.port or default) == (here.hostname, here.port or (443 if secure else 80))
    except ValueError:
        return False
    return same and (not on_loopback or is_loopback(page.hostname))


def is_known_host(host: str | None, allowed: Collection[str]) -> bool:
    """True if the Host header of a request to loopback names loopback, or a host in `allowed` (in lower case).

    None is a request of HTTP/1.0 without the header, which no browser sends.
    """
    if host is None or "*" in allowed:
        return True
    found = _host(host.lower())
    if found is None:
        return False
    name = found["name"] or found["address"]
    return is_loopback(name) or name in allowed or host.lower() in allowed
