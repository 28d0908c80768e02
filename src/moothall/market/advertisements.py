"""ADVERTISE and DISCOVER on the one directory (mesh wire 5): what an agent of the mesh offers, and who offers what.

Each capability of an ADVERTISE is a skill, so SEARCH_SKILLS and `nearest:` find it too. An ADVERTISE replaces the
agent's earlier one. What the same key registered over agentchat stays: see `records.Registration`. The envelope is
kept as the agent's signature under its offer. An older envelope that is replayed, also at another hall on the same
store, does not replace a newer one.
"""

from collections.abc import Callable, Container, Iterator
from typing import Any, Final

from msgspec import Struct, structs, to_builtins

from moothall.errors import InvalidMessage
from moothall.market import skills
from moothall.market.audit_data import AuditData
from moothall.market.books import Books, what_fits
from moothall.market.ledger import agent_account
from moothall.market.records import Advertised, AuditRow, Registration, Standing
from moothall.market.skills import MAX_CAPABILITY, MAX_SIZE, Filters, Skill, require_modest
from moothall.market.storable import bounded_json, kept_json, require_bounded
from moothall.wire.mesh.announcements import Advertise
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.keccak import keccak256

CURRENCY: Final = "USD"  # of `price_range_usd`
MAX_AGENTS: Final = 50  # in the answer to one DISCOVER, as in that to a search without a limit
MAX_ANSWER: Final = 256 * 1024  # bytes of this answer: a client may leave several unread
HALLS_WORDS: Final = 320  # bytes of what the hall says of one agent: id, name, rating


def read_advertise(envelope: Envelope, raw: bytes, name: str, now: int) -> Advertised:
    """What the directory keeps of an ADVERTISE. Raises PayloadParseError, or InvalidMessage if it is too much."""
    offer = Advertise.decode(envelope.payload)
    about = {
        member: value
        for member, value in (structs.asdict(offer) | offer.extra).items()
        if value is not None and member not in ("capabilities", "extra")
    }
    about = to_builtins(about)
    require_bounded(about, "payload")
    bounded_json(about, "payload", MAX_SIZE)
    found = [_skill(capability, offer) for capability in dict.fromkeys(offer.capabilities)]
    require_modest(found)
    return Advertised(
        skills=found, about=about, name=name, at=now, timestamp=envelope.timestamp, envelope=raw
    )


def _skill(capability: str, offer: Advertise) -> Skill:
    """As a search shows it. The lower end of the price range is its rate."""
    skill: Skill = {"capability": capability, "via": "mesh"}
    if offer.price_range_usd is not None:
        skill |= {
            "rate": offer.price_range_usd[0],
            "currency": CURRENCY,
            "price_range_usd": list(offer.price_range_usd),
        }
    return skill


def advertise(books: Books, key: bytes, offer: Advertised, *, agent_id: str) -> bool:
    """Replace what the agent advertised before. False if that was newer. `agent_id` is without "@"."""
    before = books.registration(key, hold=True)
    if before is None:
        before = Registration(key=key, agent_id=agent_id, skills=[], registered_at=offer.at, sig="")
    elif before.advertised is not None and before.advertised.timestamp >= offer.timestamp:
        return False
    data = AuditData(message={"envelope": keccak256(offer.envelope).hex()})
    row = AuditRow(
        at=offer.at, operation="advertise", deal=agent_account(key), actor=key, data=kept_json(data)
    )
    books.save(structs.replace(before, advertised=offer), row)
    return True


class Discovered(Struct, frozen=True, gc=False):
    """An agent that offers what was asked for, on whatever wire."""

    key: bytes
    capabilities: list[str]
    standing: Standing
    advertised: Advertised | None


def discover(books: Books, query: str) -> list[Discovered]:
    """The agents that a search for this capability finds, the best first."""
    if not query or len(query) > MAX_CAPABILITY:
        raise InvalidMessage(f"A DISCOVER asks for a capability, of 1 to {MAX_CAPABILITY} characters")
    kept_json(query)  # a text that no store can hold is refused
    offers = books.offers(Filters(capability=query.lower()), skills.CANDIDATES)
    standings = books.standings_of({offer.key for offer in offers})
    keys = dict.fromkeys(offer.key for offer in skills.best(offers, standings, len(offers)))
    found = what_fits(_registrations(books, keys), _size, MAX_ANSWER)[0]
    return [
        Discovered(
            each.key,
            [skill["capability"] for skill, _ in each.listed()],
            standings[each.key],
            each.advertised,
        )
        for each in found
    ]


def _registrations(books: Books, keys: dict[bytes, None]) -> Iterator[Registration]:
    for key in list(keys)[:MAX_AGENTS]:
        registration = books.registration(key)
        if registration is not None:  # else it was withdrawn in this moment, at another hall
            yield registration


def _size(registration: Registration) -> int:
    """Of its part of the answer, or somewhat more: of a skill, its capability is shown."""
    offer = registration.advertised
    return HALLS_WORDS + len(kept_json((registration.listed(), {} if offer is None else offer.about)))


def result(found: Discovered, *, online: Container[bytes], name_of: Callable[[bytes], str]) -> dict[str, Any]:
    """As `discover_results` has it. The hall's words come last: an agent does not rate itself."""
    offer = found.advertised
    return {
        **({} if offer is None else offer.about),
        "agent_id": found.key.hex(),
        "name": (offer.name if offer is not None else "") or name_of(found.key),
        "capabilities": found.capabilities,
        "rating": found.standing.rating,
        "transactions": found.standing.transactions,
        "online": found.key in online,
    }
