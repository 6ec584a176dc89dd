# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The KV-cache core: which block is whose, and which block holds which tokens.

A request's way through it: `PrefixCache.match` finds the blocks that are there already,
`PrefixCache.allocate` gives blocks for the rest, `PrefixCache.insert` keeps them for the next
request, and `BlockPool.release_array` gives back the request's own references.

    >>> import numpy as np
    >>> from servecore.kv import BlockPool, PrefixCache
    >>> pool = BlockPool(8)
    >>> cache = PrefixCache(pool, 4)
    >>> tokens = np.arange(8, dtype=np.int32)
    >>> blocks = cache.allocate(2)
    >>> cache.insert(tokens, blocks).num_new_tokens
    8
    >>> with cache.match(tokens) as match:
    ...     match.block_ids.tolist()
    [0, 1]
"""

from servecore._core import (
    BlockPool,
    CacheEvents,
    HashedBlockPool,
    InsertResult,
    PrefixCache,
    PrefixMatch,
    TokenBuffer,
)

__all__ = [
    "BlockPool",
    "CacheEvents",
    "HashedBlockPool",
    "InsertResult",
    "PrefixCache",
    "PrefixMatch",
    "TokenBuffer",
]
