"""The tables of the mesh: conversations, credits, the log and its epochs, and what a node keeps (see `schema`)."""

from typing import Final

from moothall.store.migration_steps import APPENDED, SHARED

_APPEND_ONLY: Final = ("authorisations", "mesh_log", "mesh_epochs")

# A PROPOSE may name any 32 bytes as its recipient. Ids are looked up in `keys`, so a party is there only after it
# has signed something.
# Nonces have 64 bits without a sign, which no number of both engines holds: they are text. `hash` is that of the
# envelope, which authorisations name, and `leaf` the one that a proof begins with. An epoch that has ended gets no
# more envelopes: where several halls write at once a trigger moves them, and the hall that ends it locks the table.
MESH: Final = (
    """CREATE TABLE conversations (
        id {bytes} PRIMARY KEY,
        requester {bytes} NOT NULL,
        provider {bytes} NOT NULL,
        notary {bytes},
        proposer {bytes} NOT NULL,
        state {text} NOT NULL,
        is_open SMALLINT NOT NULL,
        deadline BIGINT,
        completed_at BIGINT,
        created_at BIGINT NOT NULL,
        version BIGINT NOT NULL,
        record {bytes} NOT NULL
    )""",
    "CREATE INDEX conversations_requester ON conversations (requester, is_open, created_at)",
    "CREATE INDEX conversations_provider ON conversations (provider, is_open, created_at)",
    "CREATE INDEX conversations_notary ON conversations (notary, is_open, created_at) WHERE notary IS NOT NULL",
    "CREATE INDEX conversations_proposer ON conversations (proposer, created_at) WHERE is_open = 1",
    """CREATE INDEX conversations_completed ON conversations (requester, provider, completed_at)
        WHERE completed_at IS NOT NULL""",
    "CREATE INDEX conversations_due ON conversations (deadline) WHERE is_open = 1 AND deadline IS NOT NULL",
    "CREATE INDEX conversations_state ON conversations (state)",
    """CREATE TABLE notary_bids (
        conversation_id {bytes} NOT NULL,
        agent {bytes} NOT NULL,
        at BIGINT NOT NULL,
        PRIMARY KEY (conversation_id, agent)
    ){compact}""",
    """CREATE TABLE escrows (
        conversation_id {bytes} PRIMARY KEY REFERENCES conversations (id),
        is_open SMALLINT NOT NULL,
        version BIGINT NOT NULL,
        record {bytes} NOT NULL
    )""",
    """CREATE TABLE balances (
        account {text} PRIMARY KEY,
        amount BIGINT NOT NULL,
        is_guarded SMALLINT NOT NULL DEFAULT 0
    ){compact}""",
    "CREATE INDEX postings_credits ON postings (at, deal, operation) WHERE book = 'credits'",
    "CREATE INDEX postings_account ON postings (account, at, deal, operation) WHERE book = 'credits'",
    """CREATE TABLE authorisations (
        deal {text} NOT NULL,
        operation {text} NOT NULL,
        envelope {bytes} NOT NULL,
        sender {bytes} NOT NULL,
        nonce {text} NOT NULL,
        PRIMARY KEY (deal, operation)
    ){compact}""",
    """CREATE TABLE mesh_log (
        number {number},
        epoch BIGINT NOT NULL,
        hash {bytes} NOT NULL UNIQUE,
        leaf {bytes} NOT NULL,
        sender {bytes} NOT NULL,
        msg_type SMALLINT NOT NULL,
        conversation_id {bytes},
        at BIGINT NOT NULL,
        envelope {bytes} NOT NULL
    )""",
    "CREATE INDEX mesh_log_epoch ON mesh_log (epoch, number)",
    "CREATE INDEX mesh_log_conversation ON mesh_log (conversation_id, number) WHERE conversation_id IS NOT NULL",
    """CREATE TABLE mesh_epochs (
        epoch BIGINT PRIMARY KEY,
        envelopes BIGINT NOT NULL,
        root {bytes} NOT NULL,
        record {bytes} NOT NULL
    )""",
    """CREATE TABLE mesh_inbox (
        number {cursor},
        recipient {bytes} NOT NULL,
        sender {bytes} NOT NULL,
        at BIGINT NOT NULL,
        size BIGINT NOT NULL,
        lost BIGINT NOT NULL,
        envelope {bytes} NOT NULL
    )""",
    "CREATE INDEX mesh_inbox_recipient ON mesh_inbox (recipient, number)",
    "CREATE INDEX mesh_inbox_at ON mesh_inbox (at)",
    """CREATE TABLE node_inbox (
        number {cursor},
        recipient {bytes} NOT NULL,
        at BIGINT NOT NULL,
        hash {bytes} NOT NULL REFERENCES mesh_log (hash),
        note {text}
    )""",
    "CREATE INDEX node_inbox_recipient ON node_inbox (recipient, number)",
    "CREATE INDEX node_inbox_at ON node_inbox (at)",
    """CREATE TABLE node_outbox (
        number {cursor},
        sender {bytes} NOT NULL,
        recipient {bytes} NOT NULL,
        msg_type SMALLINT NOT NULL,
        conversation_id {bytes} NOT NULL,
        is_logged SMALLINT NOT NULL,
        at BIGINT NOT NULL,
        payload {bytes} NOT NULL
    )""",
    """CREATE TABLE node_failures (
        number {cursor},
        sender {bytes} NOT NULL,
        recipient {bytes} NOT NULL,
        msg_type SMALLINT NOT NULL,
        conversation_id {bytes} NOT NULL,
        nonce {text} NOT NULL,
        reason {text} NOT NULL,
        at BIGINT NOT NULL,
        payload {bytes} NOT NULL
    )""",
    "CREATE INDEX node_failures_conversation ON node_failures (conversation_id)",
    """CREATE TABLE node_hosted (
        agent {bytes} PRIMARY KEY,
        token {bytes} NOT NULL UNIQUE,
        secret {bytes} NOT NULL,
        ends_at BIGINT NOT NULL
    )""",
    """CREATE TABLE node_tasks (
        number {cursor},
        at BIGINT NOT NULL,
        shared SMALLINT NOT NULL,
        fields {bytes} NOT NULL
    )""",
    f"{SHARED}ALTER TABLE present ADD COLUMN on_mesh BOOLEAN NOT NULL DEFAULT FALSE",
    f"{SHARED}ALTER TABLE halls ADD COLUMN changes BIGINT NOT NULL DEFAULT 0",
    f"""{SHARED}CREATE FUNCTION mesh_log_open_epoch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        NEW.epoch := greatest(NEW.epoch, (SELECT max(epoch) + 1 FROM mesh_epochs));
        RETURN NEW;
    END $$""",  # noqa: S608  # our own names
    f"""{SHARED}CREATE TRIGGER mesh_log_open_epoch BEFORE INSERT ON mesh_log
        FOR EACH ROW EXECUTE FUNCTION mesh_log_open_epoch()""",
    *(f"{APPENDED}{table}" for table in _APPEND_ONLY),
)
