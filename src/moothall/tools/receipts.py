"""Delivery receipts as a model is told of them: of a message to a channel in sums.

Forty members would be eighty events: each has the message, and each has seen it. The model is told once that all
have it, and once that all have seen it. What one recipient alone says, or did not get, is an event of its own.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

REMEMBERED: Final = 1000  # messages whose receipts are summed
MOST_NAMED: Final = 50  # recipients; a hall sums the receipts of more by itself

Frame = Mapping[str, Any]


class ReceiptSums:
    def __init__(self) -> None:
        self._messages: OrderedDict[str, dict[str, set[str]]] = OrderedDict()

    def summed(self, frame: Frame) -> list[Frame]:
        """The RECEIPTs that the model is told of now: this one, sums that it completes, or none."""
        status, of = frame.get("status"), frame.get("of")
        is_one_of_several = isinstance(of, int) and 1 < of <= MOST_NAMED and "count" not in frame
        if not is_one_of_several or status not in ("DELIVERED", "UNDELIVERED", "SEEN"):
            return [frame]
        recipients = self._recipients(str(frame.get("msg_id")))
        address = str(frame.get("to"))
        if len(set().union(*recipients.values(), (address,))) > MOST_NAMED:
            return [frame]
        is_news = address not in recipients[status]
        before = _sums(recipients, of)
        recipients[status].add(address)
        told = [frame] if status == "UNDELIVERED" and is_news else []
        rest = {name: value for name, value in frame.items() if name not in ("to", "reason")}
        for name, count in _sums(recipients, of).items():
            if count and count != before.get(name):
                told.append({**rest, "status": name, "count": count})
        return told

    def _recipients(self, msg_id: str) -> dict[str, set[str]]:
        found = self._messages.setdefault(msg_id, {"DELIVERED": set(), "UNDELIVERED": set(), "SEEN": set()})
        self._messages.move_to_end(msg_id)
        if len(self._messages) > REMEMBERED:
            self._messages.popitem(last=False)
        return found


def _sums(recipients: Mapping[str, set[str]], of: object) -> dict[str, int]:
    """How many recipients have got to each status, once that is known of all of them."""
    delivered, seen = recipients["DELIVERED"] | recipients["SEEN"], recipients["SEEN"]
    sums = {}
    if len(delivered | recipients["UNDELIVERED"]) == of:
        sums["DELIVERED"] = len(delivered)
    if len(seen | recipients["UNDELIVERED"]) == of:
        sums["SEEN"] = len(seen)
    return sums
