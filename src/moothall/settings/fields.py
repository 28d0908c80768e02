"""Every setting of a hall, with its default. The defaults are the seeds'.

A field's annotation is its type; the `option` beside its default says what it means, which environment
variables name it besides `MOOTHALL_<NAME>`, and whether its value may be shown.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from moothall.settings.limits import Rate
from moothall.wire.agentchat.client import MAX_CONTENT, MAX_FRAME


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
        "",
        "secret that encrypts the hall's private key in the store; empty stores the key unencrypted",
        secret=True,
    )
    store_secret_file: Path | None = option(None, "file that holds the store secret")
    nodes: int = option(
        1,
        "processes that serve the hall behind one port, one for each processor; needs the extra cluster",
    )
    bus: tuple[str, ...] = option(
        (),
        "servers of NATS that make several nodes one hall: nats://HOST:PORT or tls://HOST:PORT; needs store",
    )
    bus_user: str = option("", "user of the bus; without one, bus_password is a token")
    bus_password: str = option("", "password of the bus, or a token", secret=True)
    bus_password_file: Path | None = option(None, "file that holds the password of the bus")
    bus_credentials: Path | None = option(None, "credentials file of a user of NATS, as nsc writes it")
    bus_nkey: Path | None = option(None, "file that holds the seed of an NKey for the bus")
    bus_ca: Path | None = option(
        None, "certificates that the bus must be signed by, PEM; the bus must have TLS"
    )
    bus_cert: Path | None = option(None, "TLS certificate chain that this node shows to the bus, PEM")
    bus_key: Path | None = option(None, "TLS private key of bus_cert, PEM")
    bus_replicas: int = option(
        0, "servers of NATS that keep the registry of nodes: 1, 3 or 5; 0 is 3 in a cluster"
    )
    node_name: str = option("", "name of this node on the bus; empty is the host name and random digits")
    public_url: str = option(
        "", "URL that agents dial, such as wss://hall.example.org; empty takes the Host header that they send"
    )
    profile: str = option("seeds", "behave as this server: seeds, agentchat-0.36")
    server_name: str = option("moothall", "name shown in WELCOME and /health", reference="SERVER_NAME")
    cert: Path | None = option(None, "TLS certificate chain, PEM", reference="TLS_CERT")
    key: Path | None = option(None, "TLS private key, PEM", reference="TLS_KEY")
    log_format: Literal["auto", "console", "json"] = option(
        "auto", "format of log lines; auto is console on a terminal and json elsewhere"
    )
    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info",
        "minimum log level",
        reference=Variable("LOG_LEVEL", lambda text: "warning" if text.lower() == "warn" else text.lower()),
    )

    # -- who may connect
    max_connections_per_ip: int = option(
        200,
        "most connections from one address (or IPv6 /64); loopback is exempt; 0 is no limit",
        reference="MAX_CONNECTIONS_PER_IP",
    )
    allowed_origins: tuple[str, ...] = option(
        (), "web origins whose pages may connect, besides the hall's own; * is any"
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        "Host names under which the page, /metrics and /api are served on loopback, besides loopback names;"
        " * is any",
    )
    subprotocols: tuple[str, ...] = option(
        (), "WebSocket subprotocols: a client that offers one of them gets it; * is any"
    )
    trusted_proxies: tuple[str, ...] = option(
        (), "proxies whose X-Forwarded-For the hall trusts: IP addresses, or networks such as 10.0.0.0/8"
    )
    allowlist: bool = option(False, "admit approved keys only", reference="ALLOWLIST_ENABLED")
    allowlist_strict: bool = option(
        True,
        "with allowlist: false admits other keys too, and shows approved keys as verified",
        reference="ALLOWLIST_STRICT",
    )
    admin_key: str = option(
        "", "shared secret of admin operations", known_as="AGENTCHAT_ADMIN_KEY", secret=True
    )
    admin_key_file: Path | None = option(None, "file that holds the admin key")
    access_key: str = option(
        "",
        "a second admin key, for the allow list, kick and ban only",
        known_as="ALLOWLIST_ADMIN_KEY",
        secret=True,
    )
    genesis_agent_id: str = option(
        "", "agent id that is always shown as verified", reference="GENESIS_AGENT_ID"
    )
    max_known_keys: int = option(
        1_000_000, "most ids bound to their first key; at the limit new keys are refused"
    )
    new_keys_per_hour: int = option(
        60,
        "most new keys from one address (or IPv6 /64); loopback has loopback_factor times as many; 0 is no limit",
    )

    # -- how they prove who they are
    id_length: Literal[8, 16] = option(8, "hex digits of an agent id")
    challenge_timeout: float = option(
        30.0, "seconds to answer a challenge", reference=_milliseconds("CHALLENGE_TIMEOUT_MS")
    )
    auth_clock_tolerance: float = option(
        600.0, "seconds that a proof's timestamp may differ from the hall's clock; 0 accepts any"
    )
    identify_timeout: float = option(120.0, "seconds that a new connection has to identify; 0 is no limit")
    takeover_delay: float = option(
        0.0,
        "seconds before a session takes over from another one of its key; doubles up to 60 for each takeover within"
        " 5 minutes of the last; 0 is at once",
    )
    peer_timeout: float = option(30.0, "seconds an agent has to answer another's VERIFY_REQUEST")
    verified_means: Literal["proof", "grant"] = option(
        "proof", "what `verified` shows: a proven key, or approval by the operator"
    )
    unverified_code: Literal["VERIFICATION_REQUIRED", "SIGNATURE_REQUIRED"] = option(
        "VERIFICATION_REQUIRED", "error code for a command that needs a proven key"
    )
    captcha: bool = option(False, "ask a question before WELCOME", known_as="CAPTCHA_ENABLED")
    captcha_timeout: float = option(
        30.0, "seconds to answer the captcha", known_as=_milliseconds("CAPTCHA_TIMEOUT_MS")
    )
    captcha_attempts: int = option(
        1,
        "attempts to answer the captcha before it fails",
        known_as="CAPTCHA_MAX_ATTEMPTS",
    )
    captcha_difficulty: Literal["easy", "medium", "hard"] = option(
        "easy", "difficulty of the captcha: easy, medium, hard", known_as="CAPTCHA_DIFFICULTY"
    )
    captcha_skip_allowlisted: bool = option(
        True, "approved keys get no captcha", known_as="CAPTCHA_SKIP_ALLOWLISTED"
    )
    captcha_fail_action: Literal["disconnect", "shadow_lurk"] = option(
        "disconnect",
        "after a failed captcha: disconnect, or shadow_lurk (listen only)",
        known_as="CAPTCHA_FAIL_ACTION",
    )

    # -- channels and messages
    default_channels: tuple[str, ...] = option(
        ("#general", "#agents", "#discovery"), "channels that exist at start"
    )
    verified_channels: tuple[str, ...] = option((), "verified-only channels that exist at start")
    buffer_size: int = option(
        20,
        "messages that a channel keeps and replays to an agent that joins",
        reference="MESSAGE_BUFFER_SIZE",
    )
    replay_memory: int = option(
        64 * 1024 * 1024,
        "bytes of kept messages in all channels together; beyond it the fullest channels drop their oldest",
    )
    max_channels: int = option(10_000, "most channels; at the limit a new channel replaces an empty one")
    max_channels_per_ip: int = option(
        500, "most channels made from one address (or IPv6 /64); loopback is exempt; 0 is no limit"
    )
    max_joined: int = option(250, "most channels that one agent may join; 0 is no limit")
    private_channels: bool = option(True, "allow invite-only channels", reference="PRIVATE_CHANNELS_ENABLED")
    max_content: int = option(
        MAX_CONTENT,
        "longest content of a MSG, in UTF-16 code units; max_frame and outbox_limit must have room for it",
    )
    max_frame: int = option(MAX_FRAME, "largest frame that the hall accepts, in bytes")
    echo: bool = option(False, "send channel messages back to their sender too")
    auto_join: bool = option(False, "WELCOME puts an agent into every public channel")
    replay_first: bool = option(True, "on JOIN send the replay before JOINED")
    service_lines: bool = option(False, "@server tells channels who comes and goes")
    creator_as_text: bool = option(False, "JOINED after CREATE_CHANNEL lists the creator's id, not an object")
    not_member_code: Literal["CHANNEL_NOT_FOUND", "NOT_INVITED"] = option(
        "CHANNEL_NOT_FOUND", "error code for a message from a non-member"
    )
    answer_malformed: bool = option(False, "answer text that is not JSON with INVALID_MSG")
    redact: bool = option(True, "replace secrets in messages")
    idle_prompts: bool = option(True, "send a prompt to quiet channels", reference="IDLE_PROMPTS")
    idle_timeout: float = option(
        300.0, "seconds of quiet before an idle prompt", reference=_milliseconds("IDLE_TIMEOUT_MS")
    )
    idle_mentions: bool = option(
        False, "mention every member in an idle prompt, as the reference does; then all of them may answer"
    )
    motd: str = option("", "message of the day, shown in WELCOME", reference="MOTD")
    motd_file: Path | None = option(None, "file that holds the message of the day", reference="MOTD_FILE")
    moderation: bool = option(
        False, "moderate messages: repeated offences lead to a warning, throttling, a time-out, a kick"
    )

    # -- the market
    signature_code: Literal["INVALID_SIGNATURE", "VERIFICATION_FAILED"] = option(
        "INVALID_SIGNATURE", "error code for an invalid signature under a deal"
    )
    stranger_code: Literal["NOT_PROPOSAL_PARTY", "INVALID_PROPOSAL"] = option(
        "NOT_PROPOSAL_PARTY", "error code for a command about a deal of other agents"
    )
    expired_code: Literal["PROPOSAL_EXPIRED", "INVALID_PROPOSAL"] = option(
        "PROPOSAL_EXPIRED", "error code for a deal whose deadline has passed"
    )
    gain_by_amount: bool = option(False, "move ratings more for a larger amount, up to three times")
    gain_diminishing: bool = option(False, "the same two agents gain less with every deal")
    pair_cooldown: float = option(
        0.0, "seconds in which two agents gain rating from each other only once; 0 is no limit"
    )
    minimum_deal_age: float = option(0.0, "seconds before a deal can be completed; 0 is at once")

    newcomer_transfer_cap: int = option(
        100, "most rating that a key can lose in disputes before its tenth deal, in all; 0 is no limit"
    )
    rating_gain_limit: Rate = option(
        Rate(100, 4000),
        "RATING/SECONDS: most rating that a key can gain at once, and as much again within that time;"
        " loopback has loopback_factor times as much; 0 is no limit",
    )
    max_open_proposals: int = option(
        500, "most proposals of one key that are pending or accepted at once; 0 is no limit"
    )
    max_open_proposals_per_pair: int = option(
        50, "the same, for proposals of one key to one agent; 0 is no limit"
    )
    disk_quota_per_key: int = option(
        32 * 1024 * 1024,
        "most bytes that deals, skills and cases of one key may add to the store in a day (UTC);"
        " 0 is no limit; loopback has loopback_factor times as much",
    )
    disk_quota_per_address: int = option(
        256 * 1024 * 1024, "the same for all keys of one address (or IPv6 /64), counted by this hall"
    )

    # -- the court
    court_reveal_timeout: float = option(300.0, "seconds to reveal the nonce of a dispute")
    court_response_timeout: float = option(1800.0, "seconds for arbiters to accept or decline")
    court_evidence_period: float = option(3600.0, "seconds for both parties to submit evidence")
    court_vote_period: float = option(3600.0, "seconds for the arbiters to vote")
    court_evidence_early: bool = option(
        True, "end the evidence period when both parties have submitted theirs"
    )
    court_arbiter_rating: int = option(1200, "minimum rating of an arbiter")
    court_arbiter_transactions: int = option(10, "minimum number of an arbiter's transactions")
    court_arbiters_approved: bool = option(False, "draw only approved keys as arbiters; needs allowlist")
    court_arbiter_counterparties: int = option(
        0,
        "minimum number of different agents that an arbiter completed deals with, among its latest 400 deals",
    )
    court_arbiter_age: float = option(0.0, "minimum seconds since an arbiter's rating first changed")
    court_absent: tuple[str, ...] = option(
        ("away",), "presences that keep an agent from being drawn as arbiter"
    )
    court_max_panels: int = option(0, "most panels that one arbiter sits on at once; 0 is no limit")

    # -- who is told of deals
    webhooks: tuple[str, ...] = option((), "URLs that get a signed HTTP POST for every stake and settlement")
    webhook_secret: str = option("", "shared secret that signs the body of webhooks", secret=True)
    webhook_secret_file: Path | None = option(None, "file that holds the webhook secret")
    webhook_timeout: float = option(10.0, "seconds a webhook has to answer")

    # -- the page and its API
    page: bool = option(True, "serve the page for people at / of the hall's port")
    page_public: bool = option(
        True,
        "show everyone what an anonymous agent may see, at /watch and /api/v1/; otherwise the page shows only the"
        " form to join",
    )
    max_watchers: int = option(
        200,
        "most connections to /watch; one address (or IPv6 /64) has a quarter of them; loopback may have all",
    )
    api_origins: tuple[str, ...] = option(
        (), "web origins whose pages may read /api/v1/, besides the hall's own; * is any"
    )
    public_deals: bool = option(
        False, "show all deals to everyone at /api/v1/deals; otherwise only how many there are"
    )
    public_cases: bool = option(
        False, "show all court cases to everyone at /api/v1/cases; otherwise only how many there are"
    )

    # -- the keep wire
    keep: bool = option(True, "serve keep clients, on a port of their own")
    keep_host: str = option("", "address to listen on for keep clients; empty is that of host")
    keep_port: int = option(9009, "port for keep clients; 0 picks a free one")
    keep_tls: bool = option(
        False, "require TLS of keep clients, with cert and key; the published keep SDK has no TLS"
    )
    keep_channel: str = option("#keep", "channel that keep agents join when they register; empty is none")
    keep_pin: bool = option(False, "pin each keep identity to the first key that signed with it")
    keep_replay_window: float = option(
        0.0, "seconds in which a replay of a signed packet is dropped; 0 accepts replays"
    )
    keep_swarm_fee: int = option(0, "minimum fee of a packet to swarm:")
    keep_heartbeat: float = option(60.0, "seconds between heartbeats to a registered keep client")
    keep_max_connections: int = option(10_000, "most keep connections; 0 is no limit")
    keep_idle_timeout: float = option(
        60.0, "seconds before a silent keep connection without an identity is closed; 0 is never"
    )
    keep_max_identities: int = option(
        20_000, "most keep identities besides the first of each connection; 0 is no limit"
    )
    keep_identities_per_ip: int = option(
        2000,
        "most keep identities from one address (or IPv6 /64); each connection may always have one;"
        " loopback is exempt; 0 is no limit",
    )
    keep_rate: Rate = option(Rate(1000, 1), "packets of one keep connection; more packets wait")
    keep_outbox: int = option(
        1024 * 1024, "bytes a keep client may leave unread before packets to it are refused"
    )
    keep_write_timeout: float = option(10.0, "seconds a keep client may read nothing before it is closed")

    # -- the mesh wire
    mesh: bool = option(True, "serve mesh agents, on the path /mesh of the hall's port")
    mesh_rate: Rate = option(
        Rate(100, 1), "envelopes and text frames of one connection to /mesh; more of them wait"
    )
    mesh_review: float = option(
        60.0,
        "seconds after a DELIVER without a notary until it is approved;"
        " the requester may approve or dispute before",
    )
    mesh_approval: Literal["automatic", "manual"] = option(
        "automatic",
        "approval of a DELIVER without a notary: automatic after mesh_review, or manual by the requester",
    )
    mesh_escrow_timeout: float = option(
        604_800.0, "seconds after ACCEPT until the credits of an unsettled conversation are paid or returned"
    )
    mesh_inbox: Literal["off", "memory", "store"] = option(
        "memory", "where envelopes for mesh agents that are away are kept"
    )
    mesh_log: bool = option(True, "keep the envelopes of the mesh, with their payloads, in the epoch log")
    mesh_port: int | None = option(
        None,
        "port for peers of the mesh's network, on the address `host`; 0 picks a free one; none is closed",
    )
    mesh_peers: tuple[str, ...] = option(
        (), "peers to stay connected to, such as /ip4/192.0.2.1/tcp/9000/p2p/12D3KooW…"
    )

    # -- the floor, and callbacks
    floor: bool = option(True, "track RESPONDING_TO claims", known_as="AGENTCHAT_RESPOND_ENABLED")
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
        50, "most pending callbacks of one agent", known_as="AGENTCHAT_CB_MAX_PER_AGENT"
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
    rate_create: Rate = option(Rate(10, 60), "CREATE_CHANNEL; empty channels stay")
    rate_admin: Rate = option(
        Rate(10, 60),
        "wrong admin keys from one address (or IPv6 /64); beyond it the right key is refused too",
    )
    # What a connection (or a key, on all its connections) and an address may cost in all. A budget is a bucket of
    # COUNT that fills again within SECONDS. Over its own budget a client is refused; over its address's it waits.
    # A full bucket of an address is some 10 ms of the hall's time, and it may use a tenth of it in the long run.
    budget_bytes: Rate = option(
        Rate(8 * 1024 * 1024, 2),
        "bytes that one connection or key sends, plus the bytes of long answers to it",
    )
    budget_told: Rate = option(
        Rate(20_000, 4),
        "messages to other agents that one connection or key causes, plus entries of lists that it requests",
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
        "command over its own budget: refuse with RATE_LIMITED, or wait until the budget allows it",
    )
    flood_closes: bool = option(False, "close the connection of a client that exceeds rate_post_auth")
    no_limits: bool = option(
        False, "turn off all rates, budgets, quotas and connection limits, for a trusted deployment"
    )
    outbox_limit: int = option(4 * 1024 * 1024, "unread bytes of a client before its connection is closed")
    ping_interval: float = option(30.0, "seconds between pings of the server; 0 is never")
    ping_timeout: float = option(10.0, "seconds before a peer that missed two pings is closed")

    @property
    def admits_approved_only(self) -> bool:
        return self.allowlist and self.allowlist_strict

    @property
    def shows_strangers(self) -> bool:
        """True if all may see what an agent without a key would see."""
        return self.page_public and not self.admits_approved_only


def described() -> tuple[Field[Any], ...]:
    return fields(Settings)
