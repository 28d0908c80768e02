"""What the reference server left in the data directory, brought in once, when the store is made (agentchat wire
12.5, 12.7, 12.9, 14, 17.3).

Its files know agents by 16 digits of a hash. A row waits under those digits until the key behind them appears
(`SqlBooks.standing` binds it); for the keys that the reference wrote down in `first-seen.json` that is now.
"""

import re
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from moothall.errors import InvalidKey, InvalidMessage, UsageError
from moothall.hall.outside import Log
from moothall.identity import PublicKey
from moothall.identity.keys import FINGERPRINT_LENGTH
from moothall.market import ledger
from moothall.market.proposals import LAST_MOMENT
from moothall.market.records import Receipt, Registration, SkillStanding, Standing
from moothall.market.reputation import FLOOR
from moothall.market.skills import MAX_SIZE, MAX_SKILLS, size_of
from moothall.store.dialect import Connection
from moothall.store.files import DataDirectory
from moothall.store.mirror import RATINGS_FILE, RECEIPTS_FILE
from moothall.store.rows import Draft

SKILLS_FILE: Final = "skills.json"
ESCROWS_FILE: Final = "escrows.json"
FIRST_SEEN_FILE: Final = "first-seen.json"

_FINGERPRINT: Final = re.compile(r"@?([0-9a-f]{16})\Z")

Content = TypeVar("Content")
_encode: Final = msgspec.json.Encoder().encode


# A file may be damaged or written by hand: what no column holds is refused, before anything is brought in.
Points = Annotated[float, Meta(ge=-1e9, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Moment = Annotated[float, Meta(ge=0, le=LAST_MOMENT)]
Id = Annotated[str, Meta(pattern=r"\A[ -~]{0,256}\Z")]

LAST_DATE: Final = 253_402_300_799_999  # the last millisecond of the year 9999, after which no text names one


class _SkillRating(Struct):
    rating: Points = 1200
    transactions: Count = 0
    updated: str | None = None

    def standing(self) -> SkillStanding:
        return SkillStanding(
            rating=_floored(self.rating), transactions=self.transactions, updated=_milliseconds(self.updated)
        )


class _Rating(_SkillRating):
    skills: dict[str, _SkillRating] = field(default_factory=dict)


class _Skills(Struct):
    skills: list[dict[str, Any]]
    registered_at: Moment = 0
    sig: str | None = None


class _Stake(Struct):
    stake: float | None = None


class _Escrow(Struct):
    status: str = ""
    from_: _Stake = field(name="from", default_factory=_Stake)
    to: _Stake = field(default_factory=_Stake)


class _Operation(Struct):
    key: str = ""


class _Receipt(Struct):
    proposal_id: Id
    stored_at: Moment = 0
    from_: Id = field(name="from", default="")
    to: Id = ""
    operations: list[_Operation] = field(default_factory=list)  # in receipts of our own


class Known(NamedTuple):
    """What is known about one fingerprint."""

    standing: Standing | None
    registration: Registration | None


def bring_in(connection: Connection, directory: DataDirectory, log: Log) -> None:
    """The caller holds the transaction that made the tables."""
    ratings = _ratings(directory, log)
    skills = _skills(directory, log)
    draft = Draft()
    receipts = _receipts(directory, draft, log)
    keys = _first_seen(directory)
    for fingerprint in sorted(ratings.keys() | skills.keys()):
        known = Known(ratings.get(fingerprint), skills.get(fingerprint))
        _insert(connection, fingerprint, known)
        if (key := keys.get(fingerprint)) is not None and key not in draft.keys:
            _bind(draft, fingerprint, key, known)
    draft.write(connection)
    released = _open_escrows(directory)
    if released:
        log.info("reference_escrows_released", escrows=len(released), stakes=sum(released))
    if ratings or skills or receipts:
        log.info(
            "reference_imported",
            ratings=len(ratings),
            skills=len(skills),
            receipts=receipts,
            bound=len(draft.keys),
        )


def keep_unknown(connection: Connection, directory: DataDirectory, log: Log) -> None:
    """The store is older than this folder's files: another hall made it, or it is a backup. Nothing is brought in
    then; but what the store knows nothing about must not vanish when ours replace them."""
    for name, is_known in ((RATINGS_FILE, _knows_ratings), (RECEIPTS_FILE, _knows_receipts)):
        if not is_known(connection, directory):
            log.warning("reference_not_imported", file=name, kept=_copy(directory, name))


def _knows_ratings(connection: Connection, directory: DataDirectory) -> bool:
    """A file that cannot be read was cut short when the power failed: ours is never half written otherwise."""
    try:
        found = msgspec.json.decode(directory.read(RATINGS_FILE) or b"{}", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return True
    rated = {match[1] for agent_id in found if (match := _FINGERPRINT.match(agent_id))}
    for table in ("keys", "imported"):
        for (fingerprint,) in connection.stream(f"SELECT fingerprint FROM {table}"):  # noqa: S608  # our own names
            rated.discard(fingerprint)
    return not rated


def _knows_receipts(connection: Connection, directory: DataDirectory) -> bool:
    """By the first and the last: a file of ours begins and ends as the store does."""
    for line in directory.ends_of(RECEIPTS_FILE):
        try:
            receipt = msgspec.json.decode(line, type=_Receipt)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if not connection.execute(
            "SELECT 1 FROM receipts WHERE proposal_id = ?", (receipt.proposal_id,)
        ).fetchone():
            return False
    return True


def _insert(connection: Connection, fingerprint: str, known: Known) -> None:
    connection.execute(
        "INSERT INTO imported (fingerprint, standing, registration) VALUES (?, ?, ?)",
        (
            fingerprint,
            None if known.standing is None else _encode(known.standing),
            None if known.registration is None else _encode(known.registration),
        ),
    )


def _bind(draft: Draft, fingerprint: str, key: bytes, known: Known) -> None:
    draft.put_key(key)
    draft.put_binding(PublicKey(key).agent_id(), key, 0)
    draft.put_bound(fingerprint, key)
    if known.standing is not None:
        standing = msgspec.structs.replace(known.standing, key=key)
        draft.put_standing(standing, None)
        draft.put_entry(ledger.opening(key, standing.rating, standing.updated or 0))
    if known.registration is not None:
        rating = (known.standing or Standing(key=key)).rating
        draft.put_registration(msgspec.structs.replace(known.registration, key=key), rating)


# -- one file each -------------------------------------------------------------------------------------


def _ratings(directory: DataDirectory, log: Log) -> dict[str, Standing]:
    found = _read(directory, RATINGS_FILE, dict[str, _Rating]) or {}
    rows = {
        match[1]: Standing(
            key=b"",
            rating=_floored(rating.rating),
            transactions=rating.transactions,
            updated=_milliseconds(rating.updated),
            skills={name: skill.standing() for name, skill in rating.skills.items()},
        )
        for agent_id, rating in found.items()
        if (match := _FINGERPRINT.match(agent_id))
    }
    _keep_a_copy(directory, RATINGS_FILE, len(found) - len(rows), log)
    return rows


def _skills(directory: DataDirectory, log: Log) -> dict[str, Registration]:
    found = _read(directory, SKILLS_FILE, dict[str, _Skills]) or {}
    rows = {
        match[1]: Registration(
            key=b"",
            agent_id=match[1],
            skills=skills,
            registered_at=int(offer.registered_at),
            sig=offer.sig or "",
        )
        for agent_id, offer in found.items()
        if (match := _FINGERPRINT.match(agent_id)) and (skills := _offered(offer.skills))
    }
    if skipped := len(found) - len(rows):
        log.warning("reference_rows_skipped", file=SKILLS_FILE, rows=skipped)
    return rows


def _offered(skills: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that can be searched for, and no more than REGISTER_SKILLS takes: every answer holds some."""
    offered: list[dict[str, Any]] = []
    room = MAX_SIZE
    for skill in skills:
        if not isinstance(skill.get("capability"), str) or not skill["capability"]:
            continue
        try:
            size = size_of(skill)
        except InvalidMessage:
            continue
        if size <= room and len(offered) < MAX_SKILLS:
            offered.append(skill)
            room -= size
    return offered


def _receipts(directory: DataDirectory, draft: Draft, log: Log) -> int:
    """One per deal. The last line may have been cut off when the reference was killed."""
    lines = [line for line in (directory.read(RECEIPTS_FILE) or b"").splitlines() if line.strip()]
    seen: set[str] = set()
    for line in lines:
        try:
            msgspec.json.decode(line)  # all of it: its parties get the line as it is
            receipt = msgspec.json.decode(line, type=_Receipt)
            parties = _parties(receipt)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidKey):
            continue
        if receipt.proposal_id not in seen:
            seen.add(receipt.proposal_id)
            kept = Receipt(proposal_id=receipt.proposal_id, at=int(receipt.stored_at), body=line)
            draft.put_receipt(kept, *parties)
    _keep_a_copy(directory, RECEIPTS_FILE, len(lines) - len(seen), log)
    return len(seen)


def _parties(receipt: _Receipt) -> tuple[str, str]:
    if len(receipt.operations) > 1:  # PROPOSAL and ACCEPT come first
        proposer, recipient = (PublicKey.from_pem(each.key).fingerprint for each in receipt.operations[:2])
        return proposer, recipient
    return receipt.from_.removeprefix("@"), receipt.to.removeprefix("@")


def _first_seen(directory: DataDirectory) -> dict[str, bytes]:
    """Keys by fingerprint; also by the hash of the text as it came, which is what the reference went by."""
    found = directory.read_list(FIRST_SEEN_FILE, lambda content: _decode(content, dict[str, Any])) or {}
    keys: dict[str, bytes] = {}
    for pem in found:
        try:
            key = PublicKey.from_pem(pem)
        except InvalidKey:
            continue
        keys[key.fingerprint] = key.raw
        keys[sha256(pem.encode()).hexdigest()[:FINGERPRINT_LENGTH]] = key.raw
    return keys


def _open_escrows(directory: DataDirectory) -> list[int]:
    """Stakes of deals that the reference lost when it stopped. They cannot be settled, so they are released."""
    found = _read(directory, ESCROWS_FILE, dict[str, _Escrow]) or {}
    return [
        int((escrow.from_.stake or 0) + (escrow.to.stake or 0))
        for escrow in found.values()
        if escrow.status == "active"
    ]


def _read(directory: DataDirectory, name: str, content: type[Content]) -> Content | None:
    encoded = directory.read(name)
    if encoded is None:
        return None
    try:
        return _decode(encoded, content)
    except UsageError as error:
        raise UsageError(
            f"{directory.path / name}: {error}; repair it, or move it away to start without it"
        ) from None


def _decode(encoded: bytes, content: type[Content]) -> Content:
    try:
        return msgspec.json.decode(encoded, type=content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(str(error)) from None


def _keep_a_copy(directory: DataDirectory, name: str, skipped: int, log: Log) -> None:
    if skipped:
        log.warning("reference_rows_skipped", file=name, rows=skipped, kept=_copy(directory, name))


def _copy(directory: DataDirectory, name: str) -> str:
    """Its name. What was kept another time stays, too."""
    content = directory.read(name) or b""
    for path in directory.kept_names(name):
        there = directory.read(path.name)
        if there is None:
            directory.write(path.name, content)
        if there is None or there == content:
            break
    return path.name


def _floored(rating: float) -> int:
    return max(FLOOR, round(rating))


def _milliseconds(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return moment if 0 <= moment <= LAST_DATE else None
