"""What a receipt or the file of a case proves, and on whose word the rest is to be believed."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field

from moothall.identity import PublicKey
from moothall.identity.seals import Kind, NoSeal, key_id, sealed_by
from moothall.wire.agentchat.signing import has_bars


class Proof(Struct, kw_only=True):
    """The result of a check. Each list holds sentences. It `holds` if there are no `problems`.

    steps           the message types that parties and arbiters signed
    proven          what the signatures of parties and arbiters prove, whatever the hall says
    consistent      what was computed again and fits the rest of the record
    hall_word       what no party signed: it is worth as much as the word of the hall that signed the record
    contradictions  what does not fit
    unproven        why the hall's word does not count here
    hall            the key of the hall that signed the record; None if no signature fits
    """

    steps: list[str] = field(default_factory=list)
    proven: list[str] = field(default_factory=list)
    consistent: list[str] = field(default_factory=list)
    hall_word: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    hall: PublicKey | None = None

    @property
    def problems(self) -> list[str]:
        """All contradictions and unproven claims, one sentence each."""
        return self.contradictions + self.unproven

    @property
    def holds(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    # -- for those who check -----------------------------------------------------------------------

    def signed(self, where: str, kind: str, key: PublicKey, text: str, sig: str, sentence: str) -> None:
        """Note that the key signed the text of this message type, or that this member of the record is wrong."""
        if not key.verifies(text, sig):
            self.contradictions.append(f"`{where}`: it does not hold that {_within(sentence)}.")
            return
        self.steps.append(kind)
        self.proven.append(f"{sentence} (key {key_id(key)}).")
        if has_bars(kind, text):
            self.hall_word.append(
                f"Where the fields of the {kind} begin and end: one of them holds `|`, and only the joined text is"
                " signed."
            )

    def claim(self, where: str, holds: bool, sentence: str) -> bool:
        """Note that the sentence is true, or that this member of the record is wrong."""
        if holds:
            self.consistent.append(f"{sentence}.")
        else:
            self.contradictions.append(f"`{where}`: it does not hold that {_within(sentence)}.")
        return holds

    def vouch(self, kind: Kind, record: Mapping[str, Any], halls: Collection[str]) -> None:
        """Note whether one of these halls signed the record. `halls` are their key ids."""
        try:
            self.hall = sealed_by(kind, record)
        except NoSeal as reason:
            self.unproven.append(f"`hall_sig`: {reason}.")
            return
        if key_id(self.hall) not in halls:
            self.unproven.append(f"`hall_key`: you neither named nor know the hall {self.hall.raw.hex()}.")


def _within(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
