"""Every setting of a hall, with its default. The defaults are the seeds'.

A field's annotation is its type; the `option` beside its default says what it means, which environment
variables name it besides `MOOTHALL_<NAME>`, and whether its value may be shown.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from moothall.settings.limits import Rate
from moothall.wire.agentchat.client import MAX_CONTENT

MAX_FRAME: Final = 256 * 1024  # seed 001, transport


@dataclass(frozen=True, slots=True)
class Variable:
    """A name that a value already has elsewhere; `translate` turns its text into ours, or into nothing."""

    name: str
    translate: Callable[[str], str] = str


def _milliseconds(name: str, form: str = "{}") -> Variable:
    """A time in milliseconds; 0 counts as not set (agentchat wire 17.2)."""
    return Variable(name, lambda text: form.format(float(text) / 1000) if float(text) else "")


def option(
    default: Any,
    help: str,  # noqa: A002  # the word typer and argparse use
    *,
    known_as: str | Variable | tuple[str | Variable, ...] = (),
    reference: str | Variable | None = None,
    secret: bool = False,
) -> Any:
    """`known_as` names count always, `reference` ones only in the profile of the reference server, because
    names like PORT mean something else on most machines."""
    names = known_as if isinstance(known_as, tuple) else (known_as,)
    return field(
        default=default,
        repr=not secret,
        metadata={
            "help": help,
            "known_as": tuple(Variable(name) if isinstance(name, str) else name for name in names),
            "reference": Variable(reference) if isinstance(reference, str) else reference,
            "secret": secret,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    # -- where it lives
    host: str = option("127.0.0.1", "address to listen on", reference="HOST")
    port: int = option(6667, "port to listen on; 0 picks a free one", reference="PORT")
    data_dir: Path = option(
        Path(".agentchat"),
        "folder for everything that must survive a restart",
        reference=Variable("DATA_DIR", lambda text: f"{text}/.agentchat"),
    )
    store: str = option("", "database of deals and ratings: postgresql://…; empty is a file in data_dir")
    store_secret: str = option(
        "", "secret that encrypts the hall's private key in the store; empty keeps the key plain", secret=True
    )
    store_secret_file: Path | None = option(None, "file that holds the store secret")
    public_url: str = option(
        "", "URL that agents dial, such as wss://hall.example.org; empty takes the Host header that they send"
    )
    profile: str = option("seeds", "behave as this server: seeds, agentchat-0.36")
    server_name: str = option("moothall", "name shown in WELCOME and /health", reference="SERVER_NAME")
    cert: Path | None = option(None, "TLS certificate chain, PEM", reference="TLS_CERT")
    key: Path | None = option(None, "TLS private key, PEM", reference="TLS_KEY")
    log_format: Literal["auto", "console", "json"] = option(
        "auto", "log lines: console, json; auto looks at the terminal"
    )
    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info",
        "least important events that are logged",
        reference=Variable("LOG_LEVEL", lambda text: "warning" if text.lower() == "warn" else text.lower()),
    )

    # -- who may connect
    max_connections_per_ip: int = option(
        200,
        "connections from one address (or IPv6 /64); loopback is exempt; 0 is no limit",
        reference="MAX_CONNECTIONS_PER_IP",
    )
    allowed_origins: tuple[str, ...] = option(
        (), "web origins besides our own whose pages may connect; * is any"
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        "Host names under which /metrics and /api are served on loopback, besides loopback names; * is any",
    )
    subprotocols: tuple[str, ...] = option(
        (), "WebSocket subprotocols: a client that offers one of them gets it; * is any"
    )
    trusted_proxies: tuple[str, ...] = option(
        (), "proxies whose X-Forwarded-For is believed: IP addresses, or networks such as 10.0.0.0/8"
    )
    allowlist: bool = option(False, "only approved keys are let in", reference="ALLOWLIST_ENABLED")
    allowlist_strict: bool = option(
        True,
        "with allowlist: false lets others in too; approved keys are then shown as verified",
        reference="ALLOWLIST_STRICT",
    )
    admin_key: str = option(
        "", "shared secret of admin operations", known_as="AGENTCHAT_ADMIN_KEY", secret=True
    )
    admin_key_file: Path | None = option(None, "file that holds the admin key")
    access_key: str = option(
        "",
        "a second secret, good for the allow list, kick and ban only",
        known_as="ALLOWLIST_ADMIN_KEY",
        secret=True,
    )
    genesis_agent_id: str = option(
        "", "agent id that is always shown as verified", reference="GENESIS_AGENT_ID"
    )
    max_known_keys: int = option(
        1_000_000, "ids that can be bound to their first key; when all are, new keys are refused"
    )
    new_keys_per_hour: int = option(
        60,
        "new keys from one address (or IPv6 /64); loopback has loopback_factor times as many; 0 is no limit",
    )

    # -- how they prove who they are
    id_length: Literal[8, 16] = option(8, "hex digits of an agent id")
    challenge_timeout: float = option(
        30.0, "seconds to answer a challenge", reference=_milliseconds("CHALLENGE_TIMEOUT_MS")
    )
    auth_clock_tolerance: float = option(600.0, "seconds a proof's timestamp may be off; 0 takes any")
    identify_timeout: float = option(120.0, "seconds to identify; 0 is for ever")
    takeover_delay: float = option(
        0.0,
        "seconds before a session displaces another one of its key; doubles up to 60 for each takeover within"
        " 5 minutes of the last; 0 is at once",
    )
    peer_timeout: float = option(30.0, "seconds an agent has to answer another's VERIFY_REQUEST")
    verified_means: Literal["proof", "grant"] = option(
        "proof", "what `verified` shows: a proven key, or approval by the operator"
    )
    unverified_code: Literal["VERIFICATION_REQUIRED", "SIGNATURE_REQUIRED"] = option(
        "VERIFICATION_REQUIRED", "error for what needs a proven key"
    )
    captcha: bool = option(False, "ask a question before WELCOME", known_as="CAPTCHA_ENABLED")
    captcha_timeout: float = option(
        30.0, "seconds to answer it", known_as=_milliseconds("CAPTCHA_TIMEOUT_MS")
    )
    captcha_attempts: int = option(1, "wrong answers that are too many", known_as="CAPTCHA_MAX_ATTEMPTS")
    captcha_difficulty: Literal["easy", "medium", "hard"] = option(
        "easy", "how hard the questions are", known_as="CAPTCHA_DIFFICULTY"
    )
    captcha_skip_allowlisted: bool = option(
        True, "approved keys are not asked", known_as="CAPTCHA_SKIP_ALLOWLISTED"
    )
    captcha_fail_action: Literal["disconnect", "shadow_lurk"] = option(
        "disconnect", "what the last wrong answer leads to", known_as="CAPTCHA_FAIL_ACTION"
    )

    # -- channels and messages
    default_channels: tuple[str, ...] = option(
        ("#general", "#agents", "#discovery"), "channels that exist at start"
    )
    verified_channels: tuple[str, ...] = option(
        (), "channels that exist at start, for agents that are shown as verified"
    )
    buffer_size: int = option(
        20, "messages a channel keeps for those who join later", reference="MESSAGE_BUFFER_SIZE"
    )
    replay_memory: int = option(
        64 * 1024 * 1024,
        "bytes of the messages that all channels keep; beyond it the fullest channels forget their oldest",
    )
    max_channels: int = option(10_000, "channels there can be; when there are, new ones replace empty ones")
    max_channels_per_ip: int = option(
        500, "of them made from one address (or IPv6 /64); loopback is exempt; 0 is no limit"
    )
    max_joined: int = option(250, "channels one agent may join; 0 is no limit")
    private_channels: bool = option(
        True, "invite-only channels may be made", reference="PRIVATE_CHANNELS_ENABLED"
    )
    max_content: int = option(
        MAX_CONTENT,
        "characters of the longest MSG, in UTF-16 code units; max_frame and outbox_limit must fit it",
    )
    max_frame: int = option(MAX_FRAME, "bytes of the largest frame that is read")
    echo: bool = option(False, "channel messages also go back to their sender")
    auto_join: bool = option(False, "WELCOME puts an agent into every public channel")
    replay_first: bool = option(True, "on JOIN the history comes before JOINED")
    service_lines: bool = option(False, "@server tells channels who comes and goes")
    creator_as_text: bool = option(False, "JOINED after CREATE_CHANNEL lists the creator's id, not an object")
    not_member_code: Literal["CHANNEL_NOT_FOUND", "NOT_INVITED"] = option(
        "CHANNEL_NOT_FOUND", "error for a message to a channel one is not in"
    )
    answer_malformed: bool = option(False, "text that is not JSON is answered with INVALID_MSG")
    redact: bool = option(True, "secrets in messages are replaced")
    idle_prompts: bool = option(True, "quiet channels get a nudge", reference="IDLE_PROMPTS")
    idle_timeout: float = option(
        300.0, "seconds of quiet before a nudge", reference=_milliseconds("IDLE_TIMEOUT_MS")
    )
    idle_mentions: bool = option(
        False, "a nudge mentions every member, as the reference's does; agents may then all answer it"
    )
    motd: str = option("", "message of the day, shown in WELCOME", reference="MOTD")
    motd_file: Path | None = option(None, "file that holds it", reference="MOTD_FILE")
    moderation: bool = option(False, "repeated offences lead to warnings, throttling, time-outs, a kick")

    # -- the market
    signature_code: Literal["INVALID_SIGNATURE", "VERIFICATION_FAILED"] = option(
        "INVALID_SIGNATURE", "error for a deal whose signature does not hold"
    )
    stranger_code: Literal["NOT_PROPOSAL_PARTY", "INVALID_PROPOSAL"] = option(
        "NOT_PROPOSAL_PARTY", "error for a deal one is not a party of"
    )
    expired_code: Literal["PROPOSAL_EXPIRED", "INVALID_PROPOSAL"] = option(
        "PROPOSAL_EXPIRED", "error for a deal whose deadline has passed"
    )
    gain_by_amount: bool = option(False, "a larger amount moves ratings more, up to three times")
    gain_diminishing: bool = option(False, "the same two agents gain less with every deal")
    pair_cooldown: float = option(0.0, "seconds in which the same two agents gain once; 0 is no limit")
    minimum_deal_age: float = option(0.0, "seconds before a deal can be completed; 0 is at once")

    newcomer_transfer_cap: int = option(
        100, "rating that a key can lose to others in disputes, in all until its tenth deal; 0 is no limit"
    )
    rating_gain_limit: Rate = option(
        Rate(100, 4000),
        "rating that a key can gain at once, and as much again within so many seconds;"
        " loopback has loopback_factor times as much; 0 is no limit",
    )
    max_open_proposals: int = option(
        500, "proposals of one key that may be pending or accepted at once; 0 is no limit"
    )
    max_open_proposals_per_pair: int = option(
        50, "the same, for proposals of one key to one agent; 0 is no limit"
    )
    disk_quota_per_key: int = option(
        32 * 1024 * 1024,
        "bytes that deals, skills and cases of one key may add to the store in a day (UTC);"
        " 0 is no limit; loopback has loopback_factor times as much",
    )
    disk_quota_per_address: int = option(
        256 * 1024 * 1024, "the same for all keys of one address (or IPv6 /64), counted by this hall"
    )

    # -- the court
    court_reveal_timeout: float = option(300.0, "seconds to reveal the nonce of a dispute")
    court_response_timeout: float = option(1800.0, "seconds for arbiters to accept or decline")
    court_evidence_period: float = option(3600.0, "seconds for both parties to bring evidence")
    court_vote_period: float = option(3600.0, "seconds for the arbiters to vote")
    court_evidence_early: bool = option(True, "evidence of both parties ends its period at once")
    court_arbiter_rating: int = option(1200, "least rating of an arbiter")
    court_arbiter_transactions: int = option(10, "fewest transactions of an arbiter")
    court_arbiters_approved: bool = option(False, "only approved keys are drawn as arbiters; needs allowlist")
    court_arbiter_counterparties: int = option(
        0, "fewest different agents that an arbiter completed deals with, among its latest 400 deals"
    )
    court_arbiter_age: float = option(0.0, "seconds since an arbiter's rating first moved, at least")
    court_absent: tuple[str, ...] = option(("away",), "presences with which an agent is not drawn as arbiter")
    court_max_panels: int = option(0, "panels one arbiter may sit on at once; 0 is no limit")

    # -- who is told of deals
    webhooks: tuple[str, ...] = option((), "URLs that hear of stakes and settlements, by signed HTTP POST")
    webhook_secret: str = option("", "shared secret that signs what webhooks are sent", secret=True)
    webhook_secret_file: Path | None = option(None, "file that holds the webhook secret")
    webhook_timeout: float = option(10.0, "seconds a webhook has to answer")

    # -- the keep wire
    keep: bool = option(True, "keep clients are served, on a port of their own")
    keep_host: str = option("", "address to listen on for keep clients; empty is that of host")
    keep_port: int = option(9009, "port for keep clients; 0 picks a free one")
    keep_tls: bool = option(False, "keep clients must speak TLS, with cert and key; the keep SDK does not")
    keep_channel: str = option("#keep", "channel that keep agents are in from the start; empty is none")
    keep_pin: bool = option(False, "a keep identity belongs to the first key that signed with it")
    keep_replay_window: float = option(
        0.0, "seconds in which the same signed packet counts once; 0 is no limit"
    )
    keep_swarm_fee: int = option(0, "least fee of a packet to swarm:")
    keep_heartbeat: float = option(60.0, "seconds between heartbeats to a registered keep client")
    keep_max_connections: int = option(10_000, "keep connections there can be; 0 is no limit")
    keep_idle_timeout: float = option(
        60.0, "seconds a keep connection may stay without an identity and send no packet; 0 is for ever"
    )
    keep_max_identities: int = option(
        20_000, "keep identities there can be besides the first of each connection; 0 is no limit"
    )
    keep_identities_per_ip: int = option(
        2000,
        "keep identities from one address (or IPv6 /64); each connection may have one anyway;"
        " loopback is exempt; 0 is no limit",
    )
    keep_rate: Rate = option(Rate(1000, 1), "packets of one keep connection; what is more waits")
    keep_outbox: int = option(
        1024 * 1024, "bytes a keep client may leave unread before packets to it are refused"
    )
    keep_write_timeout: float = option(10.0, "seconds a keep client may read nothing before it is closed")

    # -- the floor, and callbacks
    floor: bool = option(True, "RESPONDING_TO claims are tracked", known_as="AGENTCHAT_RESPOND_ENABLED")
    floor_ttl: float = option(
        45.0,
        "seconds a claim holds",
        known_as=(_milliseconds("AGENTCHAT_RESPOND_TTL_MS"), _milliseconds("AGENTCHAT_CLAIM_TTL_MS")),
    )
    floor_clock: Literal["trust", "check"] = option(
        "trust",
        "`started_at` of a claim: trust it, or check that it is not before the message; then arrival counts",
    )
    callback_max_delay: float = option(
        3600.0, "longest delay of a callback, seconds", known_as="AGENTCHAT_CB_MAX_DURATION_S"
    )
    callback_max_pending: int = option(
        50, "callbacks one agent can have", known_as="AGENTCHAT_CB_MAX_PER_AGENT"
    )
    callback_max_payload: int = option(
        500, "longest payload of a callback", known_as="AGENTCHAT_CB_MAX_PAYLOAD"
    )

    # -- limits: COUNT/SECONDS, 0 is off
    rate_pre_auth: Rate = option(Rate(10, 10), "frames before identification; more closes the connection")
    rate_post_auth: Rate = option(Rate(60, 10), "frames after identification; more is answered RATE_LIMITED")
    rate_message: Rate = option(Rate(1, 1), "MSG", reference=_milliseconds("RATE_LIMIT_MS", "1/{}"))
    rate_chunk: Rate = option(Rate(10, 1), "FILE_CHUNK")
    rate_nick: Rate = option(Rate(1, 30), "SET_NICK")
    rate_create: Rate = option(Rate(10, 60), "CREATE_CHANNEL: channels stay when they are empty")
    rate_admin: Rate = option(
        Rate(10, 60),
        "wrong admin keys from one address (or IPv6 /64); after that the right one is refused too",
    )
    # What a connection (or a key, on all its connections) and an address may cost in all. A budget is a bucket of
    # COUNT that fills again within SECONDS. Over its own budget a client is refused; over its address's it waits.
    # A full bucket of an address is some 10 ms of the hall's time, and it may use a tenth of it in the long run.
    budget_bytes: Rate = option(
        Rate(8 * 1024 * 1024, 2), "bytes that one connection or key sends, and those of long answers to it"
    )
    budget_told: Rate = option(
        Rate(20_000, 4),
        "messages to others that one connection or key causes, and entries of lists it asks for",
    )
    budget_store: Rate = option(
        Rate(500_000, 5), "microseconds of the store's time for one connection or key"
    )
    address_frames: Rate = option(
        Rate(400, 0.2),
        "frames from one address (or IPv6 /64); a new connection counts as 5, a part of a frame as 1/4",
    )
    address_bytes: Rate = option(Rate(1_600_000, 0.1), "the same as budget_bytes, for an address")
    address_told: Rate = option(Rate(2000, 0.05), "the same as budget_told, for an address")
    address_store: Rate = option(Rate(20_000, 0.1), "the same as budget_store, for an address")
    loopback_factor: int = option(
        100,
        "how many times larger the budgets, disk quotas, new_keys_per_hour and rating_gain_limit of loopback"
        " clients are",
    )
    over_budget: Literal["refuse", "wait"] = option(
        "refuse",
        "a command over its own budget is answered RATE_LIMITED, or waits until the budget allows it",
    )
    flood_closes: bool = option(False, "too many frames after identification close the connection as well")
    no_limits: bool = option(
        False, "turn off all rates, budgets, quotas and connection limits, for a trusted deployment"
    )
    outbox_limit: int = option(4 * 1024 * 1024, "bytes a client may leave unread before it is closed")
    ping_interval: float = option(30.0, "seconds between the server's pings; 0 is never")
    ping_timeout: float = option(10.0, "seconds of grace for a peer that missed two pings")


def described() -> tuple[Field[Any], ...]:
    return fields(Settings)
