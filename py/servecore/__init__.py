# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""servecore: the native core of a Python LLM serving engine.

Importing it loads the KV-cache core, neither numpy nor torch. The tensor ops, which need torch,
are in `servecore.ops` and `servecore.nn` and are imported by themselves.

    >>> import servecore
    >>> pool = servecore.BlockPool(8)
    >>> pool.allocate(3)
    [0, 1, 2]
    >>> pool
    <BlockPool free=5>
"""

from servecore._core import (
    BlockPool,
    CacheEvents,
    HashedBlockPool,
    InsertResult,
    PrefixCache,
    PrefixMatch,
    TokenBuffer,
    common_prefix,
    count_eos,
    vector_add,
)
from servecore._version import __version__

__all__ = [
    "BlockPool",
    "CacheEvents",
    "HashedBlockPool",
    "InsertResult",
    "PrefixCache",
    "PrefixMatch",
    "TokenBuffer",
    "__version__",
    "common_prefix",
    "count_eos",
    "vector_add",
]
