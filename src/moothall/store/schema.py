"""The tables, as numbered migrations. A migration that was released is never changed: the next one is added.

A record is the truth, as JSON (msgspec); the columns beside it are what queries look for. `version` counts the
changes of a row: a writer that read an older one finds out when it writes (see `rows`).

    keys                who has a row anywhere, and the ids that follow from the key
    bindings            the key that each id belongs to, for ever
    revocations         keys that their owners ended, with the signed notices
    proposals           deals, from the offer to their end
    standings           rating, transactions and open stakes of each key
    imported            what the reference server knew by 16 digits, until the key behind them appears
    registrations       skills, as each agent registered them
    offers              the same, one row per skill: what searches look for
    disk_usage          how many bytes each key has added to the store today
    postings            the ledger: in each book, the postings of one (deal, operation) sum to zero
    audit               one row per decision, for ever
    receipts            completed deals, for ever
    rating_history      each step of each rating
    disputes            court cases, with everything said and decided in them: one per deal and party that filed
    case_files          the files of closed cases, as the hall signed them, for ever
    case_parts          who has a part in which case; `live` while it is open, and for an arbiter has not declined
    common              what all halls on one store agree on: approved keys, bans, the message of the day, caps on
                        spending
    common_versions     how often each of these lists was changed
    pins                the first key of each keep identity, which is there as a hash
    hall_key            the key that halls on this store sign with (one row; see `hall_key`)
    halls               halls, or node processes of one, that use this store now, and when each said so
    present             keys of the agents that are connected to each hall, and their presence
    letters             what agents of other halls are to be told, for a minute
    hooks               events on their way to integrations: a row per event and listener, until it is delivered
    conversations       of the mesh, from PROPOSE on, for ever: an id is never used again
    notary_bids         offers to be the notary of a conversation that has none; the id of zeros is for any
    escrows             what is put aside for a conversation, and how it was settled
    balances            what each account of the book `credits` holds: the sum of its postings; `is_guarded` if its
                        agent has proven its key to a hall of this store, and credits move only with a proof
    authorisations      the envelope that authorised each entry of `credits`, for ever
    mesh_log            envelopes of the mesh in the order of arrival, for ever: the leaves of each epoch's tree
    mesh_epochs         epochs that have ended: how many envelopes each had, and the root of its tree
    mesh_inbox          envelopes for agents of the mesh that are away, with `mesh_inbox = "store"`
    spending            tokens that each key has reported on each day of UTC; `spending_days` has the sums
    spending_reports    the last report of each key, for ever: a later one adds the difference
    node_inbox          of a node of the mesh, like the rest: which envelopes of the log came for its agents
    node_outbox         messages of its agents that no peer has acknowledged yet
    node_failures       the latest of those that were given up
    node_hosted         agents that the node hosts: the hashes of their tokens, and their keys, encrypted
    node_tasks          what the owner of the node noted of its jobs
"""

from typing import Final

from moothall.store.mesh_schema import MESH
from moothall.store.migration_steps import APPENDED, IN_FILE, REPLACED, SHARED

APPEND_ONLY: Final = ("postings", "audit", "receipts", "rating_history")

_FIRST: Final = (
    "CREATE TABLE meta (name {text} PRIMARY KEY, value {text} NOT NULL){compact}",
    """CREATE TABLE keys (
        number {number},
        key {bytes} NOT NULL UNIQUE,
        fingerprint {text} NOT NULL,
        short {text} NOT NULL
    )""",
    "CREATE INDEX keys_short ON keys (short, number)",
    """CREATE TABLE proposals (
        id {text} PRIMARY KEY,
        proposer {bytes} NOT NULL REFERENCES keys (key),
        recipient {bytes} NOT NULL REFERENCES keys (key),
        status {text} NOT NULL,
        is_open SMALLINT NOT NULL,
        frozen SMALLINT NOT NULL,
        expires BIGINT,
        created_at BIGINT NOT NULL,
        version BIGINT NOT NULL,
        record {bytes} NOT NULL
    )""",
    "CREATE INDEX proposals_proposer ON proposals (proposer, is_open, created_at)",
    "CREATE INDEX proposals_recipient ON proposals (recipient, is_open, created_at)",
    "CREATE INDEX proposals_status ON proposals (status)",
    """CREATE INDEX proposals_due ON proposals (expires)
        WHERE is_open = 1 AND frozen = 0 AND expires IS NOT NULL""",
    """CREATE TABLE standings (
        key {bytes} PRIMARY KEY REFERENCES keys (key),
        rating BIGINT NOT NULL,
        transactions BIGINT NOT NULL,
        version BIGINT NOT NULL,
        record {bytes} NOT NULL
    ){compact}""",
    "CREATE INDEX standings_best ON standings (rating DESC, transactions DESC, key)",
    """CREATE TABLE imported (
        fingerprint {text} PRIMARY KEY,
        standing {bytes},
        registration {bytes},
        bound_to {bytes} REFERENCES keys (key)
    ){compact}""",
    """CREATE TABLE registrations (
        key {bytes} PRIMARY KEY REFERENCES keys (key),
        registered_at BIGINT NOT NULL,
        record {bytes} NOT NULL
    )""",
    """CREATE TABLE postings (
        deal {text} NOT NULL,
        operation {text} NOT NULL,
        account {text} NOT NULL,
        amount BIGINT NOT NULL,
        at BIGINT NOT NULL,
        PRIMARY KEY (deal, operation, account)
    ){compact}""",
    """CREATE TABLE audit (
        number {number},
        at BIGINT NOT NULL,
        operation {text} NOT NULL,
        deal {text} NOT NULL,
        actor {bytes},
        data {bytes} NOT NULL
    )""",
    """CREATE TABLE receipts (
        number {number},
        proposal_id {text} NOT NULL UNIQUE,
        proposer {text} NOT NULL,
        recipient {text} NOT NULL,
        at BIGINT NOT NULL,
        body {bytes} NOT NULL
    )""",
    "CREATE INDEX receipts_proposer ON receipts (proposer, number)",
    "CREATE INDEX receipts_recipient ON receipts (recipient, number)",
    """CREATE TABLE rating_history (
        number {number},
        key {bytes} NOT NULL REFERENCES keys (key),
        at BIGINT NOT NULL,
        rating BIGINT NOT NULL,
        why {text} NOT NULL
    )""",
    "CREATE INDEX rating_history_key ON rating_history (key, number)",
    "CREATE TABLE used_signatures (signature {bytes} PRIMARY KEY, deal {text} NOT NULL){compact}",
    """CREATE TABLE hooks (
        id {text} PRIMARY KEY,
        name {text} NOT NULL,
        at BIGINT NOT NULL,
        body {bytes} NOT NULL,
        attempts BIGINT NOT NULL,
        next_attempt BIGINT
    )""",
    "CREATE INDEX hooks_waiting ON hooks (next_attempt) WHERE next_attempt IS NOT NULL",
    *(f"{APPENDED}{table}" for table in APPEND_ONLY),
)

# Each listener is told on its own. No hall has kept an event before this.
_HOOKS: Final = (
    "DROP TABLE hooks",
    """CREATE TABLE hooks (
        number {number},
        id {text} NOT NULL,
        listener {text} NOT NULL,
        name {text} NOT NULL,
        deal {text} NOT NULL,
        at BIGINT NOT NULL,
        body {bytes} NOT NULL,
        attempts BIGINT NOT NULL,
        next_attempt BIGINT NOT NULL,
        UNIQUE (listener, id)
    )""",
    "CREATE INDEX hooks_due ON hooks (listener, next_attempt)",
    "CREATE INDEX hooks_deal ON hooks (listener, deal, number)",
)

_COURT: Final = (
    """CREATE TABLE disputes (
        id {text} PRIMARY KEY,
        proposal_id {text} NOT NULL UNIQUE REFERENCES proposals (id),
        phase {text} NOT NULL,
        is_open SMALLINT NOT NULL,
        deadline BIGINT,
        filed_at BIGINT NOT NULL,
        version BIGINT NOT NULL,
        record {bytes} NOT NULL
    )""",
    "CREATE INDEX disputes_phase ON disputes (phase)",
    "CREATE INDEX disputes_due ON disputes (deadline) WHERE is_open = 1",
    """CREATE TABLE case_parts (
        dispute_id {text} NOT NULL REFERENCES disputes (id),
        key {bytes} NOT NULL REFERENCES keys (key),
        role {text} NOT NULL,
        live SMALLINT NOT NULL,
        filed_at BIGINT NOT NULL,
        PRIMARY KEY (dispute_id, key)
    ){compact}""",
    "CREATE INDEX case_parts_key ON case_parts (key, filed_at)",
    "CREATE INDEX case_parts_live ON case_parts (key) WHERE live = 1",
)

# The status of a deal says the same: a signed response names its deal, and no status comes twice.
_SIGNATURES: Final = ("DROP TABLE used_signatures",)

# What a stranger asks for must not cost more than the answer: lists and searches look at these, not at records.
_COSTS: Final = (
    """CREATE TABLE offers (
        key {bytes} NOT NULL REFERENCES keys (key),
        position BIGINT NOT NULL,
        capability {text} NOT NULL,
        name {text} NOT NULL,
        rate DOUBLE PRECISION,
        currency {text},
        rating BIGINT NOT NULL,
        registered_at BIGINT NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (key, position)
    )""",
    """CREATE INDEX offers_capability ON offers
        (capability, rating DESC, registered_at DESC, key, position, name, rate, currency)""",
    """CREATE INDEX offers_best ON offers
        (rating DESC, registered_at DESC, key, position, capability, name, rate, currency)""",
    "CREATE INDEX receipts_pair ON receipts (proposer, recipient, number)",
    """CREATE TABLE disk_usage (
        account {text} PRIMARY KEY,
        day BIGINT NOT NULL,
        bytes BIGINT NOT NULL
    ){compact}""",
    "fill: offers",
)

# A deal had one case. SQLite cannot drop the constraint that said so, so the tables are made anew. `listed` is what
# a list shows of a case, without the evidence; it stands before the record, because SQLite reads a row from its
# beginning. It is null in rows that nothing has changed since they came from an older store.
_TWO_CASES: Final = (
    "ALTER TABLE case_parts RENAME TO old_case_parts",
    "ALTER TABLE disputes RENAME TO old_disputes",
    "DROP INDEX disputes_phase",
    "DROP INDEX disputes_due",
    "DROP INDEX case_parts_key",
    "DROP INDEX case_parts_live",
    """CREATE TABLE disputes (
        id {text} PRIMARY KEY,
        proposal_id {text} NOT NULL REFERENCES proposals (id),
        disputant {bytes} NOT NULL REFERENCES keys (key),
        phase {text} NOT NULL,
        is_open SMALLINT NOT NULL,
        deadline BIGINT,
        filed_at BIGINT NOT NULL,
        version BIGINT NOT NULL,
        listed {bytes},
        record {bytes} NOT NULL,
        UNIQUE (proposal_id, disputant)
    )""",
    """INSERT INTO disputes (id, proposal_id, disputant, phase, is_open, deadline, filed_at, version, record)
        SELECT id, proposal_id, key, phase, is_open, deadline, old_disputes.filed_at, version, record
        FROM old_disputes JOIN old_case_parts ON dispute_id = id AND role = 'disputant'""",
    "CREATE INDEX disputes_phase ON disputes (phase)",
    "CREATE INDEX disputes_due ON disputes (deadline) WHERE is_open = 1",
    """CREATE TABLE case_parts (
        dispute_id {text} NOT NULL REFERENCES disputes (id),
        key {bytes} NOT NULL REFERENCES keys (key),
        role {text} NOT NULL,
        live SMALLINT NOT NULL,
        filed_at BIGINT NOT NULL,
        PRIMARY KEY (dispute_id, key)
    ){compact}""",
    """INSERT INTO case_parts (dispute_id, key, role, live, filed_at)
        SELECT dispute_id, key, role, live, filed_at FROM old_case_parts""",
    "CREATE INDEX case_parts_key ON case_parts (key, filed_at)",
    "CREATE INDEX case_parts_live ON case_parts (key) WHERE live = 1",
    "DROP TABLE old_case_parts",
    "DROP TABLE old_disputes",
)

# Keys that have a row have proven themselves: the first with an id has had it all along.
_IDENTITY: Final = (
    """CREATE TABLE bindings (
        number {number},
        id {text} NOT NULL UNIQUE,
        key {bytes} NOT NULL,
        at BIGINT NOT NULL
    )""",
    """CREATE TABLE revocations (
        number {number},
        key {bytes} NOT NULL UNIQUE,
        at BIGINT NOT NULL,
        notice {bytes} NOT NULL
    )""",
    """INSERT INTO bindings (id, key, at) SELECT short, key, 0 FROM keys
        WHERE number IN (SELECT min(number) FROM keys GROUP BY short) ORDER BY number""",
)

# The file of a closed case is kept as it was signed: written anew, it could differ.
_PROOFS: Final = (
    """CREATE TABLE case_files (
        dispute_id {text} PRIMARY KEY REFERENCES disputes (id),
        body {bytes} NOT NULL
    )""",
    f"{APPENDED}case_files",
)

_HARDENING: Final = (*_TWO_CASES, *_COSTS, *_IDENTITY, *_PROOFS)

# All postings so far are about ratings and stakes. A deal may have the same operation in both books. SQLite cannot
# change a primary key, so the table is made anew.
_BOOKS: Final = (
    f"{REPLACED}postings",
    """CREATE TABLE postings (
        book {text} NOT NULL CHECK (book IN ('elo', 'credits')),
        deal {text} NOT NULL,
        operation {text} NOT NULL,
        account {text} NOT NULL,
        amount BIGINT NOT NULL,
        at BIGINT NOT NULL,
        PRIMARY KEY (book, deal, operation, account)
    ){compact}""",
    """INSERT INTO postings (book, deal, operation, account, amount, at)
        SELECT 'elo', deal, operation, account, amount, at FROM old_postings""",
    "DROP TABLE old_postings",
    f"{APPENDED}postings",
)

# What all halls on one store agree on. The records are the reference's; halls know from the version that a list
# changed.
_COMMON: Final = (
    """CREATE TABLE common (
        number {number},
        list {text} NOT NULL,
        name {bytes} NOT NULL,
        record {bytes} NOT NULL,
        UNIQUE (list, name)
    )""",
    "CREATE TABLE common_versions (list {text} PRIMARY KEY, version BIGINT NOT NULL){compact}",
    """CREATE TABLE pins (
        number {number},
        identity {text} NOT NULL UNIQUE,
        key {bytes} NOT NULL
    )""",
    "CREATE TABLE hall_key (number BIGINT PRIMARY KEY, record {bytes} NOT NULL)",
)

# Halls that share a store, and what they tell each other. Who is connected where is not worth a disk: after a
# crash of the database each hall says it again.
_HALLS: Final = (
    f"{SHARED}CREATE UNLOGGED TABLE halls (id {{text}} PRIMARY KEY, seen_at BIGINT NOT NULL)",
    f"""{SHARED}CREATE UNLOGGED TABLE present (
        hall {{text}} NOT NULL REFERENCES halls (id) ON DELETE CASCADE,
        key {{bytes}} NOT NULL,
        presence {{text}} NOT NULL,
        PRIMARY KEY (hall, key)
    )""",
    f"""{SHARED}CREATE TABLE letters (
        number {{number}},
        hall {{text}} NOT NULL,
        at BIGINT NOT NULL,
        recipients {{bytes}} NOT NULL,
        body {{bytes}} NOT NULL
    )""",
)

_SEAMS: Final = (*_BOOKS, *_COMMON, *_HALLS)

# The HTTP API lists deals of one status, cases and conversations by time.
_LISTS: Final = (
    "DROP INDEX proposals_status",
    "CREATE INDEX proposals_status ON proposals (status, created_at, id)",
    "CREATE INDEX disputes_filed ON disputes (filed_at, id)",
    "CREATE INDEX conversations_made ON conversations (created_at, id)",
)

_SPENDING: Final = (
    """CREATE TABLE spending (
        day BIGINT NOT NULL,
        key {bytes} NOT NULL,
        tokens BIGINT NOT NULL,
        PRIMARY KEY (day, key)
    ){compact}""",
    "CREATE TABLE spending_days (day BIGINT PRIMARY KEY, tokens BIGINT NOT NULL)",
    """CREATE TABLE spending_reports (
        key {bytes} PRIMARY KEY,
        session {text} NOT NULL,
        spent BIGINT NOT NULL
    ){compact}""",
)

_PAGE_AND_WORKERS: Final = (*_LISTS, *_SPENDING)

# What PostgreSQL has for halls that share a store, for the node processes that share a file.
_NODES: Final = (
    f"""{IN_FILE}CREATE TABLE halls (
        id {{text}} PRIMARY KEY,
        seen_at BIGINT NOT NULL,
        changes BIGINT NOT NULL DEFAULT 0
    ){{compact}}""",
    f"""{IN_FILE}CREATE TABLE present (
        hall {{text}} NOT NULL REFERENCES halls (id) ON DELETE CASCADE,
        key {{bytes}} NOT NULL,
        presence {{text}} NOT NULL,
        on_mesh SMALLINT NOT NULL DEFAULT 0,
        PRIMARY KEY (hall, key)
    ){{compact}}""",
    f"""{IN_FILE}CREATE TABLE letters (
        number {{cursor}},
        hall {{text}} NOT NULL,
        at BIGINT NOT NULL,
        recipients {{bytes}} NOT NULL,
        body {{bytes}} NOT NULL
    )""",
)

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    _FIRST,
    _HOOKS,
    _COURT,
    _SIGNATURES,
    _HARDENING,
    _SEAMS,
    MESH,
    _PAGE_AND_WORKERS,
    _NODES,
)
VERSION: Final = len(MIGRATIONS)
