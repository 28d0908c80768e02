"""Which web pages may connect: browsers say where a page came from, and only pages of ours are let in.

A program sends no Origin and is not concerned. A page is ours when its origin is the host it connects to;
but a hall on loopback believes only loopback names, because a foreign page can make its own name point there
(DNS rebinding) and then Host and Origin agree.
"""

from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit


@lru_cache(maxsize=1024)
def is_loopback(address: str) -> bool:
    try:
        return ip_address(address.split("%")[0]).is_loopback
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
