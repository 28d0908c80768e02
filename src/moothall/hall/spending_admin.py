"""ADMIN_BUDGET and ADMIN_SET_BUDGET: what workers spend, and the operator's caps (docs/workers.md).

A cap is for a key and not for an id: a second key with the same id would have another one.
"""

from datetime import UTC, datetime
from functools import partial
from typing import Final

from moothall.errors import AgentNotFound, InvalidKey, InvalidMessage
from moothall.hall.access import Doorkeeper
from moothall.hall.admin import guarded, result_of
from moothall.hall.commands import Command
from moothall.hall.common import CAPS, CommonBooks
from moothall.hall.costs import ANSWER
from moothall.hall.hall import Hall
from moothall.hall.key_lookup import find_key
from moothall.hall.session import Session, Tier
from moothall.hall.spending import (
    MAX_CAPS,
    TOTAL,
    Cap,
    SpendingBooks,
    Sums,
    day_of,
    day_text,
    encode_cap,
)
from moothall.identity import PublicKey
from moothall.wire.agentchat import admin, server
from moothall.wire.agentchat.names import bare_id

MAX_LISTED: Final = 1000  # keys that have spent most; those with a cap are listed as well


@guarded(Doorkeeper.check_admin)
def show_budget(hall: Hall, session: Session, message: admin.AdminBudget) -> None:
    """Those that have spent most come first; `total` tells how many keys have spent something."""
    day = day_of(hall.timestamp()) if message.day is None else _read_day(message.day)
    capped = hall.spending.caps.keys

    def work(books: SpendingBooks) -> tuple[Sums, int]:
        most, count = books.most_spent(day, MAX_LISTED)
        sums = books.spent(day, capped)
        return Sums(day, {**dict(most), **sums.by_key}, sums.total), count

    def done(found: tuple[Sums, int]) -> None:
        sums, count = found
        caps = hall.spending.caps
        listed = sorted({*sums.by_key, *capped}, key=lambda key: (-sums.by_key.get(key, 0), key))
        result = result_of(
            hall,
            "budget",
            day=day_text(day),
            spent=sums.total,
            cap=caps.of(TOTAL),
            total=count,
            budgets=[_entry(hall, key, sums.by_key.get(key, 0)) for key in listed],
        )
        hall.reply(session, result)

    hall.durable.wait_for(session, partial(hall.spending.store.submit, work), done)


@guarded(Doorkeeper.check_admin)
def set_budget(hall: Hall, session: Session, message: admin.AdminSetBudget) -> None:
    if message.pubkey is not None:
        try:
            key = PublicKey.from_pem(message.pubkey)
        except InvalidKey as error:
            raise InvalidMessage(f"Invalid `pubkey`: {error}") from None
        _change(hall, session, key, message.tokens)
    elif message.agent is not None:
        _find(hall, session, message.agent, message.tokens)
    else:
        _change(hall, session, None, message.tokens)


def _find(hall: Hall, session: Session, agent: str, tokens: int | None) -> None:
    named = {each.key for each in hall.roster.named(agent) if each.key is not None}
    if len(named) > 1:
        raise InvalidMessage(f"Several agents are called {agent[:64]}; give the id or the public key")

    def found(key: PublicKey | None) -> None:
        if key is None and named:
            key = next(iter(named))
        if key is None:
            raise AgentNotFound(
                f"No key of {agent[:64]} is known here; give its public key, or wait until it connects with it"
            )
        _change(hall, session, key, tokens)

    find_key(hall, session, bare_id(agent), found)


def _change(hall: Hall, session: Session, key: PublicKey | None, tokens: int | None) -> None:
    """Without a key it is the total."""
    caps, name = hall.spending.caps, TOTAL if key is None else key.raw
    if tokens is None and key is not None and caps.of(name) is None:
        raise AgentNotFound(f"@{key.agent_id(hall.settings.id_length)} has no cap")
    if tokens is not None and key is not None and caps.of(name) is None and caps.is_full:
        raise InvalidMessage(f"{MAX_CAPS:,} keys have a cap, which is the limit; clear one first")
    if tokens is None:
        caps.clear(name)
    else:
        caps.set(Cap(name.hex(), tokens))

    def work(books: CommonBooks) -> None:
        if tokens is None:
            books.strike(CAPS, [name])
        else:
            books.enlist(CAPS, name, encode_cap(Cap(name.hex(), tokens)))

    def done(_: None) -> None:
        result = result_of(hall, "set_budget", success=True, cap=tokens)
        if key is not None:
            result.agent_id = f"@{key.agent_id(hall.settings.id_length)}"
        hall.reply(session, result)

    hall.durable.wait_for(session, partial(hall.copies.change, CAPS, work), done)


def _entry(hall: Hall, raw: bytes, spent: int) -> server.BudgetEntry:
    key, agent = PublicKey(raw), hall.roster.by_key.get(raw)
    return server.BudgetEntry(
        agent_id=f"@{key.agent_id(hall.settings.id_length)}",
        pubkey=key.pem,
        spent=spent,
        cap=hall.spending.caps.of(raw),
        name=None if agent is None else agent.name,
    )


def _read_day(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise InvalidMessage(f"Invalid `day`: {text} is not a day, such as 2026-03-01") from None
    return day_of(int(moment.timestamp()) * 1000)


COMMANDS: Final = (
    Command(admin.AdminBudget, show_budget, ANSWER, Tier.STRANGER),
    Command(admin.AdminSetBudget, set_budget, ANSWER, Tier.STRANGER),
)
