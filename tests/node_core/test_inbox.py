"""The inbox of an agent, and its failed deliveries, page by page."""

import time
from pathlib import Path

from moothall.market.node_books import Letter
from moothall.node.desk import Books
from moothall.node.inbox import read_failures, read_inbox
from moothall.node.units import done
from moothall.wire.mesh.envelope import NO_CONVERSATION
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import ALICE
from tests.support.envelopes import sent
from tests.support.nodes import TALK, life, options

AGENT, OTHER = b"a" * 32, b"b" * 32


async def test_pages_and_cursors(tmp_path: Path) -> None:
    began = int(time.time() * 1000)
    made = [sent(ALICE, MsgType.ADVERTISE, bytes((number,))) for number in range(5)]
    async with life(options(tmp_path, "alice", address=None)) as alice:
        store = alice.node._store

        def fill(books: Books) -> None:
            for number, (envelope, raw) in enumerate(made):
                known = keccak256(raw)
                books.log(envelope, raw, began + number, belongs=False, envelope_hash=known)
                note = "early" if number == 3 else None
                books.put_arrived(OTHER if number == 1 else AGENT, known, began + number, note)

        await done(store, fill)
        first = await read_inbox(store, AGENT, -5, 2)
        rest = await read_inbox(store, AGENT, first[-1].cursor, 10**9)
        assert [each.at for each in (*first, *rest)] == [began + number for number in (0, 2, 3, 4)]
        assert [each.out_of_order for each in rest] == ["early", None]
        assert rest[-1].slot == (began + 4) // 1000
        assert await read_inbox(store, AGENT, rest[-1].cursor, 10) == []
        assert len(await read_inbox(store, AGENT, 0, 0)) == 1  # a page has one at least


async def test_failures(tmp_path: Path) -> None:
    letter = Letter(0, AGENT, OTHER, MsgType.PROPOSE, TALK, True, 5, b"x")
    async with life(options(tmp_path, "alice", address=None)) as alice:
        store = alice.node._store

        def fill(books: Books) -> list[int]:
            return [books.put_failure(letter, 2**63 + each, "no ACK", 7) for each in range(3)]

        numbers = await done(store, fill)
        (first,) = await read_failures(store, 0, 1)
        assert (first.number, first.msg_type, first.nonce) == (numbers[0], MsgType.PROPOSE, 2**63)
        assert first.conversation_id != NO_CONVERSATION
        rest = await read_failures(store, first.number, 100)
        assert [each.number for each in rest] == numbers[1:]
