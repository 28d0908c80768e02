"""What hostile clients send: a row for every message type of each wire, with the dearest content that was found.

An attack is a list of frames that a connection sends again and again, as fast as the hall reads them. A test makes
sure that every message type and every keep destination has its row. Those of the mesh are in `mesh_attacks`.
"""

from collections.abc import Callable
from typing import Any, Final

from benchmarks.agents import frame, key_of, text
from benchmarks.attack import LONG, Attack, Attacker, Frames
from benchmarks.mesh_attacks import BELOW_ENVELOPES, MESH, TEXTS
from moothall.identity.certificates import revoke
from moothall.wire.agentchat import client, signing
from moothall.wire.keep.codec import encode, signing_bytes
from moothall.wire.keep.packet import Packet

CROWD: Final = "#general"  # where the honest agents talk, and all attackers are

# What makes redaction work hardest: every gate opens, and no pattern matches.
REDACTION: Final = ("sk-a eyJa.b AKIA ghp_ xoxb- password= -----BEGIN token: " * 80)[:4096]
MENTIONS: Final = "@a " * 1365
DEEP: Final = {"a": [{"b": n, "c": {"d": [n]}} for n in range(250)]}
UNKNOWN: Final = "prop_00000000_00000000"


def _same(**fields: Any) -> Frames:
    payload = text(**fields)
    return lambda attacker: [payload]


def _admin(kind: str, **fields: Any) -> "Attack":
    return Attack(kind, "agentchat", _same(type=kind, admin_key="wrong" * 100, **fields))


def _to_target(kind: str, field: str, **fields: Any) -> Frames:
    return lambda attacker: [text(type=kind, **{field: attacker.target}, **fields)]


# -- session and channels ------------------------------------------------------------------------------


def _identify(attacker: Attacker) -> list[bytes]:
    key = key_of(f"fresh-{attacker.number}")
    return [text(type="IDENTIFY", name="x", pubkey=key.public.pem)]


def _verify_identity(attacker: Attacker) -> list[bytes]:
    wrong = {"type": "VERIFY_IDENTITY", "challenge_id": "chal_0_0", "timestamp": 1}
    return [*_identify(attacker), text(**wrong, signature=attacker.sign("not this"))]


def _revocations(attacker: Attacker) -> list[bytes]:
    notices = []
    for number in range(20):
        key = key_of(f"revoked-{attacker.number}-{number}")
        notices.append(dict(revoke(key, reason="x" * 1000, now_ms=1_700_000_000_000)))
    return [text(type="REVOKE_KEY", notice=notice) for notice in notices]


def _nicks(attacker: Attacker) -> list[bytes]:
    return [text(type="SET_NICK", nick=f"n{number}") for number in range(8)]


def _presences(attacker: Attacker) -> list[bytes]:
    states = ("away", "busy", "online", "listening")
    return [text(type="SET_PRESENCE", status=state, status_text="x" * 100) for state in states]


def _in_and_out(attacker: Attacker) -> list[bytes]:
    return [text(type="LEAVE", channel=CROWD), text(type="JOIN", channel=CROWD)]


def _channels(attacker: Attacker) -> list[bytes]:
    """Ten channels each, which is what the rate allows."""
    names = (f"#room-{attacker.number}-{number}-{'x' * 15}"[:32] for number in range(10))
    return [text(type="CREATE_CHANNEL", channel=name) for name in names]


def _messages(attacker: Attacker) -> list[bytes]:
    return [text(type="MSG", to=CROWD, content=content) for content in (REDACTION, MENTIONS, LONG)]


def _receipts(attacker: Attacker) -> list[bytes]:
    """Messages that ask for receipts from all, and receipts of messages that the hall has to look for."""
    asking = {"type": "MSG", "content": "x", "receipt": True}
    said = [
        text(type="RECEIPT", msg_id="1760000000000-abcdef", status=status, reason="x" * 200)
        for status in ("SEEN", "CLAIMED", "DONE", "FAILED")
    ]
    return [text(to=CROWD, **asking), text(to=attacker.target, **asking), *said * 10]


def _claims(attacker: Attacker) -> list[bytes]:
    return [
        text(type="RESPONDING_TO", msg_id=f"{number}-abcdef", channel=CROWD, started_at=1)
        for number in range(60)
    ]


def _releases(attacker: Attacker) -> list[bytes]:
    """Each of them is told to the members, because a claim goes before it."""
    return [
        text(type=kind, msg_id=f"{number}-abcdef", channel=CROWD, **more)
        for number in range(30)
        for kind, more in (("RESPONDING_TO", {"started_at": 1}), ("RELEASE", {}))
    ]


def _chunks(attacker: Attacker) -> list[bytes]:
    return [text(type="FILE_CHUNK", to=attacker.target, content="x" * 250_000)]


# -- market --------------------------------------------------------------------------------------------


def _proposals(attacker: Attacker) -> list[bytes]:
    offer = client.Proposal(to=attacker.target, task=LONG, terms=DEEP, sig="unsigned")
    signature = attacker.sign(signing.proposal_text(offer))
    return [text(type="PROPOSAL", to=offer.to, task=offer.task, terms=DEEP, sig=signature)]


def _step(kind: Any, sign: Callable[[Any], str], **fields: Any) -> Frames:
    """A signed step about a deal or case that does not exist: the signature is checked, or the row looked up."""

    def frames(attacker: Attacker) -> list[bytes]:
        message = kind(**fields, sig="unsigned")
        name = str(kind.__struct_config__.tag)
        return [text(type=name, **fields, sig=attacker.sign(sign(message)))]

    return frames


def _skills(attacker: Attacker) -> list[bytes]:
    skills = [{"capability": f"skill-{attacker.number}-{number}", "note": "x" * 100} for number in range(90)]
    message = client.RegisterSkills(skills=skills, sig="unsigned")
    signature = attacker.sign(signing.skills_text(message))
    return [text(type="REGISTER_SKILLS", skills=skills, sig=signature)]


def _evidence(attacker: Attacker) -> list[bytes]:
    """Many keys at the top, many objects below: what made its hash dear."""
    item = {f"k{number}": 1 for number in range(2000)} | {"n": [{"k1": 1} for _ in range(5000)]}
    message = client.Evidence(dispute_id="disp_0_0", items=[item], statement=LONG[:2000], sig="unsigned")
    signature = attacker.sign(signing.evidence_text(message))
    fields = {"dispute_id": message.dispute_id, "items": [item], "statement": message.statement}
    return [text(type="EVIDENCE", **fields, sig=signature)]


# -- frames that are no messages -----------------------------------------------------------------------


def _fragments(attacker: Attacker) -> list[bytes]:
    """A message of many empty fragments, and its end."""
    return [frame(b"", 0x02), *[frame(b"", 0x00)] * 1000, frame(b"", 0x80)]


AGENTCHAT: Final = (
    Attack("IDENTIFY", "agentchat", _identify, reconnects=True),
    Attack("VERIFY_IDENTITY", "agentchat", _verify_identity, reconnects=True),
    Attack("CAPTCHA_RESPONSE", "agentchat", _same(type="CAPTCHA_RESPONSE", captcha_id="c", answer=LONG)),
    Attack("PING", "agentchat", _same(type="PING", ref="x" * 256)),
    Attack("REVOKE_KEY", "agentchat", _revocations),
    Attack("API_TOKEN", "agentchat", _same(type="API_TOKEN"), verified=True),
    Attack("SET_NICK", "agentchat", _nicks),
    Attack("SET_PRESENCE", "agentchat", _presences),
    Attack("JOIN", "agentchat", _in_and_out),
    Attack("LEAVE", "agentchat", lambda attacker: list(reversed(_in_and_out(attacker)))),
    Attack("LIST_CHANNELS", "agentchat", _same(type="LIST_CHANNELS"), prepare=_channels),
    Attack("LIST_AGENTS", "agentchat", _same(type="LIST_AGENTS", channel=CROWD)),
    Attack("CREATE_CHANNEL", "agentchat", _channels),
    Attack("INVITE", "agentchat", _to_target("INVITE", "agent", channel=CROWD)),
    Attack("MSG", "agentchat", _messages),
    Attack("RECEIPT", "agentchat", _receipts),
    Attack("FILE_CHUNK", "agentchat", _chunks),
    Attack("TYPING", "agentchat", _same(type="TYPING", channel=CROWD)),
    Attack("RESPONDING_TO", "agentchat", _claims),
    Attack("RELEASE", "agentchat", _releases),
    Attack("VERIFY_REQUEST", "agentchat", _to_target("VERIFY_REQUEST", "target", nonce="0" * 32)),
    Attack(
        "VERIFY_RESPONSE",
        "agentchat",
        _same(type="VERIFY_RESPONSE", request_id="r", nonce="n", sig="s" * 88),
        verified=True,
    ),
    Attack("PROPOSAL", "agentchat", _proposals, verified=True),
    Attack(
        "ACCEPT",
        "agentchat",
        _step(client.Accept, signing.accept_text, proposal_id=UNKNOWN, payment_code="x" * 200),
        verified=True,
    ),
    Attack(
        "REJECT",
        "agentchat",
        _step(client.Reject, signing.reject_text, proposal_id=UNKNOWN, reason=LONG),
        verified=True,
    ),
    Attack(
        "COMPLETE",
        "agentchat",
        _step(client.Complete, signing.complete_text, proposal_id=UNKNOWN, proof=LONG),
        verified=True,
    ),
    Attack(
        "DISPUTE",
        "agentchat",
        _step(client.Dispute, signing.dispute_text, proposal_id=UNKNOWN, reason=LONG),
        verified=True,
    ),
    Attack("REGISTER_SKILLS", "agentchat", _skills, verified=True),
    Attack(
        "SEARCH_SKILLS",
        "agentchat",
        _same(type="SEARCH_SKILLS", query={"capability": "s", "limit": 200}),
        verified=True,
        prepare=_skills,
    ),
    Attack(
        "LIST_PROPOSALS",
        "agentchat",
        _same(type="LIST_PROPOSALS", limit=1000),
        verified=True,
        prepare=lambda attacker: _proposals(attacker) * 20,
    ),
    Attack("LIST_RECEIPTS", "agentchat", _same(type="LIST_RECEIPTS", limit=1000), verified=True),
    Attack("GET_RATING", "agentchat", _same(type="GET_RATING", limit=1000), verified=True),
    Attack("GET_LEADERBOARD", "agentchat", _same(type="GET_LEADERBOARD", limit=1000)),
    Attack(
        "DISPUTE_INTENT",
        "agentchat",
        _step(
            client.DisputeIntent,
            signing.dispute_intent_text,
            proposal_id=UNKNOWN,
            reason=LONG,
            commitment="0" * 64,
        ),
        verified=True,
    ),
    Attack(
        "DISPUTE_REVEAL",
        "agentchat",
        _step(client.DisputeReveal, signing.dispute_reveal_text, proposal_id=UNKNOWN, nonce="x" * 1000),
        verified=True,
    ),
    Attack("EVIDENCE", "agentchat", _evidence, verified=True),
    Attack(
        "ARBITER_ACCEPT",
        "agentchat",
        _step(client.ArbiterAccept, signing.arbiter_accept_text, dispute_id="disp_0_0"),
        verified=True,
    ),
    Attack(
        "ARBITER_DECLINE",
        "agentchat",
        _step(client.ArbiterDecline, signing.arbiter_decline_text, dispute_id="disp_0_0", reason="x" * 400),
        verified=True,
    ),
    Attack(
        "ARBITER_VOTE",
        "agentchat",
        _step(
            client.ArbiterVote,
            signing.vote_text,
            dispute_id="disp_0_0",
            verdict="mutual",
            reasoning="x" * 500,
        ),
        verified=True,
    ),
    Attack("LIST_CASES", "agentchat", _same(type="LIST_CASES", limit=1000), verified=True),
    Attack("GET_CASE", "agentchat", _same(type="GET_CASE", proposal_id=UNKNOWN), verified=True),
    _admin("ADMIN_APPROVE", pubkey=LONG),
    _admin("ADMIN_REVOKE", agent_id="x"),
    _admin("ADMIN_LIST"),
    _admin("ADMIN_KICK", agent_id="x"),
    _admin("ADMIN_BAN", agent_id="x"),
    _admin("ADMIN_UNBAN", agent_id="x"),
    _admin("ADMIN_BANS"),
    _admin("ADMIN_BUDGET", day="2026-03-01"),
    _admin("ADMIN_SET_BUDGET", agent="x", tokens=1),
    _admin("ADMIN_MOTD", motd="x"),
    _admin("ADMIN_VERIFY", agent_id="x", verified=True),
)

# Frames that are not messages, and connections that send none.
BELOW_MESSAGES: Final = (
    Attack("(ping frames)", "agentchat", lambda attacker: [frame(b"x" * 125, 0x89)]),
    Attack("(pong frames)", "agentchat", lambda attacker: [frame(b"", 0x8A)]),
    Attack("(empty fragments)", "agentchat", _fragments),
    Attack("(junk)", "agentchat", lambda attacker: [frame(b"x")]),
    Attack("(junk of 250 KB)", "agentchat", lambda attacker: [frame(b'{"type":' + b"[" * 250_000)]),
    Attack("(unknown types)", "agentchat", _same(type="NONSENSE", content=LONG)),
    Attack("(connections)", "agentchat", lambda attacker: [], reconnects=True),
)


# -- keep ----------------------------------------------------------------------------------------------


def _packets(
    dst: str, body: str = "x" * 1000, *, count: int = 50, names: int = 1, valid: bool = True
) -> Frames:
    """Signed packets to one destination. With several names, each packet is from another identity."""

    def frames(attacker: Attacker) -> list[bytes]:
        packets = []
        for number in range(count):
            packet = Packet(
                id=f"{attacker.number}-{number}",
                src=f"bot:attacker-{attacker.number}-{number % names}",
                dst=dst.format(target=attacker.target.removeprefix("@"), number=attacker.number),
                body=body,
                pk=attacker.key.public.raw,
            )
            packet.sig = attacker.key.sign_bytes(signing_bytes(packet)) if valid else b"x" * 64
            payload = encode(packet)
            packets.append(len(payload).to_bytes(4, "big") + payload)
        return packets

    return frames


def _keep(name: str, dst: str, **how: Any) -> Attack:
    return Attack(name, "keep", _packets(dst, **how))


KEEP: Final = (
    _keep("server", "server"),
    _keep("", ""),
    _keep("discover:info", "discover:info"),
    _keep("discover:agents", "discover:agents"),
    _keep("discover:stats", "discover:stats"),
    _keep("discover:scars", "discover:scars"),
    _keep("discover:hall", "discover:hall"),
    _keep("agent:", "agent:{target}"),
    _keep("#", CROWD),
    _keep("nearest:", "nearest:x"),
    _keep("swarm:", "swarm:general"),
)
BELOW_PACKETS: Final = (
    _keep("(to an agent)", "bot:attacker-{number}-0"),
    _keep("(to nobody)", "bot:nobody"),
    _keep("(many identities)", "server", names=1000, count=1000),
    _keep("(bad signatures)", "server", valid=False),
    Attack("(malformed)", "keep", lambda attacker: [b"\x00\x00\x00\x04\xff\xff\xff\xff"]),
    Attack("(comes and goes)", "keep", _packets("server", names=500, count=500), reconnects=True),
)

ATTACKS: Final = (
    *AGENTCHAT,
    *BELOW_MESSAGES,
    *KEEP,
    *BELOW_PACKETS,
    *MESH,
    *TEXTS,
    *BELOW_ENVELOPES,
)
