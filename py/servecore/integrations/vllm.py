# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""vLLM's block pool on `servecore.HashedBlockPool`: a drop-in for vLLM 0.33.

Before the engine is made::

    from servecore.integrations import vllm
    vllm.install()

From then on vLLM's KVCacheManager builds its pools of `block_pool_class()`: a subclass of vLLM's
own BlockPool, whose counts, queue of free blocks and table of hashes are native. vLLM's code still
builds the events and decides what is cached; tokens are hashed by vLLM.

What differs:

- Freeing a block once too often is a RuntimeError that names it, at that call; vLLM's counts fall
  below zero without a word.
- A block is an `int` with the attributes of a KVCacheBlock, and no KVCacheBlock: what it has is
  looked up in the pool. Only blocks of the pool can be given to it.
- The queue and the tables of hashes are views of what is native (`free_block_queue`,
  `cached_block_hash_to_block`, `cached_block_hashes_by_block`).

vLLM is imported when one of these functions is called, and never by servecore itself.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from servecore import HashedBlockPool

__all__ = ["block_pool_class", "install", "uninstall"]

_NULL = 0
"""The id of the null block: the first that a fresh pool gives."""


def install() -> None:
    """Has vLLM make its block pools of `block_pool_class()`.

    Pools that exist stay as they are. A second call does nothing.

    Raises:
        ImportError: vLLM is not installed.
    """
    _replace(block_pool_class())


def uninstall() -> None:
    """Undoes `install`; pools that exist stay as they are.

    Raises:
        ImportError: vLLM is not installed.
    """
    _replace(block_pool_class().__base__)


def _replace(pool_class: type | None) -> None:
    # Where it is defined, and where it is called.
    for name in ("block_pool", "kv_cache_coordinator"):
        _vllm(f"v1.core.{name}").BlockPool = pool_class


def _vllm(name: str) -> Any:
    return importlib.import_module(f"vllm.{name}")


class Block(int):
    """A block of a pool: its id, with the attributes that vLLM's KVCacheBlock has.

    Each pool has a subclass, which knows the pool.
    """

    __slots__ = ()
    pool: Any

    def __bool__(self) -> bool:
        """True, as of any object, although the first id is 0."""
        return True

    @property
    def block_id(self) -> int:
        """The id."""
        return int(self)

    @property
    def is_null(self) -> bool:
        """Whether it stands for no block."""
        return self == _NULL

    @property
    def ref_cnt(self) -> int:
        """References; those of the null block are not counted."""
        return 0 if self == _NULL else self.pool._native.ref_count(self)

    @ref_cnt.setter
    def ref_cnt(self, value: int) -> None:
        change = value - self.ref_cnt
        ids = np.full(abs(change), self, np.int32)
        if change > 0:
            self.pool._native.touch_array(ids)
        else:
            self.pool._native.free_array(ids)

    @property
    def block_hash(self) -> bytes | None:
        """The hash that it was cached under first, with its group."""
        keys = self.pool._native.keys_of(self)
        return keys[0] if keys else None

    @property
    def block_hash_num_tokens(self) -> int | None:
        """Tokens of the prefix that `block_hash` stands for."""
        num_tokens: int | None = self.pool._num_tokens.get(int(self))
        return num_tokens

    @property
    def _block_hash(self) -> bytes | None:
        """What vLLM's block keeps it in; its tests read it."""
        return self.block_hash

    def set_block_hash(self, block_hash: bytes, num_tokens: int | None = None) -> None:
        """Caches it under its first hash."""
        self.pool._insert_block_hash(block_hash, self, num_tokens)

    def reset_hash(self) -> None:
        """Forgets its hashes."""
        self.pool._remove_cached_block_hashes(self)

    @property
    def prev_free_block(self) -> Block | _End | None:
        """The block before it in the queue of free ones; None of a block in use."""
        return self._neighbor(0)

    @property
    def next_free_block(self) -> Block | _End | None:
        """The block behind it in the queue of free ones; None of a block in use."""
        return self._neighbor(1)

    def _neighbor(self, side: int) -> Block | _End | None:
        if self.pool._native.ref_count(self):
            return None
        neighbor = self.pool._native.free_neighbors(self)[side]
        queue: _FreeBlocks = self.pool.free_block_queue
        if neighbor < 0:
            return queue.fake_free_list_tail if side else queue.fake_free_list_head
        block: Block = self.pool.blocks[neighbor]
        return block

    def __repr__(self) -> str:
        """The words of vLLM's."""
        return f"KVCacheBlock(block_id={int(self)}, ref_cnt={self.ref_cnt})"


class _End:
    """What stands before the first free block, or behind the last."""

    block_id = -1
    ref_cnt = 0
    is_null = False

    def __init__(self, queue: _FreeBlocks) -> None:
        self._queue = queue

    @property
    def next_free_block(self) -> Block | _End:
        """The first free block, or the other end."""
        first = self._queue.pool._native.free_neighbors(-1)[1]
        return self._queue.fake_free_list_tail if first < 0 else self._queue.pool.blocks[first]

    @property
    def prev_free_block(self) -> Block | _End:
        """The last free block, or the other end."""
        last = self._queue.pool._native.free_neighbors(-1)[0]
        return self._queue.fake_free_list_head if last < 0 else self._queue.pool.blocks[last]


class _FreeBlocks:
    """The queue of free blocks, to look at."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.fake_free_list_head = _End(self)
        self.fake_free_list_tail = _End(self)

    @property
    def num_free_blocks(self) -> int:
        num_free: int = self.pool._native.num_free
        return num_free

    def get_all_free_blocks(self) -> list[Block]:
        """All of them, the next to be given first."""
        return [self.pool.blocks[i] for i in self.pool._native.free_blocks().tolist()]

    def iter_blocks_after(self, cursor: Block | None) -> Iterator[Block]:
        """Those behind a free block; all of them for None."""
        block = (cursor or self.fake_free_list_head).next_free_block
        while isinstance(block, Block):
            yield block
            block = block.next_free_block


class _Hashes:
    """Which blocks have a hash."""

    def __init__(self, pool: Any) -> None:
        self._cache = _HashTable(pool)
        self._pool = pool

    def get_one_block(self, key: bytes) -> Block | None:
        """The block that was cached under it first."""
        found = self._pool._native.find_one(key)
        return None if found is None else self._pool.blocks[found]

    def contain(self, key: bytes, block_id: int) -> bool:
        """Whether that block is cached under it."""
        has: bool = self._pool._native.has(block_id, key)
        return has

    def insert(self, key: bytes, block: Block) -> None:
        """Caches the block under it, if it is not yet."""
        self._pool._insert_block_hash(key, block, None)

    def pop(self, key: bytes, block_id: int) -> Block | None:
        """Forgets that the block is cached under it, and gives the block if it was."""
        if not self._pool._native.has(block_id, key):
            return None
        others = [kept for kept in self._pool._native.keys_of(block_id) if kept != key]
        num_tokens = self._pool._num_tokens.get(block_id)
        block: Block = self._pool.blocks[block_id]
        self._pool._remove_cached_block_hashes(block)
        for kept in others:
            self._pool._insert_block_hash(kept, block, num_tokens)
        return block

    def __len__(self) -> int:
        return len(self._cache)


class _HashTable(MutableMapping[bytes, "Block | dict[int, Block]"]):
    """The dict that vLLM has inside: a block, or several by id. Reading it is O(blocks)."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __copy__(self) -> dict[bytes, Block | dict[int, Block]]:
        by_key: dict[bytes, list[Block]] = {}
        for block in self._pool.blocks:
            for key in self._pool._native.keys_of(block):
                by_key.setdefault(key, []).append(block)
        result: dict[bytes, Block | dict[int, Block]] = {}
        for key, blocks in by_key.items():
            first = self._pool.blocks[self._pool._native.find_one(key)]
            blocks = [first, *(block for block in blocks if block != first)]
            result[key] = (
                blocks[0] if len(blocks) == 1 else {block.block_id: block for block in blocks}
            )
        return result

    def __getitem__(self, key: bytes) -> Block | dict[int, Block]:
        return self.__copy__()[key]

    def __setitem__(self, key: bytes, value: Block | dict[int, Block]) -> None:
        for block in value.values() if isinstance(value, dict) else (value,):
            self._pool._insert_block_hash(key, block, None)

    def __delitem__(self, key: bytes) -> None:
        value = self[key]
        for block in value.values() if isinstance(value, dict) else (value,):
            self._pool.cached_block_hash_to_block.pop(key, block.block_id)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.__copy__())

    def __len__(self) -> int:
        num_keys: int = len(self.__copy__())
        return num_keys

    def __eq__(self, other: object) -> bool:
        return self.__copy__() == other

    __hash__ = None  # type: ignore[assignment]  # it changes


class _FurtherHashes(Mapping[int, set[bytes]]):
    """The hashes of a block beside its first."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __getitem__(self, block_id: int) -> set[bytes]:
        further = set(self._pool._native.keys_of(block_id)[1:])
        if not further:
            raise KeyError(block_id)
        return further

    def __iter__(self) -> Iterator[int]:
        native = self._pool._native
        return (int(b) for b in self._pool.blocks if len(native.keys_of(b)) > 1)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@functools.cache
def block_pool_class() -> type:
    """The subclass of vLLM's BlockPool whose state is native.

    Raises:
        ImportError: vLLM is not installed.

    Thread safety: its pools are used by one thread at a time, as vLLM's are.
    """
    block_pool = _vllm("v1.core.block_pool")
    kv_events = _vllm("distributed.kv_events")
    utils = _vllm("v1.core.kv_cache_utils")

    base: Any = block_pool.BlockPool

    class NativeBlockPool(base):  # type: ignore[misc]  # vLLM is not read here
        """vLLM's BlockPool on `servecore.HashedBlockPool`."""

        def __init__(
            self,
            num_gpu_blocks: int,
            enable_caching: bool,
            hash_block_size: int,
            enable_kv_cache_events: bool = False,
            metrics_collector: Any = None,
            num_hash_lookahead_tokens: int = 0,
            medium: str = kv_events.MEDIUM_GPU,
        ) -> None:
            if not isinstance(num_gpu_blocks, int) or num_gpu_blocks < 1:
                raise ValueError(f"num_gpu_blocks is {num_gpu_blocks!r}; allowed are 1 and more")
            self.num_gpu_blocks = num_gpu_blocks
            self.enable_caching = enable_caching
            self.hash_block_size = hash_block_size
            self.enable_kv_cache_events = enable_kv_cache_events
            self.metrics_collector = metrics_collector
            self.num_hash_lookahead_tokens = num_hash_lookahead_tokens
            self.medium = medium
            self.kv_event_queue: list[Any] = []
            self._reuse_watchers: dict[int, Callable[[Block], None]] = {}
            self._native = HashedBlockPool(num_gpu_blocks)
            self._num_tokens: dict[int, int | None] = {}
            self._block = type("KVCacheBlock", (Block,), {"__slots__": (), "pool": self})
            self.blocks: list[Block] = list(map(self._block, range(num_gpu_blocks)))
            self.free_block_queue = _FreeBlocks(self)
            self.cached_block_hash_to_block = _Hashes(self)
            self.cached_block_hashes_by_block = _FurtherHashes(self)
            (self.null_block,) = self._take(1)

        def _take(self, count: int) -> list[Block]:
            ids = self._native.allocate_array(count)
            if ids is None:
                raise ValueError(f"Cannot get {count} free blocks from the pool")
            return list(map(self.blocks.__getitem__, ids.tolist()))

        def get_cached_block(
            self, block_hash: bytes, kv_cache_group_ids: list[int]
        ) -> list[Block] | None:
            found = []
            for group in kv_cache_group_ids:
                block = self._native.find_one(
                    utils.make_block_hash_with_group_id(block_hash, group)
                )
                if block is None:
                    return None
                found.append(self.blocks[block])
            return found

        def cache_full_blocks(
            self,
            request: Any,
            blocks: list[Block],
            num_cached_blocks: int,
            num_full_blocks: int,
            block_size: int,
            kv_cache_group_id: int,
            block_mask: list[bool] | None = None,
        ) -> None:
            full = blocks[num_cached_blocks:num_full_blocks]
            if not full:
                return
            plain = not self.enable_kv_cache_events and block_mask is None
            if plain and self.null_block not in full and not self._keyed(full):
                hashes = utils.resolve_block_hashes(
                    request.block_hashes, self.hash_block_size, block_size
                )[num_cached_blocks:num_full_blocks]
                group = kv_cache_group_id.to_bytes(4, "big")
                self._native.insert(_ids(full), [block_hash + group for block_hash in hashes])
                ends = range(num_cached_blocks + 1, num_full_blocks + 1)
                self._num_tokens.update(
                    zip(map(int, full), (end * block_size for end in ends), strict=True)
                )
                return
            super().cache_full_blocks(
                request,
                blocks,
                num_cached_blocks,
                num_full_blocks,
                block_size,
                kv_cache_group_id,
                block_mask,
            )

        def _keyed(self, blocks: Sequence[Block]) -> bool:
            return any(map(self._num_tokens.__contains__, blocks))

        def _remove_cached_block_hashes(self, block: Block) -> list[bytes]:
            self._num_tokens.pop(int(block), None)
            return [key for _, key in self._native.remove_keys([block])]

        def _insert_block_hash(
            self, block_hash_with_group_id: bytes, block: Block, num_tokens: int | None
        ) -> None:
            if self._native.has(block, block_hash_with_group_id):
                return
            if int(block) in self._num_tokens:
                self._native.add_key(block, block_hash_with_group_id)
            else:
                self._native.insert([block], [block_hash_with_group_id])
                self._num_tokens[int(block)] = num_tokens

        def get_new_blocks(self, num_blocks: int) -> list[Block]:
            if not self._num_tokens:
                blocks = self._take(num_blocks)
            else:
                taken = self._native.allocate_removing(num_blocks)
                if taken is None:
                    raise ValueError(f"Cannot get {num_blocks} free blocks from the pool")
                ids, removed = taken
                blocks = list(map(self.blocks.__getitem__, ids.tolist()))
                for block_id, _ in removed:
                    self._num_tokens.pop(block_id, None)
                self._emit_block_removed_events([key for _, key in removed])
            if self._reuse_watchers:
                self._notify_reuse(blocks)
            if self.metrics_collector:
                for block in blocks:
                    self.metrics_collector.on_block_evicted(block)
                    self.metrics_collector.on_block_allocated(block)
            return blocks

        def touch(self, blocks: Sequence[Block]) -> None:
            held = _without_null(blocks)
            self._native.touch_array(_ids(held))
            if self.metrics_collector:
                for block in held:
                    self.metrics_collector.on_block_accessed(block)

        def free_blocks(self, ordered_blocks: Iterable[Block]) -> None:
            held = _without_null(list(ordered_blocks))
            # Deferred frees may hold blocks of several pools.
            if not all(type(block) is self._block for block in held):
                others: dict[Any, list[Block]] = {}
                for block in held:
                    if block.pool is not self and block.pool is not None:
                        others.setdefault(block.pool, []).append(block)
                held = [block for block in held if block.pool is self]
                for pool, blocks in others.items():
                    pool.free_blocks(blocks)
            self._native.free_array(_ids(held))

        def unpin_blocks(self, blocks: Iterable[Block], on_reuse: Callable[[Block], None]) -> None:
            held = list(blocks)
            self._native.free_array(_ids(held), last=True)
            self._reuse_watchers.update(dict.fromkeys(map(int, held), on_reuse))

        def evict_blocks(self, block_ids: set[int]) -> None:
            for block_id in block_ids:
                if not 0 <= block_id < self.num_gpu_blocks:
                    # What vLLM raises here.
                    raise AssertionError(f"Invalid block_id {block_id} >= {self.num_gpu_blocks}")
                self._maybe_evict_cached_block(self.blocks[block_id])

        def is_block_writable(self, block: Block) -> bool:
            return not block.is_null and block.ref_cnt == 1 and block.block_hash is None

        def reset_prefix_cache(self) -> bool:
            num_used = self.num_gpu_blocks - self._native.num_free
            if num_used != 1:
                block_pool.logger.warning(
                    "Failed to reset prefix cache because some blocks (%d) are not freed yet",
                    num_used - 1,
                )
                return False
            self._native.reset(1)
            self._num_tokens.clear()
            if self._reuse_watchers:
                self._notify_reuse([self.blocks[i] for i in list(self._reuse_watchers)])
            if self.metrics_collector:
                self.metrics_collector.reset()
            block_pool.logger.info("Successfully reset prefix cache")
            if self.enable_kv_cache_events:
                self.kv_event_queue.append(kv_events.AllBlocksCleared())
            return True

        def get_num_free_blocks(self) -> int:
            return self._native.num_free

    return NativeBlockPool


def _without_null(blocks: Sequence[Block]) -> Sequence[Block]:
    # Null blocks of any pool are 0, and no other block is.
    return [block for block in blocks if block != _NULL] if _NULL in blocks else blocks


def _ids(blocks: Sequence[Block]) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.fromiter(blocks, np.int32, len(blocks))
