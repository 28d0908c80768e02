"""Text frames of a connection: it proves its key, subscribes to topics, reads its inbox, asks the market.

A proof is the signature of a challenge that names the hall, its address and the key. So it proves nothing elsewhere
and nothing twice. Only a connection that gave one reads the inbox, conversations and balances of its key, and
cancels.
"""

from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UnsetType
from msgspec.structs import replace

from moothall.errors import CreditsRefused, OutOfOrder, Refusal, StoreUnreachable, Unavailable
from moothall.hall.budgets import Price
from moothall.hall.durable import UNREACHABLE
from moothall.hall.mesh import frames
from moothall.hall.mesh.arrival import Arrival
from moothall.hall.mesh.connections import TooManyConnections
from moothall.hall.mesh.costs import SIGNED_TEXT_FRAMES, inbox_price, question_price
from moothall.hall.mesh.frames import (
    Answer,
    AskReputation,
    Cancel,
    Challenge,
    Consent,
    Error,
    Inbox,
    Kept,
    Proven,
    Question,
    ReadInbox,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from moothall.hall.mesh.guest import Challenged, Guest
from moothall.hall.mesh.inbox import Inboxes, Page
from moothall.hall.mesh.market import Dealings
from moothall.hall.mesh.presence import Presence
from moothall.hall.mesh.topics import BadTopic, TooManyTopics
from moothall.hall.outside import Entropy
from moothall.wire.agentchat.signing import bound_nonce
from moothall.wire.mesh.nonces import TOLERANCE, within_tolerance

if TYPE_CHECKING:
    from moothall.hall.mesh.room import MeshRoom

CHALLENGE_BYTES: Final = 16


class _Refused(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Asking:
    def __init__(
        self,
        room: "MeshRoom",
        inboxes: Inboxes | None,
        dealings: Dealings,
        presence: Presence,
        entropy: Entropy,
    ) -> None:
        self._room = room
        self._inboxes = inboxes
        self._dealings = dealings
        self._presence = presence
        self._entropy = entropy

    def answer(self, guest: Guest, arrival: Arrival) -> None:
        """The frame is put back if the connection cannot pay for it yet."""
        frame = arrival.frame
        if guest.gone or frame is None:
            return
        try:
            if isinstance(frame, frames.Prove):
                self._prove(guest, arrival, frame)
            elif isinstance(frame, Subscribe):
                self._subscribe(guest, frame)
            elif isinstance(frame, Unsubscribe):
                self._unsubscribe(guest, frame)
            elif isinstance(frame, ReadInbox):
                self._read_inbox(guest, arrival, frame)
            else:
                self._ask(guest, arrival, frame)
        except _Refused as refused:
            self._refuse(guest, frame.ref, refused.code, str(refused))
        except Refusal as refusal:
            self._refuse(guest, frame.ref, refusal.code, refusal.message)

    def _refuse(self, guest: Guest, ref: str | UnsetType, code: str, message: str) -> None:
        self._room.refused[code] += 1
        guest.tell(Error(code=code, message=message, ref=ref))

    def _pays(self, guest: Guest, arrival: Arrival, price: Price) -> bool:
        """False: the frame waits until the connection can pay."""
        return arrival.is_paid or guest.pays_for(arrival, price)

    # -- the proof of a key ------------------------------------------------------------------------

    def _prove(self, guest: Guest, arrival: Arrival, frame: frames.Prove) -> None:
        if guest.is_proven:
            raise _Refused(
                "ALREADY_PROVEN", "This connection has proven its key; open another for another key"
            )
        if frame.signature is not None:
            if self._pays(guest, arrival, Price(frames=SIGNED_TEXT_FRAMES)):
                self._check_proof(guest, arrival, frame.ref)
            return
        if frame.agent_id is None:
            raise _Refused("INVALID_FRAME", "`prove` has `agent_id`, or the `signature` of a challenge")
        key = bytes.fromhex(frame.agent_id)
        if guest.key not in (None, key):
            raise _Refused("WRONG_KEY", "This connection has sent envelopes of another key; open another")
        if key.hex() == self._room.hall_id:
            raise _Refused("WRONG_KEY", "This is the key of the hall")
        self._presence.admit(key)
        hall, host = self._room.hall_id, self._room.public_host or guest.host
        random = self._entropy(CHALLENGE_BYTES).hex()
        guest.challenged = Challenged(key, bound_nonce(hall, random, host), frame.acks, frame.receives)
        challenge = guest.challenged.challenge
        guest.tell(Challenge(challenge=challenge, hall=hall, random=random, host=host, ref=frame.ref))

    def _check_proof(self, guest: Guest, arrival: Arrival, ref: str | UnsetType) -> None:
        challenged, guest.challenged = guest.challenged, None
        if challenged is None or arrival.challenge is not challenged:
            raise _Refused("NO_CHALLENGE", "Ask for a challenge first: `prove` with `agent_id`")
        if not arrival.valid or guest.key not in (None, challenged.key):
            self._room.gate.note("mesh_proof_failed", ip=guest.ip)
            raise _Refused("VERIFICATION_FAILED", "The key did not sign this challenge for this hall")
        self._presence.admit(challenged.key)
        try:
            self._room.proved(guest, challenged.key, receives=challenged.receives)
        except TooManyConnections as error:
            raise _Refused("TOO_MANY_CONNECTIONS", str(error)) from None
        guest.acks = challenged.acks
        guest.host = ""  # no more challenges

        def tell(cursor: int) -> None:
            guest.tell(Proven(agent_id=challenged.key.hex(), cursor=cursor, floor=self._room.floor, ref=ref))

        if self._inboxes is None:
            tell(0)
        else:
            self._inboxes.newest(challenged.key, tell, partial(self._failed, guest, ref))

    # -- topics ------------------------------------------------------------------------------------

    def _subscribe(self, guest: Guest, frame: Subscribe) -> None:
        try:
            if self._room.topics.subscribe(guest, frame.topic):
                self._presence.subscribe(guest, frame.topic)
        except TooManyTopics as error:
            raise _Refused("TOO_MANY_TOPICS", str(error)) from None
        except BadTopic as error:
            raise _Refused("INVALID_FRAME", str(error)) from None
        self._tell_topics(guest, frame.ref)

    def _unsubscribe(self, guest: Guest, frame: Unsubscribe) -> None:
        if self._room.topics.unsubscribe(guest, frame.topic):
            self._presence.unsubscribe(guest, frame.topic)
        self._tell_topics(guest, frame.ref)

    def _tell_topics(self, guest: Guest, ref: str | UnsetType) -> None:
        guest.tell(Subscribed(topics=self._room.topics.of(guest), ref=ref))

    # -- questions ---------------------------------------------------------------------------------

    def _key(self, guest: Guest) -> bytes:
        if not guest.is_proven or guest.key is None:
            raise _Refused("PROOF_REQUIRED", "Prove your key first: `prove` with `agent_id`")
        self._presence.admit(guest.key)  # it may have been banned meanwhile
        return guest.key

    def _read_inbox(self, guest: Guest, arrival: Arrival, frame: ReadInbox) -> None:
        key = self._key(guest)
        if self._inboxes is None:
            raise _Refused(frames.NO_INBOX, "This hall keeps no inbox; its operator can set `mesh_inbox`")
        if not self._pays(guest, arrival, inbox_price(frame.limit)):
            return

        def tell(page: Page) -> None:
            kept = tuple(
                Kept(cursor=cursor, envelope=b64encode(raw).decode()) for cursor, raw in page.envelopes
            )
            cursor = kept[-1].cursor if kept else frame.after or 0
            answer = Inbox(envelopes=kept, cursor=cursor, more=page.more, lost=page.lost, ref=frame.ref)
            guest.tell(answer)

        self._inboxes.read(key, frame.after, frame.limit, *self._later(guest, frame.ref, tell))

    def _ask(self, guest: Guest, arrival: Arrival, question: Question) -> None:
        key = b"" if isinstance(question, AskReputation) and question.agent_id else self._key(guest)
        if isinstance(question, Cancel | Consent):
            self._check_order(arrival, question)
        if not self._pays(guest, arrival, question_price(question)):
            return

        def tell(answer: Answer) -> None:
            guest.tell(replace(answer, ref=question.ref))

        self._dealings.ask(key, question, guest.payer, *self._later(guest, question.ref, tell))

    def _check_order(self, arrival: Arrival, order: Cancel | Consent) -> None:
        if not arrival.valid:
            raise _Refused("VERIFICATION_FAILED", "The key did not sign this order for this hall")
        if not within_tolerance(order.timestamp, self._room.microseconds()):
            raise _Refused(
                "TIMESTAMP_OUT_OF_TOLERANCE",
                f"The timestamp is more than {TOLERANCE} seconds from the time here; set your clock",
            )

    def _later(
        self, guest: Guest, ref: str | UnsetType, tell: Callable[..., None]
    ) -> tuple[Callable[..., None], Callable[[BaseException], None]]:
        """The two callbacks of a question. The next frames of the connection wait for the answer."""
        guest.hold()

        def done(*answer: object) -> None:
            try:
                tell(*answer)
            finally:
                guest.release()

        def failed(error: BaseException) -> None:
            try:
                self._failed(guest, ref, error)
            finally:
                guest.release()

        return done, failed

    def _failed(self, guest: Guest, ref: str | UnsetType, error: BaseException) -> None:
        if isinstance(error, Refusal):
            self._refuse(guest, ref, error.code, error.message)
        elif isinstance(error, OutOfOrder):
            self._refuse(guest, ref, frames.OUT_OF_ORDER, str(error))
        elif isinstance(error, CreditsRefused):
            self._refuse(guest, ref, error.reason, str(error))
        else:
            if self._room.gate.may_log("mesh_question_failed"):
                self._room.gate.log.warning("mesh_question_failed", error=repr(error))
            if isinstance(error, StoreUnreachable):
                self._refuse(guest, ref, Unavailable.code, UNREACHABLE)
            else:
                self._refuse(guest, ref, "INTERNAL_ERROR", "The hall could not answer this; try again later")
