"""Which session of a key is the agent: the newest, and how soon it displaces another one (agentchat wire 4.5).

Two clients that have one key displace each other as fast as they can connect. With `takeover_delay`, a session that
proved a key waits before it displaces the one that is connected: so long the first time, and twice as long for each
further takeover within `MEMORY` of the last one, up to `LONGEST`. Only a proof of the key makes others wait: a
stranger cannot keep an owner out. When the connected session leaves, the one that waited longest comes in at once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from moothall.hall.agenda import Agenda, Appointment
from moothall.identity import PublicKey
from moothall.wire.agentchat import server
from moothall.wire.websocket import NORMAL

if TYPE_CHECKING:
    from moothall.hall.hall import Hall
    from moothall.hall.session import Session

LONGEST: Final = 60.0  # seconds
MEMORY: Final = 300.0  # seconds after which a takeover is forgotten


class Past(NamedTuple):
    at: float
    delay: float  # that came before it


class Waiting:
    """A session that will displace another one."""

    __slots__ = ("appointment", "delay", "id", "last", "switch")

    appointment: Appointment

    def __init__(
        self, agent_id: str, delay: float, last: Past | None, switch: Callable[["Waiting"], None]
    ) -> None:
        self.id = agent_id
        self.delay = delay
        self.last = last  # the takeover that it knows of
        self.switch = switch


class Takeovers:
    def __init__(self, agenda: Agenda, delay: float) -> None:
        self._agenda = agenda
        self._first = delay
        self._past: dict[str, Past] = {}  # the last one of each id, the oldest first
        self._waiting: dict[str, dict[Session, Waiting]] = {}  # by id, in the order in which they came

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def delay(self, agent_id: str, now: float) -> float:
        """Seconds that a takeover of this id has to wait from now on; 0 is not at all."""
        past = self._past.get(agent_id)
        if past is None or now - past.at >= MEMORY:
            return self._first
        return min(2 * past.delay, max(LONGEST, self._first))

    def wait(
        self, session: "Session", agent_id: str, now: float, switch: Callable[[Waiting], None]
    ) -> Waiting:
        """Call `switch` when the time of this session has come, unless `stop` is called before."""
        waiting = Waiting(agent_id, self.delay(agent_id, now), self._past.get(agent_id), switch)
        self._waiting.setdefault(agent_id, {})[session] = waiting
        self._plan(session, waiting, now + waiting.delay)
        return waiting

    def stop(self, session: "Session", waiting: Waiting) -> None:
        """The session no longer waits."""
        self._agenda.cancel(waiting.appointment)
        sessions = self._waiting[waiting.id]
        del sessions[session]
        if not sessions:
            del self._waiting[waiting.id]

    def give_up(self, session: "Session") -> None:
        """The session ends, or nothing more is begun: it displaces no other one."""
        if session.takeover is not None:
            self.stop(session, session.takeover)
            session.takeover = None
            session.busy = False

    def hurry(self, agent_id: str, now: float) -> None:
        """The session that is connected with this id leaves: let the next one in."""
        for session, waiting in self._waiting.get(agent_id, {}).items():
            self._agenda.cancel(waiting.appointment)
            self._plan(session, waiting, now)
            return

    def is_due(self, waiting: Waiting) -> bool:
        """False: another session took over since this one began to wait, so it has to wait again."""
        past = self._past.get(waiting.id)
        return past is None or past is waiting.last

    def last_delay(self, agent_id: str, now: float) -> float:
        """The delay of the last takeover of this id, 0 if there was none lately."""
        past = self._past.get(agent_id)
        return past.delay if past is not None and now - past.at < MEMORY else 0.0

    def note(self, agent_id: str, delay: float, now: float) -> None:
        """Remember a takeover: a session that waited so long displaced the connected one."""
        self._past.pop(agent_id, None)
        self._past[agent_id] = Past(now, delay)
        for agent_id, past in list(self._past.items()):
            if now - past.at < MEMORY:
                break
            del self._past[agent_id]

    def _plan(self, session: "Session", waiting: Waiting, due: float) -> None:
        def keep() -> None:
            self.stop(session, waiting)
            waiting.switch(waiting)

        waiting.appointment = self._agenda.at(due, keep)


def has_rival(hall: "Hall", key: PublicKey) -> bool:
    """True if takeovers are delayed, and another session of this key is connected."""
    return bool(hall.settings.takeover_delay) and key.raw in hall.roster.by_key


def wait_for_place(
    hall: "Hall",
    session: "Session",
    key: PublicKey,
    *,
    is_welcome: Callable[[], bool],
    welcome: Callable[[], None],
) -> None:
    """Call `welcome` when the session may have the place of its key, where a rival stays for a while (`has_rival`).
    `is_welcome` is asked again after that.

    Only a session that proved this key delays a takeover. A keep agent that signs with it makes way at once: a
    stranger can send an old packet of the owner again.
    """
    hall.stop_waiting(session)

    def wait(done: Callable[[Waiting], None], failed: Callable[[BaseException], None]) -> None:
        agent_id = key.agent_id(hall.settings.id_length)
        waiting = session.takeover = hall.takeovers.wait(session, agent_id, hall.now(), done)
        hall.note("takeover_delayed", agent=agent_id, ip=session.ip, seconds=waiting.delay)
        notice = server.TakeoverPending(ts=hall.timestamp(), wait_ms=round(waiting.delay * 1000))
        hall.delivery.tell_sessions((session,), notice)

    def switch(waiting: Waiting) -> None:
        session.takeover = None
        hall.expect_identity(session)
        if not is_welcome():
            return
        if key.raw not in hall.roster.by_key:
            welcome()
        elif hall.takeovers.is_due(waiting):
            hall.takeovers.note(waiting.id, waiting.delay, hall.now())
            welcome()
        else:
            wait_for_place(hall, session, key, is_welcome=is_welcome, welcome=welcome)

    hall.durable.wait_for(session, wait, switch)


def vacate(hall: "Hall", agent_id: str, new_ip: str) -> None:
    """Free the id of a key for the session that has just proven the key (seed 000, connect, step 11)."""
    if make_way := hall.makes_way.get(agent_id):
        make_way()
    elif old := hall.roster.agents.get(agent_id):
        if hall.cluster is not None and old.session.is_remote:
            hall.cluster.roster.forget(agent_id)  # its node has ended the session, or its life is over
            return
        hall.note("session_displaced", agent=agent_id, old_ip=old.session.ip, new_ip=new_ip)
        reason = "Another connection has proven this identity"
        hall.delivery.tell(old, server.SessionDisplaced(ts=hall.timestamp(), reason=reason, new_ip=new_ip))
        hall.close(old.session, NORMAL, "Identity claimed by verified connection")
