"""Nonces never go back: not after a crash, not with the clock, and not beside another program with the same key."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import UsageError
from moothall.mesh.nonces import RESERVED, Nonces
from moothall.wire.mesh.cbor import UINT64_MAX

NOON = 1_800_000_000_000_000


class Clock:
    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


async def test_they_follow_the_clock_and_grow_while_it_stands() -> None:
    clock = Clock()
    nonces = Nonces(None, clock)
    assert [await nonces.next(), await nonces.next()] == [NOON, NOON + 1]
    clock.now += 1000
    assert await nonces.next() == NOON + 1000
    clock.now -= 5000
    assert await nonces.next() == NOON + 1001


async def test_a_number_is_on_disk_before_a_nonce_up_to_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "key.nonce"
    nonces = Nonces(path, Clock())
    first = await nonces.next()
    assert int(path.read_text()) >= first
    assert path.stat().st_mode & 0o777 == 0o600


async def test_one_write_reserves_a_second(tmp_path: Path) -> None:
    path = tmp_path / "key.nonce"
    clock = Clock()
    nonces = Nonces(path, clock)
    await nonces.next()
    stored = path.read_text()
    clock.now += RESERVED // 2
    await nonces.next()
    assert path.read_text() == stored
    clock.now += RESERVED
    assert await nonces.next() <= int(path.read_text())
    assert path.read_text() != stored


async def test_after_a_crash_they_go_on_above_though_the_clock_went_back(tmp_path: Path) -> None:
    path = tmp_path / "key.nonce"
    nonces = Nonces(path, Clock())
    used = [await nonces.next() for _ in range(5)]
    again = Nonces(path, Clock(NOON - 10**12))
    assert await again.next() > max(used)


async def test_two_programs_never_use_the_same_one(tmp_path: Path) -> None:
    path = tmp_path / "key.nonce"
    clock = Clock()
    one, two = Nonces(path, clock), Nonces(path, clock)
    used = [await each.next() for _ in range(10) for each in (one, two)]
    assert len(set(used)) == len(used)


async def test_the_lower_one_overtakes(tmp_path: Path) -> None:
    path = tmp_path / "key.nonce"
    clock = Clock()
    one, two = Nonces(path, clock), Nonces(path, clock)
    await one.next()
    higher = await two.next()
    assert await one.next() < higher
    one.overtake()
    assert await one.next() > higher


async def test_those_who_ask_at_once_get_different_ones(tmp_path: Path) -> None:
    nonces = Nonces(tmp_path / "key.nonce", Clock())
    used = await asyncio.gather(*(nonces.next() for _ in range(50)))
    assert len(set(used)) == 50


@pytest.mark.parametrize("content", ["", "-1", "many", "9" * 30, "1 2"])
async def test_a_damaged_file_is_not_guessed_at(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key.nonce"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(UsageError, match=r"key\.nonce is not a file of nonces"):
        await Nonces(path, Clock()).next()


async def test_a_folder_that_is_not_there_is_made_and_one_that_cannot_be_is_told(tmp_path: Path) -> None:
    assert await Nonces(tmp_path / "new" / "key.nonce", Clock()).next() == NOON
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="must be kept"):
        await Nonces(tmp_path / "file" / "key.nonce", Clock()).next()


async def test_when_all_are_used_a_new_key_is_needed() -> None:
    nonces = Nonces(None, Clock(UINT64_MAX))
    assert await nonces.next() == UINT64_MAX
    with pytest.raises(UsageError, match="make a new key"):
        await nonces.next()


@given(st.lists(st.one_of(st.integers(-(10**7), 10**7), st.just("restart"), st.just("overtake"))))
def test_whatever_happens_they_only_grow(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | str]
) -> None:
    async def story() -> None:
        path = tmp_path_factory.mktemp("nonces") / "key.nonce"
        clock = Clock()
        nonces = Nonces(path, clock)
        last = 0
        for step in steps:
            if step == "restart":
                nonces = Nonces(path, clock)
            elif step == "overtake":
                nonces.overtake()
            else:
                assert isinstance(step, int)
                clock.now += step
            nonce = await nonces.next()
            assert nonce > last
            last = nonce

    asyncio.run(story())
