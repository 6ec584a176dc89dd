# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Slow, obvious models of BlockPool and PrefixCache, for tests to compare the real ones with.

They share nothing with the real ones but the promise: names, results and types of errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

INT32_MAX = 2**31 - 1


class ModelPool:
    """Two numbers of references for each block, and a stack of those that have none."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.loose = [0] * num_blocks
        self.guarded = [0] * num_blocks
        self.free = list(reversed(range(num_blocks)))
        self.peak_used = 0
        self.allocated_blocks = 0
        self.freed_blocks = 0

    def _checked(self, block: int) -> int:
        if not 0 <= block < self.num_blocks:
            raise IndexError(block)
        return block

    @property
    def num_free(self) -> int:
        return len(self.free)

    def ref_count(self, block: int) -> int:
        return self.loose[self._checked(block)] + self.guarded[block]

    def allocate(self, n: int) -> list[int] | None:
        if not 0 <= n <= INT32_MAX:
            raise ValueError(n)
        if n > len(self.free):
            return None
        blocks = [self.free.pop() for _ in range(n)]
        for block in blocks:
            self.loose[block] = 1
        self.allocated_blocks += n
        self.peak_used = max(self.peak_used, self.num_blocks - len(self.free))
        return blocks

    def allocate_many(self, counts: Sequence[int]) -> list[list[int]] | None:
        if min(counts, default=0) < 0 or sum(counts) > INT32_MAX:
            raise ValueError(counts)
        if sum(counts) > len(self.free):
            return None
        return [self.allocate(n) or [] for n in counts]

    def retain(self, block: int) -> None:
        if self.ref_count(block) == 0:
            raise RuntimeError(block)
        self.loose[block] += 1

    def release(self, block: int) -> None:
        self._checked(block)
        if self.loose[block] == 0:
            raise RuntimeError(block)
        self.loose[block] -= 1
        self._push_if_free(block)

    def retain_array(self, ids: Sequence[int]) -> None:
        for block in ids:
            self._checked(block)
        for block in ids:
            if self.ref_count(block) == 0:
                raise RuntimeError(block)
        for block in ids:
            self.retain(block)

    def release_array(self, ids: Sequence[int]) -> None:
        for block in ids:
            self._checked(block)
        for block in ids:
            if ids.count(block) > self.loose[block]:
                raise RuntimeError(block)
        for block in ids:
            self.release(block)

    def guard(self, block: int) -> None:
        self.guarded[block] += 1

    def unguard(self, block: int) -> None:
        self.guarded[block] -= 1
        self._push_if_free(block)

    def _push_if_free(self, block: int) -> None:
        if self.ref_count(block) == 0:
            self.free.append(block)
            self.freed_blocks += 1

    def stats(self) -> dict[str, int]:
        return {
            "num_blocks": self.num_blocks,
            "num_free": len(self.free),
            "num_used": self.num_blocks - len(self.free),
            "total_refs": sum(self.loose) + sum(self.guarded),
            "peak_used": self.peak_used,
            "allocated_blocks": self.allocated_blocks,
            "freed_blocks": self.freed_blocks,
        }


class ModelMatch:
    """The blocks of a prefix, guarded until they are released."""

    def __init__(self, pool: ModelPool, block_ids: list[int], num_tokens: int) -> None:
        self.block_ids = block_ids
        self.num_tokens = num_tokens
        self._pool: ModelPool | None = pool
        for block in block_ids:
            pool.guard(block)

    def release(self) -> None:
        if self._pool is None:
            raise RuntimeError
        for block in self.block_ids:
            self._pool.unguard(block)
        self._pool = None


@dataclass(frozen=True)
class ModelInsertResult:
    """What an insert did."""

    num_new_tokens: int
    duplicates: list[int]


Key = tuple[str, tuple[int, ...]]


class ModelCache:
    """Whole prefixes and the block of each, in one list from the least to the most recent."""

    def __init__(self, pool: ModelPool, block_size: int) -> None:
        self._pool = pool
        self._block_size = block_size
        self._blocks: dict[Key, int] = {}
        self._by_use: list[Key] = []
        self._counts = dict.fromkeys(
            (
                "queries",
                "query_tokens",
                "hit_tokens",
                "inserted_blocks",
                "duplicate_blocks",
                "evicted_blocks",
                "dropped_blocks",
            ),
            0,
        )

    def _keys(self, tokens: Sequence[int], namespace: str) -> list[Key]:
        size = self._block_size
        ends = range(size, len(tokens) + 1, size)
        return [(namespace, tuple(tokens[:end])) for end in ends]

    def _touch(self, keys: list[Key]) -> None:
        for key in reversed(keys):
            if key in self._by_use:
                self._by_use.remove(key)
            self._by_use.append(key)

    def match(self, tokens: Sequence[int], *, namespace: str = "") -> ModelMatch:
        found = []
        for key in self._keys(tokens, namespace):
            if key not in self._blocks:
                break
            found.append(key)
        self._touch(found)
        self._counts["queries"] += 1
        self._counts["query_tokens"] += len(tokens)
        self._counts["hit_tokens"] += len(found) * self._block_size
        blocks = [self._blocks[key] for key in found]
        return ModelMatch(self._pool, blocks, len(found) * self._block_size)

    def insert(
        self, tokens: Sequence[int], block_ids: Sequence[int], *, namespace: str = ""
    ) -> ModelInsertResult:
        keys = self._keys(tokens, namespace)
        if len(block_ids) < len(keys):
            raise ValueError(block_ids)
        ids = block_ids[: len(keys)]
        counts = [self._pool.ref_count(block) for block in ids]
        if len(set(ids)) < len(ids):
            raise ValueError(ids)
        for key, block in zip(keys, ids, strict=True):
            if block in self._blocks.values() and self._blocks.get(key) != block:
                raise ValueError(block)
        if 0 in counts:
            raise RuntimeError(ids)
        new = 0
        duplicates = []
        for key, block in zip(keys, ids, strict=True):
            if key not in self._blocks:
                self._blocks[key] = block
                self._pool.guard(block)
                new += 1
            elif self._blocks[key] != block:
                duplicates.append(block)
        self._touch(keys)
        self._counts["inserted_blocks"] += new
        self._counts["duplicate_blocks"] += len(duplicates)
        return ModelInsertResult(new * self._block_size, duplicates)

    def _next_victim(self) -> Key | None:
        for key in self._by_use:
            namespace, tokens = key
            is_leaf = not any(
                other != key and other[0] == namespace and other[1][: len(tokens)] == tokens
                for other in self._by_use
            )
            if is_leaf and self._pool.ref_count(self._blocks[key]) == 1:
                return key
        return None

    def _remove(self, key: Key) -> None:
        self._by_use.remove(key)
        self._pool.unguard(self._blocks.pop(key))

    def _num_evictable(self) -> int:
        """Blocks that nobody else holds, and neither what continues them."""

        def is_held(key: Key) -> bool:
            return self._pool.ref_count(self._blocks[key]) > 1

        return sum(
            not any(
                other[0] == key[0] and other[1][: len(key[1])] == key[1] and is_held(other)
                for other in self._by_use
            )
            for key in self._by_use
        )

    def evict(self, n: int) -> int:
        if n < 0:
            raise ValueError(n)
        evicted = 0
        while evicted < n and (key := self._next_victim()) is not None:
            self._remove(key)
            evicted += 1
        self._counts["evicted_blocks"] += evicted
        return evicted

    def allocate(self, n: int) -> list[int] | None:
        if 0 <= n <= INT32_MAX and self._pool.num_free + self._num_evictable() >= n:
            self.evict(max(0, n - self._pool.num_free))
        return self._pool.allocate(n)

    def reset(self) -> None:
        self._counts["dropped_blocks"] += len(self._by_use)
        while self._by_use:
            self._remove(self._by_use[0])

    def stats(self) -> dict[str, int]:
        return {
            "num_cached_blocks": len(self._by_use),
            "num_namespaces": len({namespace for namespace, _ in self._by_use}),
            **self._counts,
        }
