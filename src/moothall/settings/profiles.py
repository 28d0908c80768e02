"""Profiles: named sets of defaults. The only place in moothall that knows a profile by name.

`seeds` is what the fields say. `agentchat-0.36` is the reference server where it differs on the wire; the
numbers are the rows of section 20 of the agentchat wire reference. What the reference later switched off
(direct messages, file chunks, channels for all, no lurking: rows 4, 5, 20, 23, 46) stays on.
"""

from collections.abc import Mapping
from typing import Any, Final

from moothall.settings.limits import Rate

# Profiles in which the reference's own variables count, such as PORT and RATE_LIMIT_MS.
WITH_REFERENCE_VARIABLES: Final = frozenset(("agentchat-0.36",))
# Those that do something there and nothing here: message content is not written anywhere, and events go to the log.
# (LURK_DISABLED and AGENTCHAT_CB_POLL_MS ask for what is so anyway.)
LOG_MESSAGES: Final = "LOG_MESSAGES"
NOT_SERVED: Final = frozenset(("AUDIT_LOG", LOG_MESSAGES))

PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "seeds": {},
    "agentchat-0.36": {
        "server_name": "agentchat",
        "subprotocols": ("*",),  # the reference takes what a client offers
        "id_length": 16,  # 1
        "verified_means": "grant",  # 2
        "challenge_timeout": 60.0,  # 6
        "takeover_delay": 5.0,  # 8
        "auth_clock_tolerance": 0.0,  # the reference does not look at the clock
        "unverified_code": "SIGNATURE_REQUIRED",
        "max_frame": 13
        * 1024
        * 1024,  # 10; content of any characters fits, where the reference ends at 2 MiB
        "max_content": 2 * 1024 * 1024,  # 11
        "outbox_limit": 16 * 1024 * 1024,
        "answer_malformed": True,  # 12
        "flood_closes": True,  # 13
        "over_budget": "wait",  # the reference has no budgets: its clients are slowed down, not refused
        "auto_join": True,  # 14
        "max_channels": 200,  # every arrival is told to all members of each, and every agent may make one (23)
        "replay_first": False,  # 15
        "creator_as_text": True,  # 16
        "service_lines": True,  # 17
        "echo": True,  # 18
        "not_member_code": "NOT_INVITED",  # 21
        "default_channels": (  # 22
            "#general",
            "#engineering",
            "#pull-requests",
            "#help",
            "#love",
            "#agents",
            "#discovery",
            "#bounties",
        ),
        "verified_channels": ("#ops",),
        "buffer_size": 200,  # 24
        "idle_timeout": 3600.0,  # 25
        "idle_mentions": True,
        "signature_code": "VERIFICATION_FAILED",  # 26
        "stranger_code": "INVALID_PROPOSAL",  # 27
        "expired_code": "INVALID_PROPOSAL",  # 28
        "gain_diminishing": True,  # 31
        "pair_cooldown": 3600.0,
        "minimum_deal_age": 60.0,
        "gain_by_amount": True,  # 32
        "newcomer_transfer_cap": 0,  # the reference knows neither
        "rating_gain_limit": Rate(0, 1),
        "court_reveal_timeout": 600.0,  # 37
        "court_absent": ("away", "offline"),  # 38
        "court_evidence_early": False,  # 39
        "court_max_panels": 3,  # 40; that a rating covers the forfeit follows from 1200 being the least
        "allowlist_strict": False,
        "keep": False,  # the reference has one port and no channel #keep
    },
}
