"""What operators do with the shared key: the allow list, kick and ban, MOTD, the verified flag (wire 16).

Accepted from any connection, identified or not. Attempts are logged, wrong keys limited per address. A change
holds at once, and is answered when the store has it. What to take out is looked for in the store too: it may have
an entry that this hall does not know yet, or could not take out before."""

import json
from collections.abc import Callable
from functools import partial, wraps
from typing import Final, TypeVar

from moothall.errors import AgentNotFound, InvalidKey, InvalidMessage, RateLimited, Refusal, Unavailable
from moothall.hall.access import (
    Allowlist,
    Approval,
    Ban,
    Bans,
    Doorkeeper,
    decode_approval,
    decode_ban,
    encode_entry,
)
from moothall.hall.commands import Command
from moothall.hall.common import ALLOWLIST, BANS, CAPS, MOTD, CommonBooks, ListName
from moothall.hall.costs import ANSWER
from moothall.hall.hall import Hall
from moothall.hall.handshake import shows_verified
from moothall.hall.key_lookup import all_with, find_key
from moothall.hall.membership import leave_verified_channels
from moothall.hall.session import Agent, Session, Tier
from moothall.hall.spending import Caps
from moothall.identity import PublicKey
from moothall.identity.certificates import timestamp_text
from moothall.wire.agentchat import admin, server
from moothall.wire.agentchat.names import bare_id
from moothall.wire.websocket import GOING_AWAY, NORMAL

MAINTENANCE_DELAY: Final = 0.5  # seconds between a MOTD with `kick` and the closing (agentchat wire 1.5)
MAX_BANS_LISTED: Final = 1000
MAX_REASON_LISTED: Final = 200  # characters; a frame's worth of them would fit into a ban
_PREFIX_LENGTH: Final = 40  # of a PEM text, in ADMIN_LIST (agentchat wire 6.6)
_MOTD_NAME: Final = b""  # there is one

Message = TypeVar("Message", bound=admin.AdminMessage)
AdminHandler = Callable[[Hall, Session, Message], None]


def guarded(
    guard: Callable[[Doorkeeper, str], None],
) -> Callable[[AdminHandler[Message]], AdminHandler[Message]]:
    """Run the handler only if the message has the right admin key."""

    def decorate(handler: AdminHandler[Message]) -> AdminHandler[Message]:
        @wraps(handler)
        def checked(hall: Hall, session: Session, message: Message) -> None:
            check_key(hall, session.ip, str(message.__struct_config__.tag), guard, message.admin_key)
            handler(hall, session, message)

        return checked

    return decorate


def check_key(
    hall: Hall,
    ip: str,
    operation: str,
    guard: Callable[[Doorkeeper, str], None],
    given: str,
    *,
    only_reads: bool = False,
) -> None:
    """Raise a Refusal unless the guard takes the key. Attempts are logged, wrong keys counted. What `only_reads` is
    logged only if it is refused: a page asks every few seconds."""
    if not hall.door.may_attempt_admin(ip, hall.now()):
        hall.note("admin_rate_limited", ip=ip, operation=operation)
        raise RateLimited("Too many wrong admin keys from this address; wait a minute")
    try:
        guard(hall.door, given)
    except Refusal:
        hall.door.admin_failed(ip, hall.now())
        if hall.cluster is not None:
            hall.cluster.addresses.tell_wrong_key(ip)
        hall.note("admin_refused", ip=ip, operation=operation)
        raise
    if not only_reads:
        hall.note("admin_operation", ip=ip, operation=operation)


@guarded(Doorkeeper.check_access)
def approve(hall: Hall, session: Session, message: admin.AdminApprove) -> None:
    _require_allowlist(hall)
    approval = Approval(
        pubkey=message.pubkey, approved_at=timestamp_text(hall.timestamp()), note=message.note
    )
    try:
        key = hall.allowlist.approve(approval)
    except InvalidKey as error:
        raise InvalidMessage(f"Invalid `pubkey`: {error}") from None
    result = result_of(hall, "approve", success=True, agent_id=f"@{key.agent_id(hall.settings.id_length)}")
    _enter(hall, session, ALLOWLIST, approval, result)


@guarded(Doorkeeper.check_access)
def revoke(hall: Hall, session: Session, message: admin.AdminRevoke) -> None:
    _require_allowlist(hall)
    agent_id = bare_id(message.agent_id) if message.agent_id else None
    was_here = bool(hall.allowlist.revoke(pubkey=message.pubkey, agent_id=agent_id))

    def work(books: CommonBooks) -> bool:
        stored = Allowlist(map(decode_approval, books.listed(ALLOWLIST)))
        revoked = stored.revoke(pubkey=message.pubkey, agent_id=agent_id)
        books.strike(ALLOWLIST, [approval.name for approval in revoked])
        return bool(revoked)

    def done(was_stored: bool) -> None:
        if not (was_here or was_stored):
            raise AgentNotFound("No such entry in the allow list")
        hall.reply(session, result_of(hall, "revoke", success=True))

    hall.durable.wait_for(session, partial(hall.copies.change, ALLOWLIST, work), done)


@guarded(Doorkeeper.check_access)
def list_approved(hall: Hall, session: Session, message: admin.AdminList) -> None:
    _require_allowlist(hall)
    settings = hall.settings
    entries = [
        server.AllowlistEntry(
            agent_id=f"@{approval.agent_id[: settings.id_length]}",  # as it is in the hall
            pubkey_prefix=approval.pubkey[:_PREFIX_LENGTH] + "...",
            approved_at=approval.approved_at,
            note=approval.note,
        )
        for approval in hall.allowlist.entries()
    ]
    result = result_of(
        hall, "list", entries=entries, enabled=settings.allowlist, strict=settings.allowlist_strict
    )
    hall.reply(session, result)


@guarded(Doorkeeper.check_access)
def kick(hall: Hall, session: Session, message: admin.AdminKick) -> None:
    agent = _find(hall, message.agent_id)
    result = result_of(hall, "kick", success=True, agent_id=agent.address)
    hall.reply(session, result)
    hall.delivery.tell(agent, server.Kicked(ts=hall.timestamp(), reason=message.reason or "Kicked by admin"))
    hall.close(agent.session, NORMAL, "Kicked by admin")


@guarded(Doorkeeper.check_access)
def ban(hall: Hall, session: Session, message: admin.AdminBan) -> None:
    """The key behind the id is banned, if the hall knows it: an id is too short to stand for a key."""
    agent_id = bare_id(message.agent_id)
    ban = Ban(agent_id=agent_id, reason=message.reason, banned_at=timestamp_text(hall.timestamp()))

    def enter(key: PublicKey | None) -> None:
        if key is not None:
            ban.pubkey = key.pem
        enforce(hall, ban)
        if hall.cluster is not None:
            hall.cluster.remote.ban(encode_entry(ban))
        _enter(hall, session, BANS, ban, result_of(hall, "ban", success=True, agent_id=f"@{agent_id}"))

    find_key(hall, session, agent_id, enter)


@guarded(Doorkeeper.check_access)
def unban(hall: Hall, session: Session, message: admin.AdminUnban) -> None:
    agent_id = bare_id(message.agent_id)
    was_here = bool(hall.bans.remove(agent_id))

    def work(books: CommonBooks) -> bool:
        lifted = Bans(map(decode_ban, books.listed(BANS))).remove(agent_id)
        books.strike(BANS, [ban.name for ban in lifted])
        return bool(lifted)

    def done(was_stored: bool) -> None:
        if not (was_here or was_stored):
            raise AgentNotFound(f"{agent_id[:64]} is not banned")
        hall.reply(session, result_of(hall, "unban", success=True, agent_id=f"@{agent_id}"))

    hall.durable.wait_for(session, partial(hall.copies.change, BANS, work), done)


@guarded(Doorkeeper.check_access)
def list_bans(hall: Hall, session: Session, message: admin.AdminBans) -> None:
    """The newest first; `total` tells how many there are."""
    newest = sorted(hall.bans.entries(), key=lambda ban: ban.banned_at, reverse=True)
    listed = [
        server.BanEntry(
            agent_id=f"@{ban.agent_id}",
            reason=None if ban.reason is None else ban.reason[:MAX_REASON_LISTED],
            banned_at=ban.banned_at,
            pubkey=ban.pubkey,
        )
        for ban in newest[:MAX_BANS_LISTED]
    ]
    hall.reply(session, result_of(hall, "bans", bans=listed, total=len(newest)))


@guarded(Doorkeeper.check_admin)
def set_motd(hall: Hall, session: Session, message: admin.AdminMotd) -> None:
    """An empty one is taken out of the store: the next start shows that of the settings again."""
    motd = message.motd or None
    if message.kick and hall.cluster is not None:
        if not hall.cluster.is_connected:
            raise Unavailable(
                "The other nodes of this hall cannot be reached now, so their connections would stay open;"
                " try again later, or without `kick`"
            )
        hall.cluster.remote.maintain(motd)
    _show_motd(hall, motd)
    if message.kick:
        _close_soon(hall, [other for other in hall.sessions if other is not session])

    def work(books: CommonBooks) -> None:
        if motd is None:
            books.strike(MOTD, [_MOTD_NAME])
        else:
            books.enlist(MOTD, _MOTD_NAME, json.dumps(motd).encode())

    result = result_of(hall, "motd", success=True, motd=motd, kicked=bool(message.kick))
    hall.durable.wait_for(
        session, partial(hall.copies.change, MOTD, work), lambda _: hall.reply(session, result)
    )


@guarded(Doorkeeper.check_admin)
def set_verified(hall: Hall, session: Session, message: admin.AdminVerify) -> None:
    agent = _find(hall, message.agent_id)
    if agent.via is not None:
        raise InvalidMessage(f"{agent.address} is on the {agent.via} wire, where an admin verifies no agent")
    if hall.cluster is not None and agent.session.is_remote:
        hall.cluster.remote.grant(agent, verified=message.verified)
    else:
        grant(hall, agent, verified=message.verified)
    hall.reply(
        session,
        result_of(hall, "verify", success=True, agent_id=message.agent_id, verified=message.verified),
    )


def grant(hall: Hall, agent: Agent, *, verified: bool) -> None:
    """Show an agent of this node as verified, or not."""
    agent.granted = verified
    agent.verified = shows_verified(hall, agent)
    hall.roster.changed(agent)
    if not agent.verified:
        leave_verified_channels(hall, agent)
    note = "An admin verified you" if verified else "An admin took your verification away"
    hall.delivery.tell(agent, result_of(hall, "verify", success=True, verified=verified, note=note))


def _require_allowlist(hall: Hall) -> None:
    if not hall.settings.allowlist:
        raise InvalidMessage("The allow list is off; the operator turns it on with `allowlist`")


def _find(hall: Hall, agent_id: str) -> Agent:
    """An agent that can be told now. Raises AgentNotFound or Unavailable."""
    bare = bare_id(agent_id)
    agent = hall.roster.agents.get(bare) or next(iter(all_with(hall, bare)), None)
    if agent is None:
        raise AgentNotFound(f"There is no agent {agent_id[:64]} here")
    if hall.cluster is not None:
        hall.cluster.check_reaches(agent)
    return agent


def result_of(hall: Hall, action: str, **fields: object) -> server.AdminResult:
    return server.AdminResult(ts=hall.timestamp(), action=action, **fields)  # type: ignore[arg-type]  # wire 6.6


def _enter(
    hall: Hall, session: Session, of: ListName, entry: Approval | Ban, result: server.AdminResult
) -> None:
    name, record = entry.name, encode_entry(entry)

    def work(books: CommonBooks) -> None:
        books.enlist(of, name, record)

    hall.durable.wait_for(
        session, partial(hall.copies.change, of, work), lambda _: hall.reply(session, result)
    )


def enforce(hall: Hall, ban: Ban) -> None:
    """From now on the ban holds at this node."""
    hall.bans.add(ban)
    _turn_out(hall, ban)


def _turn_out(hall: Hall, ban: Ban) -> None:
    """Close the connections of the agent to this node. Other nodes close those to them."""
    for agent in all_with(hall, ban.agent_id):
        if agent.session.is_remote:
            continue
        hall.delivery.tell(
            agent, server.BannedNotice(ts=hall.timestamp(), reason=ban.reason or "Banned by admin")
        )
        hall.close(agent.session, NORMAL, "Banned by admin")


def _show_motd(hall: Hall, motd: str | None) -> None:
    hall.motd = motd
    hall.delivery.proclaim(hall.sessions, server.MotdUpdate(ts=hall.timestamp(), motd=motd))


def read_motd(records: list[bytes]) -> str | None:
    """The message of the day in the store; None if it has none."""
    return json.loads(records[0]) if records else None


def replace_copy(hall: Hall, of: ListName, records: list[bytes]) -> None:
    """Another hall has changed this list in the store. Its change is in force here now, as if it was made here."""
    if of == ALLOWLIST:
        hall.allowlist = Allowlist(map(decode_approval, records))
    elif of == BANS:
        known = {ban.name for ban in hall.bans.entries()}
        hall.bans = Bans(map(decode_ban, records))
        for ban in hall.bans.entries():
            if ban.name not in known:
                _turn_out(hall, ban)
    elif of == CAPS:
        hall.spending.caps = Caps(records)
    elif (motd := read_motd(records)) != hall.motd:
        _show_motd(hall, motd)


def maintain(hall: Hall, motd: str | None) -> None:
    """An admin at another node closes all connections. Show the MOTD now: the store may tell of it after that."""
    if motd != hall.motd:
        _show_motd(hall, motd)
    _close_soon(hall, list(hall.sessions))


def _close_soon(hall: Hall, sessions: list[Session]) -> None:
    hall.agenda.at(hall.now() + MAINTENANCE_DELAY, lambda: _close_all(hall, sessions))


def _close_all(hall: Hall, sessions: list[Session]) -> None:
    """Close all first and remove them afterwards, or each would be told of all that left before it."""
    open_sessions = [session for session in sessions if not session.closed]
    for session in open_sessions:
        session.link.close(GOING_AWAY, "Server maintenance")
    for session in open_sessions:
        hall.disconnect(session)


COMMANDS: Final = (
    Command(admin.AdminApprove, approve, ANSWER, Tier.STRANGER),
    Command(admin.AdminRevoke, revoke, ANSWER, Tier.STRANGER),
    Command(admin.AdminList, list_approved, ANSWER, Tier.STRANGER),
    Command(admin.AdminKick, kick, ANSWER, Tier.STRANGER),
    Command(admin.AdminBan, ban, ANSWER, Tier.STRANGER),
    Command(admin.AdminUnban, unban, ANSWER, Tier.STRANGER),
    Command(admin.AdminBans, list_bans, ANSWER, Tier.STRANGER),
    Command(admin.AdminMotd, set_motd, ANSWER, Tier.STRANGER),
    Command(admin.AdminVerify, set_verified, ANSWER, Tier.STRANGER),
)
