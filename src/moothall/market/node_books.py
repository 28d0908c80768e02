"""What a node of the mesh keeps besides its conversations, its credits and its log. The store implements it."""

from typing import Final, Protocol

from msgspec import Struct

from moothall.market.books import MAX_READ

MAX_FAILURES: Final = 1000  # deliveries that failed, of which the latest are kept


class Arrived(Struct, frozen=True, gc=False):
    """An envelope in the inbox of an agent. `note` says why it changed nothing."""

    number: int
    at: int  # ms
    note: str | None
    envelope: bytes


class Letter(Struct, frozen=True, gc=False):
    """A message of an agent of this node that is to be delivered. It gets a nonce and a time when it leaves.

    `is_logged` is False for the assignment of a notary, which the node makes by itself (mesh wire 7).
    """

    number: int
    sender: bytes
    recipient: bytes  # zeros for a topic
    msg_type: int
    conversation_id: bytes
    is_logged: bool
    at: int  # ms, when it was taken
    payload: bytes


class Failure(Struct, frozen=True, gc=False):
    """A message that was given up. `nonce` is that of the last envelope."""

    number: int
    sender: bytes
    recipient: bytes
    msg_type: int
    conversation_id: bytes
    nonce: int
    reason: str
    at: int  # ms


class LogRow(Struct, frozen=True, gc=False):
    """An envelope of the log. `notary` is that of the conversation after an ACCEPT."""

    number: int
    epoch: int
    at: int
    envelope: bytes
    notary: bytes | None = None

    @property
    def slot(self) -> int:
        return self.at // 1000


class HostedAgent(Struct, frozen=True, gc=False):
    agent: bytes
    token: bytes  # the hash of its token
    secret: bytes  # its key, encrypted
    ends_at: int  # ms


class TaskRow(Struct, frozen=True, gc=False):
    number: int
    at: int
    shared: bool
    fields: bytes  # JSON


class NodeBooks(Protocol):
    """A part of a unit of work."""

    def reserved_nonce(self) -> int:
        """No nonce of this node is higher. 0: it has used none."""

    def reserve_nonces(self, up_to: int) -> None: ...

    def put_arrived(self, recipient: bytes, envelope_hash: bytes, at: int, note: str | None) -> int:
        """Put an envelope of the log into an inbox, and return its number there."""

    def arrived(self, recipient: bytes, after: int, limit: int, most: int = MAX_READ) -> list[Arrived]:
        """Those whose number is higher than `after`, oldest first. As many as have at most `most` bytes together,
        and at least one."""

    def newest_arrived(self) -> int:
        """The highest number in any inbox; 0 if there is none."""

    def forget_arrived(self, before: int) -> None:
        """Remove what arrived before this time from all inboxes. The log keeps it."""

    def put_letter(self, letter: Letter) -> int:
        """Keep a letter until it is delivered. Its number is chosen here, and returned."""

    def undelivered(self, after: int, limit: int) -> list[Letter]:
        """Letters that wait, oldest first."""

    def remove_letter(self, number: int) -> bool:
        """False if it is gone."""

    def put_failure(self, letter: Letter, nonce: int, reason: str, at: int) -> int:
        """Keep that a letter was given up, and return its number. The oldest make way."""

    def failures(self, after: int, limit: int) -> list[Failure]: ...

    def take_failure(self, letter: Letter) -> bool:
        """True if the same message was given up before. That is forgotten now."""

    def log_after(
        self, number: int, limit: int, *, epoch: int | None = None, most: int = MAX_READ
    ) -> list[LogRow]:
        """Envelopes of the log in order, of one epoch or of all."""

    def logged_epochs(self, limit: int) -> list[int]:
        """The latest epochs that have envelopes, the last one first."""

    def hosted(self) -> list[HostedAgent]: ...

    def put_hosted(self, agent: HostedAgent) -> None: ...

    def expire_hosted(self, now: int) -> None:
        """Forget those whose session has ended, and their keys."""

    def put_task(self, at: int, fields: bytes) -> int: ...

    def tasks(self, before: int, limit: int, most: int = MAX_READ) -> list[TaskRow]:
        """Those whose number is lower, the latest first."""

    def share_task(self, number: int, *, shared: bool) -> TaskRow | None: ...

    def remove_task(self, number: int) -> bool: ...

    def count_tasks(self) -> int: ...
