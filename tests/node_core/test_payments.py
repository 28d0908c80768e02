"""Payments on the node's own ledger."""

from pathlib import Path

import pytest

from moothall.errors import NodeRefused
from moothall.market.credit_books import deposit
from moothall.market.ledger import agent_account
from moothall.node.units import done
from tests.support.nodes import AMOUNT, TALK, Life, deal, do, two, until


async def credit(alive: Life, amount: int) -> None:
    await done(
        alive.node._store,  # as `moothall ledger deposit` does
        lambda books: deposit(books, alive.id, amount, "first", now=1),
    )


async def balances(alive: Life, *keys: bytes) -> list[int]:
    return await done(
        alive.node._store,
        lambda books: [books.balance(agent_account(key)) for key in keys],
    )


async def test_credits_are_put_aside_after_the_accept_and_paid_with_the_approval(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        lives, steps = {"alice": alice, "bob": bob}, deal(alice.id, bob.id)
        for step in steps[:3]:
            await do(step, lives)  # without credits: the deal goes on
        await credit(alice, AMOUNT)
        await alice.node.escrow_lock(bob.id, TALK, AMOUNT, timeout_slots=1000)
        await alice.node.escrow_lock(bob.id, TALK, AMOUNT)  # a repeated order changes nothing
        assert await balances(alice, alice.id, bob.id) == [0, 0]
        escrow = await done(alice.node._store, lambda books: books.escrow(TALK))
        assert escrow is not None
        assert (escrow.timeout, escrow.notary_fee) == (400_000, 0)
        with pytest.raises(NodeRefused, match="Unauthorized: The conversation is COMMITTED"):
            await alice.node.escrow_approve(alice.id, bob.id, TALK)
        await do(steps[3], lives)
        await alice.node.escrow_approve(alice.id, bob.id, TALK)
        await alice.node.escrow_approve(alice.id, bob.id, TALK)
        await until(lambda: bob.types[-1] == "VERDICT")
        assert await balances(alice, alice.id, bob.id) == [0, AMOUNT - AMOUNT // 200]
        with pytest.raises(NodeRefused, match="AlreadySettled"):
            await alice.node.escrow_lock(bob.id, TALK, AMOUNT)
        for step in steps[5:]:
            await do(step, lives)


async def test_credits_that_are_there_are_put_aside_with_the_accept(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        await credit(alice, AMOUNT + 5)
        for step in deal(alice.id, bob.id):
            await do(step, {"alice": alice, "bob": bob})
        assert await balances(alice, alice.id, bob.id) == [5, AMOUNT - AMOUNT // 200]
        assert await balances(bob, alice.id, bob.id) == [0, 0]  # a ledger is the node's own


async def test_what_the_rules_do_not_allow(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        steps = deal(alice.id, bob.id)
        await do(steps[0], {"alice": alice, "bob": bob})
        with pytest.raises(NodeRefused, match="Unauthorized: The conversation is NEGOTIATING"):
            await alice.node.escrow_lock(bob.id, TALK, AMOUNT)
        for step in steps[1:3]:
            await do(step, {"alice": alice, "bob": bob})
        for match, amount, others in (
            ("ZeroAmount", 0, {}),
            ("The parties agreed on", AMOUNT - 1, {}),
            ("NoCover", AMOUNT, {}),
            ("NotaryFeeWithoutNotary", AMOUNT, {"notary_fee": 1}),
            ("Unauthorized: This agent is not the notary", AMOUNT, {"notary": b"n" * 32}),
            ("timeout", AMOUNT, {"timeout_slots": -1}),
            ("timeout", AMOUNT, {"timeout_slots": 2**60}),
        ):
            with pytest.raises(NodeRefused, match=match) as refused:
                await alice.node.escrow_lock(bob.id, TALK, amount, **others)
            assert refused.value.status == 400
        with pytest.raises(NodeRefused, match="Unauthorized: There is no conversation"):
            await alice.node.escrow_lock(alice.id, TALK, AMOUNT)
        with pytest.raises(NodeRefused, match="Unauthorized"):
            await bob.node.escrow_lock(alice.id, TALK, AMOUNT)  # the provider does not pay
        with pytest.raises(NodeRefused, match="Nothing is put aside"):
            await alice.node.escrow_approve(alice.id, bob.id, TALK)
