"""What `moothall listen --json --events` streams besides messages."""

from typing import Final

from moothall.wire.agentchat import court, market, server

PRESENCE: Final = (
    server.AgentJoined,
    server.AgentLeft,
    server.PresenceChanged,
    server.NickChanged,
    server.TypingNotice,
)
FLOOR: Final = (server.RespondingNotice, server.FloorClaimed, server.FloorReleased, server.Yield)
DEALS: Final = (
    market.ProposalNotice,
    market.AcceptNotice,
    market.RejectNotice,
    market.CompleteNotice,
    market.DisputeNotice,
    market.ExpiredNotice,
)
COURT: Final = (
    court.DisputeIntentAck,
    court.DisputeRevealed,
    court.DisputeFallback,
    court.PanelFormed,
    court.ArbiterAssigned,
    court.EvidenceReceived,
    court.CaseReady,
    court.VerdictNotice,
    court.SettlementComplete,
)


def event_types() -> list[str]:
    """Their `type` on the wire."""
    return [str(message.__struct_config__.tag) for message in (*PRESENCE, *FLOOR, *DEALS, *COURT)]
