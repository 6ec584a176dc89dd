# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""HashedBlockPool at the boundary: types, errors, and that nothing changes on an error."""

import threading
from collections.abc import Callable

import numpy as np
import pytest

from servecore import HashedBlockPool


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def state(pool: HashedBlockPool) -> tuple[object, ...]:
    keys = [pool.keys_of(block) for block in range(pool.num_blocks)]
    return pool.stats(), pool.free_blocks().tolist(), keys


def pool_in_use() -> HashedBlockPool:
    """Blocks 0, 1 and 2 of five are in use, and block 0 has the key b"a"."""
    pool = HashedBlockPool(5)
    pool.allocate_array(3)
    pool.insert(ids(0), [b"a"])
    return pool


def test_a_block_goes_its_way() -> None:
    pool = HashedBlockPool(3)
    blocks = pool.allocate_array(2)
    assert blocks is not None
    assert blocks.dtype == np.int32
    assert blocks.tolist() == [0, 1]
    duplicate = pool.insert(blocks, [b"a", b"a"])
    assert duplicate.dtype == np.bool_
    assert duplicate.tolist() == [False, True]
    pool.free_array(blocks[::-1])
    assert pool.free_blocks().tolist() == [2, 1, 0]
    assert pool.find([b"a", b"b"]).tolist() == [0]
    assert pool.find_one(b"a") == 0
    assert pool.find_one(b"b") is None
    pool.touch_array(ids(0))
    assert pool.ref_count(0) == 1
    got = pool.allocate_removing(2)
    assert got is not None
    assert got[0].tolist() == [2, 1]
    assert got[1] == [(1, b"a")]
    assert pool.allocate_array(1) is None
    assert pool.allocate_removing(1) is None
    assert repr(pool) == "<HashedBlockPool free=0>"
    assert (pool.num_free, pool.num_blocks) == (0, 3)
    pool.check()


def test_the_queue() -> None:
    pool = pool_in_use()
    pool.free_array(ids(2, 0), last=True)
    assert pool.free_blocks().tolist() == [3, 4, 2, 0]
    assert pool.free_neighbors(4) == (3, 2)
    assert pool.free_neighbors(0) == (2, -1)
    assert pool.free_neighbors(-1) == (0, 3)


def test_keys() -> None:
    pool = pool_in_use()
    assert pool.add_key(0, b"\0") is False
    assert pool.add_key(1, b"a") is True
    assert pool.keys_of(0) == [b"a", b"\0"]
    assert pool.has(0, b"\0")
    assert not pool.has(1, b"\0")
    assert pool.remove_keys([0, 2]) == [(0, b"a"), (0, b"\0")]
    pool.reset(3)
    assert pool.stats() == {
        "num_blocks": 5,
        "num_free": 2,
        "total_refs": 3,
        "num_keyed": 0,
        "num_keys": 0,
        "allocated_blocks": 3,
        "freed_blocks": 0,
        "removed_keys": 3,
    }


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (RuntimeError, lambda pool: pool.free_array(ids(0, 1, 0))),
        (RuntimeError, lambda pool: pool.free_array(ids(0, 4))),
        (IndexError, lambda pool: pool.free_array(ids(0, 5))),
        (IndexError, lambda pool: pool.touch_array(ids(4, -1))),
        (IndexError, lambda pool: pool.touch_array(np.array([3, 2**40]))),
        (TypeError, lambda pool: pool.touch_array(np.array([1.0]))),
        (ValueError, lambda pool: pool.touch_array(np.zeros((1, 1), np.int32))),
        (ValueError, lambda pool: pool.allocate_array(-1)),
        (ValueError, lambda pool: pool.allocate_removing(2**70)),
        (TypeError, lambda pool: pool.allocate_array(True)),
        (RuntimeError, lambda pool: pool.insert([1, 0], [b"b", b"c"])),
        (RuntimeError, lambda pool: pool.insert([1, 1], [b"b", b"c"])),
        (IndexError, lambda pool: pool.insert([1, 2**70], [b"b", b"c"])),
        (ValueError, lambda pool: pool.insert([1, 2], [b"b"])),
        (ValueError, lambda pool: pool.insert([1, 2], [b"b", b"x" * 57])),
        (TypeError, lambda pool: pool.insert([1, 2], [b"b", "c"])),
        (TypeError, lambda pool: pool.find([1])),
        (ValueError, lambda pool: pool.add_key(1, b"")),
        (RuntimeError, lambda pool: pool.add_key(0, b"a")),
        (TypeError, lambda pool: pool.add_key(1, "b")),
        (TypeError, lambda pool: pool.find_one("a")),
        (TypeError, lambda pool: pool.free_array(ids(0), True)),
        (RuntimeError, lambda pool: pool.free_array(ids(0, 4), last=True)),
        (RuntimeError, lambda pool: pool.free_neighbors(0)),
        (IndexError, lambda pool: pool.free_neighbors(5)),
        (IndexError, lambda pool: pool.free_neighbors(-2)),
        (IndexError, lambda pool: pool.has(5, b"a")),
        (IndexError, lambda pool: pool.keys_of(-1)),
        (IndexError, lambda pool: pool.ref_count(5)),
        (IndexError, lambda pool: pool.remove_keys([0, 5])),
        (RuntimeError, lambda pool: pool.reset(2)),
        (ValueError, lambda pool: pool.reset(-1)),
    ],
)
def test_misuse_changes_nothing(
    error: type[Exception], call: Callable[[HashedBlockPool], object]
) -> None:
    pool = pool_in_use()
    before = state(pool)
    with pytest.raises(error):
        call(pool)
    assert state(pool) == before
    pool.check()


def test_threads_share_it() -> None:
    pool = HashedBlockPool(64)
    errors: list[Exception] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for _ in range(500):
                blocks = pool.allocate_array(int(random.integers(1, 9)))
                if blocks is None:
                    continue
                pool.insert(blocks, [random.bytes(1) for _ in blocks])
                pool.find([random.bytes(1) for _ in range(4)])
                pool.free_array(blocks)
        except Exception as error:  # shown by the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    pool.check()
    assert pool.num_free == 64
