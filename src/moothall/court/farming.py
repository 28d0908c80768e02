"""What one address can farm: the best known strategies, played with the real decisions on a made-up clock.

An attacker has one address, as many keys as the hall lets it make, and one key that is to gain: the owner.
`market.proposals` and `court.judging` decide everything, under the rules of a hall. Only signatures are left out:
the attacker has all the keys. How fast it is follows from the hall's rates.
"""

from collections import deque
from collections.abc import Callable, Iterator
from math import ceil
from typing import Final, NamedTuple

from msgspec import structs

from moothall.court import judging
from moothall.court.commands import CastVote
from moothall.court.news import CourtOutcome
from moothall.court.records import Dispute, Slot
from moothall.court.rules import CourtRules
from moothall.identity import PrivateKey
from moothall.identity.seals import Seal
from moothall.market import escrow, proposals
from moothall.market.clerk import LOOK_BACK
from moothall.market.commands import Accept, Complete, Propose
from moothall.market.commands import Dispute as PlainDispute
from moothall.market.curbs import NEWCOMER_DEALS
from moothall.market.outcome import MarketOutcome
from moothall.market.records import Proposal, Standing
from moothall.market.reputation import pair_history
from moothall.market.rules import MarketRules
from moothall.market.signed import Signed

HOUR: Final = 3_600_000  # ms
PAUSE: Final = 60_000  # after a deal that brought nothing
MAX_DEALS: Final = 5000  # of one strategy: then what was farmed until then is the answer
AS_FAST_AS_IT_GETS: Final = 1000.0  # frames a second, where a hall has no limit
DEAL_FRAMES: Final = 3  # PROPOSAL, ACCEPT, and the end
CASE_FRAMES: Final = 12  # of a deal, intent, reveal, both evidences, and two of each arbiter
PANEL: Final = 3
BEGIN: Final = 1_000 * HOUR
SIG: Final = "-"
SEAL: Final = Seal(PrivateKey(bytes(32)))  # receipts are made and thrown away


class Limits(NamedTuple):
    """What a hall lets one address do."""

    frames: float = AS_FAST_AS_IT_GETS  # a second, of one key
    address_frames: float = AS_FAST_AS_IT_GETS  # a second, of all its keys together
    new_keys: int = 0  # an hour; 0 is any number


class Harvest(NamedTuple):
    strategy: str
    best_hour: int  # points that the owner gained within the best 60 minutes
    hourly: float  # points an hour, over the whole time
    hours: float
    keys: int
    deals: int

    @property
    def points(self) -> int:
        """In an hour. Without a bound MAX_DEALS are made in less, and then the average counts."""
        return max(self.best_hour, ceil(self.hourly))


class Farm:
    """A market in which all keys are the attacker's."""

    def __init__(self, rules: MarketRules, court: CourtRules, limits: Limits) -> None:
        self._rules = rules
        self._court = court
        self._limits = limits
        self._standings: dict[bytes, Standing] = {}
        self._pairs: dict[frozenset[bytes], list[int]] = {}
        self._key_times: deque[int] = deque()
        self.now = BEGIN
        self.keys = 0
        self.deals = 0
        self.owner = self._make_key()
        self.history: list[tuple[int, int]] = [(BEGIN, self.rating(self.owner))]

    def rating(self, key: bytes) -> int:
        return self._standing(key).rating

    def transactions(self, key: bytes) -> int:
        return self._standing(key).transactions

    def all_it_has(self, key: bytes) -> int:
        return escrow.available(self._standing(key))

    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds

    def cool_down(self) -> None:
        """Wait until every pair may gain by a deal again."""
        self.wait(max(PAUSE, self._rules.ratings.pair_cooldown))

    def new_key(self) -> bytes:
        """Waits until the address may have one more."""
        times, most = self._key_times, self._limits.new_keys
        if most:
            while times and self.now - times[0] >= HOUR:
                times.popleft()
            if len(times) >= most:
                self.now = times[0] + HOUR
                times.popleft()
            times.append(self.now)
        return self._make_key()

    def complete(self, one: bytes, other: bytes) -> None:
        """`other` answers with a single frame: the first proposes and completes."""
        deal = self._agree(one, other, 0)
        order = Signed(Complete(deal=deal.id), one, SIG)
        pair = self._pairs.setdefault(frozenset((one, other)), [])
        history = pair_history(pair[-LOOK_BACK:], self._rules.ratings)
        self._apply(
            proposals.complete(
                order,
                deal,
                self._both(deal),
                pair=history,
                now=self.now,
                rules=self._rules,
                seal=SEAL,
            )
        )
        pair.append(self.now)
        self._spend(owner_frames=1, frames=DEAL_FRAMES)

    def lose(self, loser: bytes, winner: bytes, stake: int) -> None:
        """By plain DISPUTE."""
        deal = self._agree(loser, winner, stake)
        order = Signed(PlainDispute(deal=deal.id, reason="-"), winner, SIG)
        self._apply(proposals.dispute(order, deal, self._both(deal), now=self.now, rules=self._rules))
        self._spend(owner_frames=2, frames=DEAL_FRAMES)

    def lose_in_court(self, loser: bytes, winner: bytes, stake: int, arbiters: list[bytes]) -> None:
        """By a verdict of arbiters that are the attacker's too. That the draw hits them is taken for granted."""
        deal = self._agree(loser, winner, stake)
        case = self._case(deal, winner, loser, arbiters)
        frozen = structs.replace(deal, frozen_by=case.id)
        for arbiter in arbiters:
            standings = {key: self._standing(key) for key in judging.agents_of(case)}
            order = Signed(CastVote(case=case.id, verdict="disputant", reasoning=""), arbiter, SIG)
            outcome = judging.vote(order, case, frozen, standings, now=self.now, rules=self._court)
            case = next(change for change in outcome.changes if isinstance(change, Dispute))
            self._apply(outcome)
        self._spend(owner_frames=3, frames=CASE_FRAMES)

    # -- inside ------------------------------------------------------------------------------------

    def _make_key(self) -> bytes:
        self.keys += 1
        return self.keys.to_bytes(32, "big")

    def _standing(self, key: bytes) -> Standing:
        return self._standings.get(key) or Standing(key=key)

    def _both(self, deal: Proposal) -> dict[bytes, Standing]:
        return {key: self._standing(key) for key in (deal.proposer, deal.recipient)}

    def _agree(self, proposer: bytes, recipient: bytes, stake: int) -> Proposal:
        """Offers are made ahead, so that none is too young to be completed."""
        made_at = self.now - self._rules.ratings.minimum_age
        self.deals += 1
        offer = Propose(to=_address(recipient), task="-", stake=stake)
        made = proposals.propose(
            Signed(offer, proposer, SIG),
            {proposer: self._standing(proposer)},
            proposal_id=f"prop_{self.deals}",
            address=_address(proposer),
            recipient=recipient,
            now=made_at,
        )
        answer = Signed(Accept(deal=f"prop_{self.deals}"), recipient, SIG)
        deal = _deal_of(made)
        outcome = proposals.accept(answer, deal, self._both(deal), now=self.now, rules=self._rules)
        self._apply(outcome)
        return _deal_of(outcome)

    def _case(self, deal: Proposal, disputant: bytes, respondent: bytes, arbiters: list[bytes]) -> Dispute:
        slots = tuple(
            Slot(arbiter=key, address=_address(key), status="accepted", assigned_at=self.now)
            for key in arbiters
        )
        return Dispute(
            id=f"disp_{self.deals}",
            proposal_id=deal.id,
            disputant=disputant,
            respondent=respondent,
            disputant_address=_address(disputant),
            respondent_address=_address(respondent),
            reason="-",
            commitment="-",
            intent_sig=SIG,
            server_nonce="-",
            phase="deliberation",
            deadline=self.now + self._court.vote_period,
            filed_at=self.now,
            slots=slots,
        )

    def _apply(self, outcome: MarketOutcome | CourtOutcome) -> None:
        for change in outcome.changes:
            if isinstance(change, Standing):
                self._standings[change.key] = change

    def _spend(self, owner_frames: int, frames: int) -> None:
        """The time that the frames of a deal take, and the owner's rating after it."""
        limits = self._limits
        seconds = max(owner_frames / limits.frames, frames / limits.address_frames)
        self.history.append((self.now, self.rating(self.owner)))
        self.now += max(1, round(seconds * 1000))


def _address(key: bytes) -> str:
    return f"@{int.from_bytes(key, 'big'):08x}"


def _deal_of(outcome: MarketOutcome) -> Proposal:
    return next(change for change in outcome.changes if isinstance(change, Proposal))


# -- strategies: each yields after a step that should bring the owner something --------------------------------

Strategy = Callable[[Farm], Iterator[None]]


def losing_stakes(farm: Farm) -> Iterator[None]:
    """A fresh key stakes all it has, and loses it to the owner by DISPUTE."""
    while True:
        fresh = farm.new_key()
        farm.lose(fresh, farm.owner, farm.all_it_has(fresh))
        yield


def losing_without_stakes(farm: Farm) -> Iterator[None]:
    """A few keys lose disputes to the owner again and again."""
    losers = [farm.new_key() for _ in range(10)]
    while True:
        for loser in losers:
            farm.lose(loser, farm.owner, 0)
            yield


def losing_in_court(farm: Farm) -> Iterator[None]:
    """The same as losing stakes, before a panel of the attacker's own keys."""
    arbiters = [farm.new_key() for _ in range(PANEL)]
    _grow_up(farm, *arbiters)
    while True:
        fresh = farm.new_key()
        farm.lose_in_court(fresh, farm.owner, farm.all_it_has(fresh), arbiters)
        yield


def losing_when_grown_up(farm: Farm) -> Iterator[None]:
    """Fresh keys complete ten deals with each other, so that they are no newcomers, and then lose all they have."""
    while True:
        pair = farm.new_key(), farm.new_key()
        _grow_up(farm, *pair)
        for key in pair:
            farm.lose(key, farm.owner, farm.all_it_has(key))
            yield


def completing_with_one(farm: Farm) -> Iterator[None]:
    """Two keys complete deals with each other."""
    other = farm.new_key()
    while True:
        farm.complete(other, farm.owner)
        yield


def completing_with_many(farm: Farm) -> Iterator[None]:
    """The owner completes deals with keys that raise each other, so that each is rated higher than the owner."""
    ring = [farm.new_key() for _ in range(8)]
    while True:
        for number, key in enumerate(ring):
            farm.complete(key, ring[number - 1])
            farm.complete(key, farm.owner)
            yield


def judging_cases(farm: Farm) -> Iterator[None]:
    """The owner is an arbiter in cases between the attacker's other keys."""
    others = [farm.new_key() for _ in range(PANEL - 1)]
    _grow_up(farm, farm.owner, *others)
    parties = farm.new_key(), farm.new_key()
    while True:
        farm.lose_in_court(parties[0], parties[1], 0, [farm.owner, *others])
        yield


STRATEGIES: Final[tuple[Strategy, ...]] = (
    losing_stakes,
    losing_without_stakes,
    losing_when_grown_up,
    losing_in_court,
    completing_with_one,
    completing_with_many,
    judging_cases,
)


def _grow_up(farm: Farm, *keys: bytes) -> None:
    """Deals with each other until none is a newcomer. Those of a pair that come too soon do not count."""
    while any(farm.transactions(key) < NEWCOMER_DEALS for key in keys):
        before = [farm.transactions(key) for key in keys]
        for number, key in enumerate(keys):
            farm.complete(key, keys[number - 1])
        if before == [farm.transactions(key) for key in keys]:
            farm.cool_down()


# -- the harvest -----------------------------------------------------------------------------------------


def simulate(rules: MarketRules, court: CourtRules, limits: Limits, hours: float) -> list[Harvest]:
    return [play(strategy, rules, court, limits, hours) for strategy in STRATEGIES]


def play(strategy: Strategy, rules: MarketRules, court: CourtRules, limits: Limits, hours: float) -> Harvest:
    farm = Farm(rules, court, limits)
    end = BEGIN + round(hours * HOUR)
    steps = strategy(farm)
    rating = farm.rating(farm.owner)
    while farm.now < end and farm.deals < MAX_DEALS:
        next(steps)
        before, rating = rating, farm.rating(farm.owner)
        if rating <= before:
            farm.wait(PAUSE)
    passed = max(1, min(farm.now, end) - BEGIN) / HOUR
    within = [(at, rating) for at, rating in farm.history if at < end]
    gained = within[-1][1] - within[0][1]
    return Harvest(
        strategy=strategy.__name__.replace("_", " "),
        best_hour=best_hour(within),
        hourly=gained / passed,
        hours=passed,
        keys=farm.keys,
        deals=farm.deals,
    )


def best_hour(history: list[tuple[int, int]]) -> int:
    """The most that a rating grew within 60 minutes."""
    best, first = 0, 0
    for at, rating in history:
        while at - history[first][0] >= HOUR:
            first += 1
        best = max(best, rating - history[first][1])
    return best


def worst(harvests: list[Harvest]) -> int:
    """The points that one address can farm in an hour."""
    return max(each.points for each in harvests)
