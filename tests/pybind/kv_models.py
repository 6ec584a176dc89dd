# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Slow, obvious models of BlockPool and PrefixCache, for tests to compare the real ones with.

They share nothing with the real ones but the promise: names, results and types of errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

INT32_MAX = 2**31 - 1


class ModelPool:
    """Two numbers of references for each block, and a stack of those that have none."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.loose = [0] * num_blocks
        self.guarded = [0] * num_blocks
        self.caches = [0] * num_blocks
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

    def guard(self, block: int, *, by_cache: bool = False) -> None:
        self.guarded[block] += 1
        self.caches[block] += by_cache

    def unguard(self, block: int, *, by_cache: bool = False) -> None:
        self.guarded[block] -= 1
        self.caches[block] -= by_cache
        self._push_if_free(block)

    def is_idle(self, block: int) -> bool:
        """Whether a cache's reference is the only one."""
        return self.ref_count(block) == 1 and self.caches[block] == 1

    def _push_if_free(self, block: int) -> None:
        if self.ref_count(block) == 0:
            self.free.append(block)
            self.freed_blocks += 1

    def stats(self) -> dict[str, int]:
        return {
            "num_blocks": self.num_blocks,
            "num_free": len(self.free),
            "num_used": self.num_blocks - len(self.free),
            "num_idle": sum(map(self.is_idle, range(self.num_blocks))),
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
# Whether stored, which block, and its parent.
Event = tuple[bool, int, int]


@dataclass
class Entry:
    """A cached block and its use. Times are ticks of the cache's clock."""

    block: int
    inserted: int
    last_use: int = 0
    hits: int = 0
    priority: int = -(2**31)


# What each policy evicts first has the least of these.
RANKS: dict[str, Callable[[Entry], tuple[int, ...]]] = {
    "lru": lambda entry: (entry.last_use,),
    "lfu": lambda entry: (entry.hits, entry.last_use),
    "slru": lambda entry: (min(entry.hits, 1), entry.last_use),
    "fifo": lambda entry: (entry.inserted,),
    "priority": lambda entry: (entry.priority, entry.last_use),
}


class ModelCache:
    """Whole prefixes and the block of each, with all that a policy may ask about it."""

    def __init__(
        self,
        pool: ModelPool,
        block_size: int,
        *,
        eviction: str = "lru",
        max_events: int = 2**20,
    ) -> None:
        self._pool = pool
        self._block_size = block_size
        self._rank = RANKS[eviction]
        self._max_events = max_events
        self._lost = 0
        self._entries: dict[Key, Entry] = {}
        self._clock = 0
        self._events: list[Event] = []
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

    def _parent(self, key: Key) -> Key:
        return (key[0], key[1][: -self._block_size])

    def match(self, tokens: Sequence[int], *, namespace: str = "") -> ModelMatch:
        found = []
        for key in self._keys(tokens, namespace):
            if key not in self._entries:
                break
            found.append(self._entries[key])
        self._clock += 1
        for entry in found:
            entry.last_use = self._clock
            entry.hits += 1
        self._counts["queries"] += 1
        self._counts["query_tokens"] += len(tokens)
        self._counts["hit_tokens"] += len(found) * self._block_size
        blocks = [entry.block for entry in found]
        return ModelMatch(self._pool, blocks, len(found) * self._block_size)

    def match_many(
        self, tokens: Sequence[int], offsets: Sequence[int], *, namespace: str | Sequence[str] = ""
    ) -> list[ModelMatch]:
        num_requests = len(offsets) - 1
        if num_requests < 0 or list(offsets) != sorted(offsets):
            raise ValueError(offsets)
        if offsets[0] < 0 or offsets[-1] > len(tokens):
            raise ValueError(offsets)
        names = [namespace] * num_requests if isinstance(namespace, str) else namespace
        if len(names) == 1:
            names = [names[0]] * num_requests
        if len(names) != num_requests:
            raise ValueError(namespace)
        return [
            self.match(tokens[begin:end], namespace=name)
            for begin, end, name in zip(offsets, offsets[1:], names, strict=False)
        ]

    def insert(
        self,
        tokens: Sequence[int],
        block_ids: Sequence[int],
        *,
        namespace: str = "",
        priority: int = 0,
    ) -> ModelInsertResult:
        keys = self._keys(tokens, namespace)
        if not -(2**31) <= priority < 2**31 or len(block_ids) < len(keys):
            raise ValueError(block_ids)
        ids = block_ids[: len(keys)]
        counts = [self._pool.ref_count(block) for block in ids]
        if len(set(ids)) < len(ids):
            raise ValueError(ids)
        cached = {entry.block: key for key, entry in self._entries.items()}
        for key, block in zip(keys, ids, strict=True):
            if cached.get(block, key) != key:
                raise ValueError(block)
        if 0 in counts:
            raise RuntimeError(ids)
        stored: list[Event] = []
        duplicates = []
        self._clock += bool(keys)
        for key, block in zip(keys, ids, strict=True):
            if key not in self._entries:
                parent = self._entries.get(self._parent(key))
                self._entries[key] = Entry(block, inserted=self._clock)
                self._pool.guard(block, by_cache=True)
                stored.append((True, block, -1 if parent is None else parent.block))
            elif self._entries[key].block != block:
                duplicates.append(block)
            entry = self._entries[key]
            entry.last_use = self._clock
            entry.priority = max(entry.priority, priority)
        self._tell(stored)
        self._counts["inserted_blocks"] += len(stored)
        self._counts["duplicate_blocks"] += len(duplicates)
        return ModelInsertResult(len(stored) * self._block_size, duplicates)

    def _next_victim(self, gone: Sequence[Key]) -> Key | None:
        left = self._entries.keys() - set(gone)
        parents = {self._parent(key) for key in left}
        candidates = [
            key for key in left - parents if self._pool.ref_count(self._entries[key].block) == 1
        ]
        return min(candidates, key=lambda key: self._rank(self._entries[key]), default=None)

    def _remove(self, keys: Sequence[Key]) -> None:
        blocks = [self._entries.pop(key).block for key in keys]
        for block in blocks:
            self._pool.unguard(block, by_cache=True)
        self._tell([(False, block, -1) for block in blocks])

    def _tell(self, events: list[Event]) -> None:
        """Drops all that wait where not all would fit, and these too where they alone do not."""
        if not events:
            return
        if len(self._events) + len(events) > self._max_events:
            self._lost += len(self._events)
            self._events = []
        if len(events) > self._max_events:
            self._lost += len(events)
            return
        self._events += events

    def _num_evictable(self) -> int:
        """Blocks that nobody else holds, and neither what continues them."""
        held = [
            key for key, entry in self._entries.items() if self._pool.ref_count(entry.block) > 1
        ]
        return sum(
            not any(other[0] == key[0] and other[1][: len(key[1])] == key[1] for other in held)
            for key in self._entries
        )

    def evict(self, n: int) -> int:
        if n < 0:
            raise ValueError(n)
        victims: list[Key] = []
        while len(victims) < n and (key := self._next_victim(victims)) is not None:
            victims.append(key)
        self._remove(victims)
        self._counts["evicted_blocks"] += len(victims)
        return len(victims)

    def allocate(self, n: int) -> list[int] | None:
        if 0 <= n <= INT32_MAX and self._pool.num_free + self._num_evictable() >= n:
            self.evict(max(0, n - self._pool.num_free))
        return self._pool.allocate(n)

    def reset(self) -> None:
        self._counts["dropped_blocks"] += len(self._entries)
        # The lowest is the last that goes back, and so the first to be given again.
        self._remove(sorted(self._entries, key=lambda key: -self._entries[key].block))

    def events(self) -> tuple[list[Event], int]:
        """What happened since the last call, and how many of it were lost."""
        events, lost = self._events, self._lost
        self._events, self._lost = [], 0
        return events, lost

    def stats(self) -> dict[str, int]:
        return {
            "num_cached_blocks": len(self._entries),
            "num_namespaces": len({namespace for namespace, _ in self._entries}),
            **self._counts,
        }
