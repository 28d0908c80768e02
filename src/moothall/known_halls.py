"""Which hall is where: the key that each address had at the first contact, and what a CHALLENGE must say.

A hall that an agent visits could pass the CHALLENGE of another hall on to it, and be the agent there. So a hall
names itself in its CHALLENGE: `hall_key`, `hall_random` and `hall_host`, from which its nonce follows. The SDK
signs only if they belong to the address that it dialled. At the first contact the key is remembered: pinned.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from moothall.errors import ConnectionFailed, UntrustedHall
from moothall.identity.keyfile import file_bytes
from moothall.user_file import UserFile
from moothall.wire.agentchat.server import Challenge
from moothall.wire.agentchat.signing import bound_nonce
from moothall.wire.authority import Authority, authority_of, parse_authority

DEFAULT_PATH: Final = Path("~/.agentchat/known-halls.json")
PATH_VARIABLE: Final = "AGENTCHAT_KNOWN_HALLS"
# Programs that are tried out on loopback come and go, and their ports with them. Older pins are forgotten.
MAX_LOCAL: Final = 64

_LOOPBACK: Final = "localhost"  # all names of loopback are one place, if the port is the same
_is_key: Final = re.compile("[0-9a-f]{64}").fullmatch
_is_random: Final = re.compile("[0-9a-f]{32}").fullmatch


class Pin(NamedTuple):
    key: str  # 64 hex digits
    since: str = ""
    by_user: bool = False  # made with `moothall identity pin`: the address may have another name for itself


Pins = Mapping[str, Pin]


def place_of(url: str) -> str:
    """Under which name the hall at this URL is remembered."""
    return _name(_dialled(url))


def check_challenge(url: str, challenge: Challenge, pins: Pins) -> str | None:
    """The hall's key, if the CHALLENGE belongs to the hall at this URL; None if it does not name its hall.

    Raises UntrustedHall: a signature could be used by this server to be the agent in another hall.
    """
    place = place_of(url)
    key, random, host = challenge.hall_key, challenge.hall_random, challenge.hall_host
    if key is None and random is None and host is None:
        if place in pins:
            raise UntrustedHall(
                f"the hall at {place} named its key at an earlier contact and does not now: nothing was signed. A"
                f" server in between may have removed it. If the hall was replaced: {_unpin(place)}"
            )
        return None
    if key is None or random is None or host is None:
        raise _unknown_form(place)
    check_hall(url, challenge.nonce, key, random, host, pins)
    return key


def check_hall(url: str, nonce: str, key: str, random: str, host: str, pins: Pins) -> None:
    """Raises UntrustedHall if what is to be signed does not belong to the hall at this URL."""
    dialled = _dialled(url)
    place = _name(dialled)
    pin = pins.get(place)
    if not _is_key(key) or not _is_random(random):
        raise _unknown_form(place)
    if nonce != bound_nonce(key, random, host):
        raise UntrustedHall(
            f"the server at {place} asks to sign a nonce that is not its own: nothing was signed. It may try to be"
            " you in another hall"
        )
    _check_key(place, key, pins)
    found = parse_authority(host, secure=url.lower().startswith("wss"))
    if found != dialled and not (pin is not None and pin.by_user):
        raise UntrustedHall(
            f"the hall at {place} calls itself {host[:128]!r}: nothing was signed. Dial that name. If a proxy or a"
            f" tunnel changes it, its operator sets public_url, or you run `moothall identity pin"
            f" {shlex.quote(url)} KEY` with the key that `moothall serve` shows there"
        )


def _unknown_form(place: str) -> UntrustedHall:
    return UntrustedHall(f"the hall at {place} names itself in a form unknown here: nothing was signed")


def _check_key(place: str, key: str, pins: Pins) -> None:
    """Raises UntrustedHall if the hall of this place had another key, or if the hall with this key is elsewhere."""
    pin = pins.get(place)
    if pin is None:
        _refuse_known_elsewhere(place, key, pins)
    elif pin.key != key:
        raise UntrustedHall(
            f"the hall at {place} has another key than at the first contact ({pin.key[:16]}…, now {key[:16]}…):"
            f" nothing was signed. If it is a new hall, or its operator replaced the key: {_unpin(place)}"
        )


def _refuse_known_elsewhere(place: str, key: str, pins: Pins) -> None:
    """But a hall on one's own machine may have another port the next time. Not one that the user pinned: what is
    dialled on this machine can also be a tunnel to another."""
    others = [
        other
        for other, pin in pins.items()
        if pin.key == key and (pin.by_user or not (_is_local(place) and _is_local(other)))
    ]
    if others:
        raise UntrustedHall(
            f"the server at {place} says that it is the hall that you know as {', '.join(others[:3])}: nothing was"
            f" signed. It may try to be you there. Only if you know that both are one hall:"
            f" `moothall identity pin {place} {key}`"
        )


def _unpin(place: str) -> str:
    return f"`moothall identity unpin {place}`"


def _dialled(url: str) -> Authority:
    found = authority_of(url)
    if found is None:
        raise ConnectionFailed(f"{url!r} is not the address of a hall")
    return found


def _name(dialled: Authority) -> str:
    return str(dialled._replace(host=_LOOPBACK) if dialled.is_local else dialled)


# -- the file ------------------------------------------------------------------------------------------


class KnownHalls:
    """The pins in a file of the user's. Any number of processes may share it."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = UserFile(DEFAULT_PATH, PATH_VARIABLE, "a list of known halls", path)
        self.path = self._file.path

    def read(self) -> dict[str, Pin]:
        """Raises UsageError if the file is damaged: without it, nothing would be noticed any more."""
        content = self._file.read()
        return {} if content is None else self._decode(content)

    def pin(self, place: str, key: str, *, by_user: bool = False) -> None:
        """Remember the key of this place. Raises UntrustedHall if it got another pin meanwhile, or OSError."""

        def change(pins: dict[str, Pin]) -> None:
            known = pins.get(place)
            if known is not None and known.key != key and not by_user:
                raise UntrustedHall(
                    f"another program met a hall with another key at {place} just now. If its operator replaced"
                    f" it: {_unpin(place)}"
                )
            if known is None or by_user:
                pins.pop(place, None)
                pins[place] = Pin(key, _now(), by_user)
            local = [name for name, pin in pins.items() if _is_local(name) and not pin.by_user]
            for name in local[:-MAX_LOCAL]:
                del pins[name]

        self._change(change)

    def unpin(self, place: str) -> bool:
        """Forget it; whether there was a pin."""
        found = False

        def change(pins: dict[str, Pin]) -> None:
            nonlocal found
            found = pins.pop(place, None) is not None

        self._change(change)
        return found

    def meet_own_hall(self, port: int, key: str) -> bool:
        """Replace the pin of an earlier hall on this port of loopback; whether there was one.

        For the hall that the user of this file runs there: it knows its own key. A pin by the user stays.
        """
        place = str(Authority(_LOOPBACK, port))

        def is_outdated(pins: Pins) -> bool:
            pin = pins.get(place)
            return pin is not None and pin.key != key and not pin.by_user

        def change(pins: dict[str, Pin]) -> None:
            if is_outdated(pins):
                pins[place] = Pin(key, _now())

        # A file of another user stays theirs: under sudo, the home folder may be that of the user.
        if not is_outdated(self.read()) or self.path.stat().st_uid != os.geteuid():
            return False
        self._change(change)
        return True

    def at_own_port(self, port: int) -> Pin | None:
        """The pin of the hall on this port of loopback, if there is one."""
        return self.read().get(str(Authority(_LOOPBACK, port)))

    def leave_own_hall(self, port: int, key: str, former: Pin | None) -> None:
        """Undo what `meet_own_hall` and visits have changed: the hall of this key is gone for good.

        `former` is the pin that was there before it. A pin by the user stays, and so does that of another hall.
        """
        place = str(Authority(_LOOPBACK, port))

        def is_its_own(pins: Pins) -> bool:
            pin = pins.get(place)
            return pin is not None and pin.key == key and not pin.by_user

        def change(pins: dict[str, Pin]) -> None:
            if is_its_own(pins):
                del pins[place]
                if former is not None:
                    pins[place] = former

        if is_its_own(self.read()):
            self._change(change)

    def _change(self, change: Callable[[dict[str, Pin]], None]) -> None:
        with self._file.locked():
            pins = self.read()
            before = dict(pins)
            change(pins)
            if pins != before:
                self._write(pins)

    def _write(self, pins: Pins) -> None:
        entries = {place: _as_fields(pin) for place, pin in pins.items()}
        self._file.write(file_bytes(entries))

    def _decode(self, content: bytes) -> dict[str, Pin]:
        try:
            return {place: _from_fields(fields) for place, fields in json.loads(content).items()}
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            raise self._file.damaged() from None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _as_fields(pin: Pin) -> dict[str, Any]:
    fields: dict[str, Any] = {"key": pin.key, "since": pin.since}
    return {**fields, "by_user": True} if pin.by_user else fields


def _from_fields(fields: dict[str, Any]) -> Pin:
    key, since, by_user = fields["key"], fields.get("since", ""), fields.get("by_user", False)
    if not _is_key(key) or not isinstance(since, str) or not isinstance(by_user, bool):
        raise ValueError(key)
    return Pin(key, since, by_user)


def _is_local(place: str) -> bool:
    return place.startswith(f"{_LOOPBACK}:")
