"""Check the panel of a case from its file: the pool, the draw, replacements, and what became of each arbiter.

What arbiters signed is checked in `verify`.
"""

from collections.abc import Sequence, Set

from moothall.court.casefile import FORMAT, Arbiter, Case
from moothall.court.panel import MAX_POOL, PANEL_SIZE, draw_replacement, pool_hash_of, shuffled
from moothall.errors import InvalidKey
from moothall.identity import PublicKey
from moothall.market.proof import Proof
from moothall.market.receipts import is_id_of


def check_panel(case: Case, keys: Sequence[PublicKey], proof: Proof) -> None:
    """`keys` are those of the arbiters, in their order."""
    _Panel(case, keys, proof).check()


def is_unreplaced(case: Case) -> bool:
    """True if the case fell back because an arbiter that declined could not be replaced."""
    statuses = [arbiter.status for arbiter in case.arbiters]
    return case.phase == "fallback" and statuses.count("declined") > len(statuses) - PANEL_SIZE


class _Panel:
    def __init__(self, case: Case, keys: Sequence[PublicKey], proof: Proof) -> None:
        self._case = case
        self._keys = keys
        self._claim = proof.claim
        self._barred = {case.disputant.id, case.respondent.id}  # from the pool of the next replacement

    def check(self) -> None:
        self._draw()
        for number in range(len(self._case.arbiters)):
            self._slot(number)

    # -- the draw ----------------------------------------------------------------------------------

    def _draw(self) -> None:
        case = self._case
        self._claim(
            "pool_hash",
            (case.pool_hash is not None) == (case.format == FORMAT),
            "There is a hash of the pool, except in cases of the old format",
        )
        if case.seed is None or case.pool is None:
            self._claim(
                "seed", case.reveal is None, "There is a seed and a pool since the nonce was revealed"
            )
            return
        self._check_pool("pool", case.pool, {case.disputant.id, case.respondent.id})
        if case.pool_hash is not None:
            self._committed_pool(case.pool, case.pool_hash)
        self._walk(shuffled(case.seed, case.pool))
        declines = sum(arbiter.status == "declined" for arbiter in case.arbiters)
        # The last decline is not replaced when no agent is left, and then there is a fallback.
        missing = declines - len(case.arbiters[PANEL_SIZE:])
        self._claim(
            "arbiters",
            missing == 0 or (missing == 1 and case.phase == "fallback"),
            "Each arbiter that declined was replaced, or no agent was left",
        )

    def _check_pool(self, field: str, pool: Sequence[str], barred: Set[str]) -> None:
        self._claim(field, list(pool) == sorted(set(pool)), "The pool is sorted and names each agent once")
        self._claim(field, barred.isdisjoint(pool), "The pool has neither a party nor an arbiter from before")

    def _committed_pool(self, pool: Sequence[str], pool_hash: str) -> None:
        keys = [_raw_key(text) for text in self._case.pool_keys or ()]
        self._claim("pool", len(pool) <= MAX_POOL, f"The pool has at most {MAX_POOL} agents")
        self._claim("pool_hash", pool_hash == pool_hash_of(pool), "The hash is that of the pool")
        self._claim(
            "pool_keys",
            len(keys) == len(pool)
            and all(key is not None and is_id_of(each, key) for each, key in zip(pool, keys, strict=True)),
            "The ids in the pool are those of its keys",
        )
        held = dict(zip(pool, keys, strict=False))
        self._claim(
            "arbiters",
            all(held.get(each.id) == key for each, key in zip(self._case.arbiters, self._keys, strict=True)),
            "The arbiters have the keys that the pool names",
        )

    def _walk(self, order: Sequence[str]) -> None:
        """Seats go down the order to those that were not passed over. A replacement with a pool of its own, of the
        old format, is checked in `_slot`."""
        case = self._case
        drawn = [arbiter.id for arbiter in case.arbiters if arbiter.pool is None]
        skipped = [each.id for each in case.skipped]
        passed_over = set(skipped)
        others = {arbiter.id for arbiter in case.arbiters if arbiter.pool is not None}
        self._claim(
            "skipped",
            skipped == [each for each in order if each in passed_over] and others.isdisjoint(skipped),
            "The agents that were passed over are of the pool, in the order of the draw",
        )
        free = [each for each in order if each not in passed_over and each not in others]
        self._claim("arbiters", drawn == free[: len(drawn)], "The seed and the pool give the arbiters")
        if self._is_exhausted(len(free) - len(drawn)):
            return
        last = order.index(drawn[-1]) if drawn and drawn[-1] in order else 0
        self._claim(
            "skipped",
            passed_over.isdisjoint(order[last:]),
            "No agent was passed over after the last arbiter was found",
        )

    def _is_exhausted(self, left: int) -> bool:
        """The walk went to the end of the pool, because there were fewer than it needed."""
        case = self._case
        if not case.arbiters:
            return self._claim(
                "arbiters",
                case.phase == "fallback" and left < PANEL_SIZE,
                f"No panel was drawn, because fewer than {PANEL_SIZE} agents of the pool were eligible",
            )
        if not is_unreplaced(case):
            return False
        # Of an old case the file does not say which agents were eligible then.
        return case.format != FORMAT or self._claim(
            "arbiters",
            left == 0,
            "The last arbiter that declined was not replaced, because no agent was left",
        )

    # -- the arbiters ------------------------------------------------------------------------------

    def _slot(self, number: int) -> None:
        case, arbiter = self._case, self._case.arbiters[number]
        field = f"arbiters[{number}]"
        replaces = number >= PANEL_SIZE
        self._claim(
            f"{field}.is_replacement",
            arbiter.is_replacement == replaces,
            f"{arbiter.id} {'is a replacement' if replaces else 'is of the first panel'}",
        )
        if arbiter.pool is not None:
            self._claim(
                f"{field}.pool",
                replaces and case.format != FORMAT,
                f"{arbiter.id} replaced an arbiter in a case of the old format",
            )
            self._check_pool(f"{field}.pool", arbiter.pool, self._barred)
            self._claim(
                f"{field}.pool",
                case.seed is not None and draw_replacement(case.seed, number, arbiter.pool) == arbiter.id,
                f"The seed and its pool give {arbiter.id}",
            )
        self._barred.add(arbiter.id)
        self._status(field, arbiter)

    def _status(self, field: str, arbiter: Arbiter) -> None:
        case = self._case
        accepted, declined, voted = (
            arbiter.accepted is not None,
            arbiter.declined is not None,
            arbiter.vote is not None,
        )
        said = {
            "pending": not accepted and not declined and not voted,
            "accepted": accepted and not declined and not voted,
            "declined": declined and not accepted and not voted,
            # A vote is not shown before the verdict.
            "voted": accepted and not declined and (voted or case.phase == "deliberation"),
            "forfeited": not declined and not voted and accepted == (case.phase == "resolved"),
        }
        possible = {
            "reveal_pending": (),
            "arbiter_response": ("pending", "accepted", "declined"),
            "evidence": ("accepted", "declined"),
            "deliberation": ("accepted", "declined", "voted"),
            "resolved": ("declined", "voted", "forfeited"),
            "fallback": ("pending", "accepted", "declined", "forfeited"),
        }
        self._claim(
            f"{field}.status",
            said[arbiter.status] and arbiter.status in possible[case.phase],
            f"{arbiter.id} did what its status says",
        )


def _raw_key(text: str) -> PublicKey | None:
    try:
        return PublicKey(bytes.fromhex(text))
    except (ValueError, InvalidKey):
        return None
