# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Slow, obvious models of servecore.BlockPool and servecore.PrefixCache: the oracle of the tests.

They are written to be read, not to be fast, and share nothing with the real ones but the promise.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32] | NDArray[np.int64]


class BlockPool:
    """Reference counts of blocks 0..num_blocks-1; the last freed is the first reused."""

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 0:
            raise ValueError(f"num_blocks is {num_blocks}; allowed: 0 or more")
        self.num_blocks = num_blocks
        self._refs = [0] * num_blocks
        self._free = list(range(num_blocks - 1, -1, -1))

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    def ref_count(self, block: int) -> int:
        """References to the block."""
        return self._refs[block]

    def allocate(self, n: int) -> list[int] | None:
        """Takes n free blocks, or None and nothing."""
        if n > len(self._free):
            return None
        blocks = [self._free.pop() for _ in range(n)]
        for block in blocks:
            self._refs[block] = 1
        return blocks

    def retain(self, block: int) -> None:
        """Adds a reference to a block in use."""
        if self._refs[block] == 0:
            raise RuntimeError(f"block {block} is free")
        self._refs[block] += 1

    def release(self, block: int) -> None:
        """Gives a reference back."""
        if self._refs[block] == 0:
            raise RuntimeError(f"block {block} is free")
        self._refs[block] -= 1
        if self._refs[block] == 0:
            self._free.append(block)

    def release_array(self, ids: NDArray[np.int32], /) -> None:
        """Gives a reference of each back."""
        for block in ids.tolist():
            self.release(block)

    def check(self) -> None:
        """Raises RuntimeError where a promise is broken."""
        if sorted(self._free) != [b for b, refs in enumerate(self._refs) if refs == 0]:
            raise RuntimeError("the free list is not the blocks without references")


@dataclass(eq=False)
class Node:
    """One cached block: the tokens it holds, and the prefix before it as its parent."""

    parent: Node | None
    tokens: bytes
    block: int
    children: dict[bytes, Node] = field(default_factory=dict)
    inserted: int = 0
    last_use: int = 0
    hits: int = 0


class PrefixMatch:
    """The blocks of the longest cached prefix, retained until released."""

    def __init__(self, pool: BlockPool, block_ids: list[int], num_tokens: int) -> None:
        self.block_ids = block_ids
        self.num_tokens = num_tokens
        self._pool = pool
        self._held = list(block_ids)
        for block in block_ids:
            pool.retain(block)

    def release(self) -> None:
        """Lets go of the blocks, once."""
        while self._held:
            self._pool.release(self._held.pop())


@dataclass(frozen=True)
class InsertResult:
    """What was new to the cache, and which of the caller's blocks were already there."""

    num_new_tokens: int
    duplicates: list[int]


# What each policy evicts first has the least of these. Replayed prompts have no priorities.
RANKS: dict[str, Callable[[Node], tuple[int, ...]]] = {
    "lru": lambda node: (node.last_use,),
    "lfu": lambda node: (node.hits, node.last_use),
    "slru": lambda node: (min(node.hits, 1), node.last_use),
    "fifo": lambda node: (node.inserted,),
    "priority": lambda node: (node.last_use,),
}


class PrefixCache:
    """A tree of blocks, and a heap of its leaves by the rank that the policy gives them.

    A leaf is pushed whenever its rank changes; an entry whose rank is no longer its node's is
    passed over.
    """

    def __init__(self, pool: BlockPool, block_size: int, *, eviction: str = "lru") -> None:
        self._pool = pool
        self._block_size = block_size
        self._rank = RANKS[eviction]
        self._root = Node(None, b"", -1)
        self._nodes: set[Node] = set()
        self._heap: list[tuple[tuple[int, ...], int, Node]] = []
        self._serial = itertools.count()
        self._clock = 0
        self._evicted = 0

    def _blocks_of(self, tokens: Tokens) -> list[bytes]:
        size = self._block_size
        whole = len(tokens) // size * size
        wide = tokens[:whole].astype(np.int64)
        return [wide[at : at + size].tobytes() for at in range(0, whole, size)]

    def _push(self, node: Node) -> None:
        # The serial number decides between equal ranks, which are of one node.
        heapq.heappush(self._heap, (self._rank(node), next(self._serial), node))

    def _use(self, path: list[Node], *, is_hit: bool) -> None:
        self._clock += 1
        for node in path:
            node.last_use = self._clock
            node.hits += is_hit
            if not node.inserted:
                node.inserted = self._clock
        if path and not path[-1].children:
            self._push(path[-1])

    def match(self, tokens: Tokens, /) -> PrefixMatch:
        """Finds and holds the longest cached prefix."""
        node = self._root
        path: list[Node] = []
        for key in self._blocks_of(tokens):
            if key not in node.children:
                break
            node = node.children[key]
            path.append(node)
        self._use(path, is_hit=True)
        return PrefixMatch(self._pool, [node.block for node in path], len(path) * self._block_size)

    def insert(self, tokens: Tokens, block_ids: NDArray[np.int32], /) -> InsertResult:
        """Keeps the whole blocks of a prompt."""
        keys = self._blocks_of(tokens)
        if len(block_ids) < len(keys):
            raise ValueError(f"{len(block_ids)} blocks for {len(keys)} blocks of tokens")
        node = self._root
        path: list[Node] = []
        new = 0
        duplicates: list[int] = []
        for key, block in zip(keys, block_ids.tolist(), strict=False):
            if key not in node.children:
                self._pool.retain(block)
                node.children[key] = Node(node, key, block)
                self._nodes.add(node.children[key])
                new += 1
            elif node.children[key].block != block:
                duplicates.append(block)
            node = node.children[key]
            path.append(node)
        self._use(path, is_hit=False)
        return InsertResult(new * self._block_size, duplicates)

    def _take_victims(self, n: int) -> list[Node]:
        """Takes up to n blocks to evict off the heap: leaves that nobody else holds, in order."""
        chosen: dict[Node, None] = {}
        held: dict[Node, None] = {}
        while self._heap and len(chosen) < n:
            rank, _, node = heapq.heappop(self._heap)
            is_leaf = all(child in chosen for child in node.children.values())
            is_stale = node not in self._nodes or node in chosen or rank != self._rank(node)
            if is_stale or not is_leaf:
                continue
            if self._pool.ref_count(node.block) > 1:
                held[node] = None
                continue
            chosen[node] = None
            parent = node.parent
            if parent in self._nodes and all(c in chosen for c in parent.children.values()):
                self._push(parent)
        self._put_back(held)
        return list(chosen)

    def _put_back(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._push(node)

    def _remove(self, victims: list[Node]) -> None:
        for node in victims:
            assert node.parent is not None
            del node.parent.children[node.tokens]
            self._nodes.remove(node)
            self._pool.release(node.block)
            self._evicted += 1
            if node.parent is not self._root and not node.parent.children:
                self._push(node.parent)

    def evict(self, n: int) -> int:
        """Evicts up to n blocks, and says how many."""
        victims = self._take_victims(n)
        self._remove(victims)
        return len(victims)

    def allocate(self, n: int, /) -> Sequence[int] | None:
        """Takes n blocks, evicting what it must; None where that falls short, nothing evicted."""
        victims = self._take_victims(max(0, n - self._pool.num_free))
        if self._pool.num_free + len(victims) < n:
            self._put_back(victims)
            return None
        self._remove(victims)
        return self._pool.allocate(n)

    def stats(self) -> dict[str, int]:
        """Counters."""
        return {"evicted_blocks": self._evicted, "num_cached_blocks": len(self._nodes)}

    def check(self) -> None:
        """Raises RuntimeError where a promise is broken."""
        for node in self._nodes:
            if self._pool.ref_count(node.block) < 1:
                raise RuntimeError(f"cached block {node.block} is free")
