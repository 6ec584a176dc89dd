# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Slow, obvious models of servecore.BlockPool and servecore.PrefixCache: the oracle of the tests.

They are written to be read, not to be fast, and share nothing with the real ones but the promise.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
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


class PrefixCache:
    """A tree of blocks, and one list of them all from the least to the most recently used."""

    def __init__(self, pool: BlockPool, block_size: int, *, eviction: str = "lru") -> None:
        if eviction != "lru":
            raise ValueError(f"eviction is {eviction!r}; allowed: 'lru'")
        self._pool = pool
        self._block_size = block_size
        self._root = Node(None, b"", -1)
        self._by_use: OrderedDict[Node, None] = OrderedDict()
        self._evicted = 0

    def _blocks_of(self, tokens: Tokens) -> list[bytes]:
        size = self._block_size
        whole = len(tokens) // size * size
        wide = tokens[:whole].astype(np.int64)
        return [wide[at : at + size].tobytes() for at in range(0, whole, size)]

    def _touch(self, path: list[Node]) -> None:
        # From the leaf to the root, so that a parent always outlives its children in the list.
        for node in reversed(path):
            self._by_use[node] = None
            self._by_use.move_to_end(node)

    def match(self, tokens: Tokens, /) -> PrefixMatch:
        """Finds and holds the longest cached prefix."""
        node = self._root
        path: list[Node] = []
        for key in self._blocks_of(tokens):
            if key not in node.children:
                break
            node = node.children[key]
            path.append(node)
        self._touch(path)
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
                new += 1
            elif node.children[key].block != block:
                duplicates.append(block)
            node = node.children[key]
            path.append(node)
        self._touch(path)
        return InsertResult(new * self._block_size, duplicates)

    def _victims(self, n: int) -> list[Node]:
        """Up to n blocks to evict: leaves that nobody else holds, the least recently used first.

        One pass is enough: a block's children come before it in the list.
        """
        chosen: OrderedDict[Node, None] = OrderedDict()
        for node in self._by_use:
            if len(chosen) == n:
                break
            is_leaf = all(child in chosen for child in node.children.values())
            if is_leaf and self._pool.ref_count(node.block) == 1:
                chosen[node] = None
        return list(chosen)

    def _remove(self, victims: list[Node]) -> None:
        for node in victims:
            assert node.parent is not None
            del node.parent.children[node.tokens]
            del self._by_use[node]
            self._pool.release(node.block)
            self._evicted += 1

    def evict(self, n: int) -> int:
        """Evicts up to n blocks, and says how many."""
        victims = self._victims(n)
        self._remove(victims)
        return len(victims)

    def allocate(self, n: int, /) -> Sequence[int] | None:
        """Takes n blocks, evicting what it must; None where that falls short, nothing evicted."""
        victims = self._victims(max(0, n - self._pool.num_free))
        if self._pool.num_free + len(victims) < n:
            return None
        self._remove(victims)
        return self._pool.allocate(n)

    def stats(self) -> dict[str, int]:
        """Counters."""
        return {"evicted_blocks": self._evicted, "num_cached_blocks": len(self._by_use)}

    def check(self) -> None:
        """Raises RuntimeError where a promise is broken."""
        for node in self._by_use:
            if self._pool.ref_count(node.block) < 1:
                raise RuntimeError(f"cached block {node.block} is free")
