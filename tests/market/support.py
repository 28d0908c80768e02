"""A market in memory: books that keep everything, agents that sign, and a clock that is a number."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from moothall.hall.spending import Report, Sums, added
from moothall.identity import PrivateKey
from moothall.market import agentchat, clerk, ledger
from moothall.market.announcements import ServiceLine, line_about
from moothall.market.books import MAX_READ, Books, Leader, OpenOffers, Page, what_fits
from moothall.market.hooks import hook_event
from moothall.market.outcome import MarketOutcome, News
from moothall.market.rating_rules import RatingRules
from moothall.market.records import (
    AuditRow,
    Book,
    Change,
    Entry,
    Happening,
    HookEvent,
    Offer,
    Proposal,
    RatingPoint,
    Receipt,
    Registration,
    Revoked,
    Standing,
)
from moothall.market.rules import MarketRules
from moothall.market.signed import Signed
from moothall.market.skills import Filters
from moothall.wire.agentchat import client
from moothall.wire.agentchat.codec import encode
from moothall.wire.agentchat.server import ServerMessage
from moothall.wire.agentchat.signing import SignedMessage, signed_text
from tests.identity.vectors import ALICE, BOB, CAROL, DAVE, NOW_MS
from tests.support.orders import order
from tests.support.seals import SEAL

AGENTS = (ALICE, BOB, CAROL, DAVE)

# What the reference does beyond the seeds (agentchat wire 12, 1.3 and 20, rows 26 to 28, 31, 32).
REFERENCE_RATINGS = RatingRules(
    amount_weighting=True, diminishing=True, pair_cooldown=3_600_000, minimum_age=60_000
)
REFERENCE = MarketRules(
    signature_code="VERIFICATION_FAILED",
    stranger_code="INVALID_PROPOSAL",
    expired_code="INVALID_PROPOSAL",
    ratings=REFERENCE_RATINGS,
)


class MemoryBooks(Books):
    def __init__(self) -> None:
        self.posted: list[tuple[frozenset[bytes], bytes]] = []
        self.lists: dict[str, dict[bytes, bytes]] = {}
        self.full = False  # no list can be changed: the disk is full
        self.deals: dict[str, Proposal] = {}
        self.stands: dict[bytes, Standing] = {}
        self.entries: dict[tuple[str, str, str], Entry] = {}
        self.audit: list[AuditRow] = []
        self.points: list[RatingPoint] = []
        self.kept_receipts: list[Receipt] = []
        self.skills: dict[bytes, Registration] = {}
        self.events: dict[str, HookEvent] = {}
        self.bound: dict[str, bytes] = {}
        self.notices: dict[bytes, bytes] = {}
        self.disk: Counter[tuple[str, int]] = Counter()
        self.spending: Counter[tuple[int, bytes]] = Counter()
        self.spending_days: Counter[int] = Counter()
        self.last_reported: dict[bytes, Report] = {}
        self.saved = 0  # bytes, by the latest decision

    def proposal(
        self, proposal_id: str, *, hold: bool = True, besides: Collection[bytes] = ()
    ) -> Proposal | None:
        return self.deals.get(proposal_id)

    def proposals_of(
        self,
        key: bytes,
        *,
        limit: int = 100,
        open_only: bool = False,
        before: Proposal | None = None,
        most: int = MAX_READ,
    ) -> Page[Proposal]:
        deals = [
            deal
            for deal in reversed(self.deals.values())
            if key in (deal.proposer, deal.recipient)
            and (not open_only or deal.status in ("pending", "accepted"))
            and (before is None or (deal.created_at, deal.id) < (before.created_at, before.id))
        ]
        return Page(*what_fits(deals[:limit], lambda deal: len(msgspec.json.encode(deal)), most))

    def open_offers(self, proposer: bytes, recipient: bytes, since: int, most: int) -> OpenOffers:
        own = [
            deal.recipient
            for deal in self.deals.values()
            if deal.proposer == proposer
            and deal.created_at > since
            and deal.status in ("pending", "accepted")
        ][:most]
        return OpenOffers(of_pair=own.count(recipient), of_proposer=len(own))

    def completions(self, one: bytes, other: bytes, limit: int) -> list[int]:
        return [
            deal.completed_at
            for deal in sorted(self.deals.values(), key=lambda deal: deal.completed_at or 0)
            if deal.completed_at is not None and {deal.proposer, deal.recipient} == {one, other}
        ][-limit:]

    def also_elsewhere(self, keys: Collection[bytes]) -> Collection[bytes]:
        return ()

    def on_mesh_elsewhere(self, keys: Collection[bytes]) -> Collection[bytes]:
        return ()

    def post(self, to: Collection[bytes], body: bytes) -> None:
        self.posted.append((frozenset(to), body))

    def listed(self, of: str) -> list[bytes]:
        return list(self.lists.get(of, {}).values())

    def enlist(self, of: str, name: bytes, record: bytes) -> None:
        self._require_room()
        self.lists.setdefault(of, {})[name] = record

    def strike(self, of: str, names: Collection[bytes]) -> None:
        self._require_room()
        for name in names:
            self.lists.get(of, {}).pop(name, None)

    def _require_room(self) -> None:
        if self.full:
            raise OSError(28, "No space left on device")

    def disk_used(self, account: str, day: int) -> int:
        return self.disk[account, day]

    def spend_disk(self, account: str, day: int) -> int:
        self.disk[account, day] += self.saved
        return self.saved

    def due(self, now: int, limit: int = 100) -> list[Proposal]:
        overdue = [deal for deal in self._with_deadline() if deal.expires is not None and deal.expires <= now]
        return sorted(overdue, key=lambda deal: deal.expires or 0)[:limit]

    def next_deadline(self) -> int | None:
        return min((deal.expires for deal in self._with_deadline() if deal.expires is not None), default=None)

    def standing(self, key: bytes) -> Standing:
        return self.stands.get(key) or Standing(key=key)

    def standings_of(self, keys: Collection[bytes]) -> dict[bytes, Standing]:
        return {key: self.standing(key) for key in sorted(keys)}

    def missed(self) -> set[str]:
        return set()

    def leaders(self, limit: int) -> list[Leader]:
        ranked = [each for each in self.stands.values() if each.transactions or each.rating != 1200]
        best = sorted(ranked, key=lambda s: (s.rating, s.transactions), reverse=True)
        return [Leader(each.key, each.rating, each.transactions) for each in best[:limit]]

    def history(self, key: bytes, limit: int = 100) -> list[tuple[int, int, str]]:
        points = [(each.at, each.rating, each.why) for each in reversed(self.points) if each.key == key]
        return points[:limit]

    def registration(self, key: bytes, *, hold: bool = False) -> Registration | None:
        return self.skills.get(key)

    def offers(self, filters: Filters, most: int) -> list[Offer]:
        found = [
            Offer(registration.key, position, skill["capability"], at)
            for registration in self.skills.values()
            for position, (skill, at) in enumerate(registration.listed())
            if _admits(filters, skill)
        ]
        return sorted(found, key=lambda offer: self.standing(offer.key).rating, reverse=True)[:most]

    def offering(self, capability: str, most: int) -> list[bytes]:
        return [
            key
            for key, registration in self.skills.items()
            if any(skill["capability"].lower() == capability for skill, _ in registration.listed())
        ][:most]

    def offered(self, offers: Sequence[Offer]) -> list[tuple[Offer, dict[str, Any]]]:
        return [(offer, self.skills[offer.key].listed()[offer.position][0]) for offer in offers]

    def find_key(self, agent_id: str) -> bytes | None:
        for agent in AGENTS:
            if agent_id in (agent.public.agent_id(8), agent.public.agent_id(16)):
                return agent.public.raw
        return None

    def counts(self) -> dict[str, int]:
        return Counter(deal.status for deal in self.deals.values())

    def parties(self) -> int:
        return len({key for deal in self.deals.values() for key in (deal.proposer, deal.recipient)})

    def receipts(
        self,
        key: bytes | None = None,
        *,
        limit: int = 100,
        before: str | None = None,
        most: int = MAX_READ,
    ) -> Page[Receipt]:
        kept = [
            receipt
            for receipt in reversed(self.kept_receipts)
            if key is None
            or key in (self.deals[receipt.proposal_id].proposer, self.deals[receipt.proposal_id].recipient)
        ]
        deals = [receipt.proposal_id for receipt in kept]
        start = 0 if before is None else deals.index(before) + 1 if before in deals else len(kept)
        return Page(*what_fits(kept[start : start + limit], lambda receipt: len(receipt.body), most))

    def owners(self, ids: Collection[str]) -> dict[str, bytes]:
        return {agent_id: self.bound[agent_id] for agent_id in ids if agent_id in self.bound}

    def bound_ids(self) -> int:
        return len(self.bound)

    def bind(self, agent_id: str, key: bytes, now: int) -> None:
        assert agent_id not in self.bound
        self.bound[agent_id] = key

    def last_reports(self, keys: Iterable[bytes]) -> dict[bytes, Report]:
        return {key: self.last_reported[key] for key in keys if key in self.last_reported}

    def spend(self, day: int, amounts: Mapping[bytes, int], reports: Mapping[bytes, Report]) -> Sums:
        self._require_room()
        self.last_reported.update(reports)
        for key, tokens in amounts.items():
            self.spending[day, key] = added(self.spending[day, key], tokens)
            self.spending_days[day] = added(self.spending_days[day], tokens)
        return self.spent(day, amounts)

    def spent(self, day: int, keys: Iterable[bytes]) -> Sums:
        by_key = {key: self.spending[day, key] for key in keys if self.spending[day, key]}
        return Sums(day, by_key, self.spending_days[day])

    def most_spent(self, day: int, limit: int) -> tuple[list[tuple[bytes, int]], int]:
        found = [(key, tokens) for (on, key), tokens in self.spending.items() if on == day and tokens]
        return sorted(found, key=lambda each: (-each[1], each[0]))[:limit], len(found)

    def is_revoked(self, key: bytes) -> bool:
        return key in self.notices

    def is_known(self, key: bytes) -> bool:
        return key in self.bound.values() or key in self.stands or key in self.skills

    def revocations(self) -> int:
        return len(self.notices)

    def revoked_since(self, number: int) -> list[tuple[int, bytes]]:
        return [(at, key) for at, key in enumerate(self.notices, start=1) if at > number]

    def revoke(self, key: bytes, notice: bytes, now: int) -> None:
        self.notices[key] = notice

    def save(self, *changes: Change) -> None:
        assert sum(isinstance(change, AuditRow) for change in changes) == 1
        self.saved = sum(len(msgspec.json.encode(change)) for change in changes)
        for change in changes:
            self._save(change)

    def save_standing(self, standing: Standing) -> None:
        self._save(standing)

    def save_entry(self, entry: Entry) -> None:
        self._save(entry)

    def _save(self, change: Change) -> None:
        match change:
            case Proposal():
                self.deals[change.id] = change
            case Standing():
                self.stands[change.key] = change
            case Entry():
                self.entries.setdefault((change.book, change.deal, change.operation), change)
            case AuditRow():
                self.audit.append(change)
            case RatingPoint():
                self.points.append(change)
            case Receipt():
                self.kept_receipts.append(change)
            case Registration():
                self.skills[change.key] = change
            case Revoked():
                self.skills.pop(change.key, None)
            case Happening():
                event = hook_event(change)
                assert event.id not in self.events, "an event is told once"
                self.events[event.id] = event

    def _with_deadline(self) -> list[Proposal]:
        return [
            deal
            for deal in self.deals.values()
            if deal.status in ("pending", "accepted") and deal.expires is not None and deal.frozen_by is None
        ]

    def balances(self, book: Book = "elo") -> dict[str, int]:
        return ledger.balances(self.entries.values(), book)


def _admits(filters: Filters, skill: dict[str, Any]) -> bool:
    rate, currency = skill.get("rate"), skill.get("currency")
    has_rate = isinstance(rate, int | float) and not isinstance(rate, bool)
    return (
        filters.capability in skill["capability"].lower()
        and not (has_rate and filters.max_rate is not None and rate > filters.max_rate)  # type: ignore[operator]
        and not (filters.currency and isinstance(currency, str) and currency.lower() != filters.currency)
    )


class Market:
    """Agents dealing with each other, at `now`, under `rules`."""

    def __init__(self, rules: MarketRules | None = None) -> None:
        self.rules = rules or MarketRules()
        self.books = MemoryBooks()
        self.now = NOW_MS
        self._made = 0

    def rated(self, agent: PrivateKey, **fields: Any) -> None:
        """The agent comes with a standing of its own, as an imported one does."""
        standing = Standing(key=agent.public.raw, **fields)
        self.books._save(standing)
        self.books._save(ledger.opening(standing.key, standing.rating, self.now))

    def propose(
        self, proposer: PrivateKey, recipient: PrivateKey, task: str = "Review it", **fields: Any
    ) -> MarketOutcome:
        self._made += 1
        message = signed(client.Proposal(to=address(recipient), task=task, sig="-", **fields), proposer)
        return clerk.propose(
            self.books,
            self.checked(message, proposer),
            proposal_id=f"prop_{self._made}",
            address=address(proposer),
            connected=recipient.public.raw,
            now=self.now,
            rules=self.rules,
        )

    def accept(self, agent: PrivateKey, deal: str = "prop_1", **fields: Any) -> MarketOutcome:
        message = signed(client.Accept(proposal_id=deal, sig="-", **fields), agent)
        return clerk.accept(self.books, self.checked(message, agent), now=self.now, rules=self.rules)

    def reject(self, agent: PrivateKey, deal: str = "prop_1", **fields: Any) -> MarketOutcome:
        message = signed(client.Reject(proposal_id=deal, sig="-", **fields), agent)
        return clerk.reject(self.books, self.checked(message, agent), now=self.now, rules=self.rules)

    def complete(self, agent: PrivateKey, deal: str = "prop_1", **fields: Any) -> MarketOutcome:
        message = signed(client.Complete(proposal_id=deal, sig="-", **fields), agent)
        return clerk.complete(
            self.books, self.checked(message, agent), now=self.now, rules=self.rules, seal=SEAL
        )

    def dispute(
        self, agent: PrivateKey, deal: str = "prop_1", reason: str = "not delivered"
    ) -> MarketOutcome:
        message = signed(client.Dispute(proposal_id=deal, reason=reason, sig="-"), agent)
        return clerk.dispute(self.books, self.checked(message, agent), now=self.now, rules=self.rules)

    def expire(self) -> list[MarketOutcome]:
        due = [deal.id for deal in self.books.due(self.now)]
        outcomes = [clerk.expire(self.books, deal, now=self.now) for deal in due]
        return [outcome for outcome in outcomes if outcome is not None]

    def freeze(self, deal: str = "prop_1", dispute_id: str | None = "disp_1") -> None:
        """What the court does when it takes a case, and undoes when it gives it up."""
        self.books.deals[deal] = msgspec.structs.replace(self.books.deals[deal], frozen_by=dispute_id)

    def register(self, agent: PrivateKey, *skills: dict[str, Any]) -> MarketOutcome:
        message = signed(client.RegisterSkills(skills=list(skills), sig="-"), agent)
        return clerk.register_skills(
            self.books, self.checked(message, agent), agent_id=agent.public.agent_id(), now=self.now
        )

    def search(self, *online: PrivateKey, **query: Any) -> list[dict[str, Any]]:
        message = client.SearchSkills(query=query)
        keys = {agent.public.raw for agent in online}
        found = clerk.search_skills(self.books, agentchat.read_query(message), online=keys)
        return agentchat.search_results(message, found, 8, self.now).results

    def deal(self, deal: str = "prop_1") -> Proposal:
        return self.books.deals[deal]

    def standing(self, agent: PrivateKey) -> Standing:
        return self.books.standing(agent.public.raw)

    def rating(self, agent: PrivateKey) -> int:
        return self.standing(agent).rating

    def checked(self, message: SignedMessage, agent: PrivateKey) -> Signed[Any]:
        return order(message, agent.public, self.rules)


def address(agent: PrivateKey) -> str:
    return f"@{agent.public.agent_id()}"


Message = TypeVar("Message", bound=SignedMessage)


def signed(message: Message, agent: PrivateKey) -> Message:
    return msgspec.structs.replace(message, sig=agent.sign(signed_text(message)))


def told(outcome: MarketOutcome, agent: PrivateKey) -> list[dict[str, Any]]:
    """What one agent is told, as it reads on the wire."""
    return [frame_of(notice.news) for notice in outcome.notices if agent.public.raw in notice.to]


def lines(outcome: MarketOutcome) -> list[ServiceLine]:
    """What @server says about it."""
    said = [line_about(notice.news) for notice in outcome.notices]
    return [line for line in said if line is not None]


def frame_of(news: News) -> dict[str, Any]:
    return frame(agentchat.message_of(news))


def frame(message: ServerMessage) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(encode(message))
    return decoded
