# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""A prefix cache for SGLang 0.5's scheduler, on PrefixCache and BlockPool.

`RadixCache` has the methods of SGLang's class of that name; `make_backend` also derives it
from SGLang's BasePrefixCache, for register_radix_cache_backend:

    register_radix_cache_backend("servecore", sglang.make_backend)

A block id is the number of a page of the engine's allocator (slot // page_size), so nothing
is translated. Pages that the cache does not hold are kept allocated in the pool, on behalf
of the engine; page 0, which SGLang pads with, stays free there, so that caching it fails.

Where it differs from SGLang's, on purpose:
  * evict() gives back whole pages, as many as asked for, not whole nodes;
  * an unbalanced dec_lock_ref, a lock on an evicted prefix, and pages that are cached at
    another place already are errors, and nothing has changed;
  * a hit is a lookup that found a block; SGLang counts inserts;
  * insert() wants values: token ids do not stand in for them.

Thread safety: one thread at a time, as the scheduler calls it.
"""

import types
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from servecore.kv import BlockPool, PrefixCache

_POLICIES = ("lru", "lfu", "slru", "fifo", "priority")
_Tokens = npt.NDArray[np.int64]
_Pages = npt.NDArray[np.int32]


class Allocator(Protocol):
    """What is used of SGLang's token_to_kv_pool_allocator."""

    size: int
    device: Any

    def free(self, free_index: Any) -> None:
        """Takes slots back."""


class MatchResult(NamedTuple):
    """What match_prefix found; the fields of SGLang's result."""

    device_prefix_len: int
    last_device_node: Any
    last_host_node: Any
    best_match_node: Any
    host_hit_length: int = 0
    swa_host_hit_length: int = 0
    swa_branching_seqlen: int | None = None
    mamba_host_hit_length: int = 0
    mamba_branching_seqlen: int | None = None
    cache_protected_len: int | None = None
    full_kv_hit_length: int = 0
    cache_actions: Sequence[Any] = ()
    last_visited_node_id: int | None = None
    full_device_match_len: int | None = None


@dataclass
class InsertResult:
    """prefix_len: tokens that were cached before. duplicates: pages still the caller's."""

    prefix_len: int
    last_device_node: Any = None
    duplicates: Any = None


@dataclass
class EvictResult:
    """How many tokens were given back to the allocator."""

    num_tokens_evicted: int = 0
    swa_num_tokens_evicted: int = 0
    mamba_num_evicted: int = 0


@dataclass
class LockResult:
    """By how many tokens evictable_size changed."""

    delta: int = 0
    node_id: int | None = None

    def to_dec_params(self) -> None:
        """A lock needs no receipt to be released."""


@dataclass
class Lock:
    """What lock() gives and unlock() takes."""

    node: Any
    receipt: None = None
    swa_released: bool = False


class Node:
    """A cached prefix: its pages, and which caching of the last one is meant.

    Ownership: no reference; inc_lock_ref takes one on each page.
    """

    __slots__ = ("cache", "pages", "stamp")

    def __init__(self, cache: PrefixCache, pages: _Pages, stamp: int) -> None:
        self.cache = cache
        self.pages = pages
        self.stamp = stamp


class RadixCache:
    """SGLang's RadixCache, on servecore's.

    Args:
      params: SGLang's CacheInitParams, or what has the same attributes.

    Raises:
      ValueError: a policy or an option that is not supported.
    """

    def __init__(self, params: Any) -> None:
        import torch

        self._torch = torch
        self.disable: bool = params.disable
        self.req_to_token_pool = params.req_to_token_pool
        self.token_to_kv_pool_allocator = params.token_to_kv_pool_allocator
        self.page_size: int = params.page_size
        self.is_eagle: bool = getattr(params, "is_eagle", False)
        self.eviction_policy: str = getattr(params, "eviction_policy", "lru").lower()
        if self.eviction_policy not in _POLICIES:
            raise ValueError(
                f"eviction_policy is {self.eviction_policy!r}; it must be one of {_POLICIES}"
            )
        config = getattr(params, "eviction_policy_config", None)
        if config and config != {"protected_threshold": 2}:
            raise ValueError(
                f"eviction_policy_config is {config}; leave it out: the policies have no options"
            )
        if getattr(params, "enable_kv_cache_events", False):
            raise ValueError("enable_kv_cache_events is True; only False is supported")
        if getattr(params, "enable_metrics", False):
            warnings.warn(
                "enable_metrics is True, but this cache reports no eviction metrics", stacklevel=2
            )
        self.device = torch.device(self.token_to_kv_pool_allocator.device)
        self._offsets = np.arange(self.page_size, dtype=np.int64)
        self._num_pages = self.token_to_kv_pool_allocator.size // self.page_size
        self.reset()

    def reset(self) -> None:
        """Forgets everything, locks too. The caller clears the allocator, as SGLang does."""
        self.pool = BlockPool(self._num_pages + 1)
        self.cache = PrefixCache(
            self.pool, self.page_size, eviction=self.eviction_policy, max_events=0
        )
        self.pool.allocate(self._num_pages + 1)
        self.pool.release(0)
        self._stamps = np.zeros(self._num_pages + 1, dtype=np.int64)
        self._num_inserts = 0
        self._locks: dict[int, int] = {}
        self.root_node = Node(self.cache, np.empty(0, dtype=np.int32), 0)

    # --- Lookup and insertion -------------------------------------------------

    def match_prefix(self, params: Any) -> MatchResult:
        """Finds the longest cached prefix; it is not locked.

        Copies: nothing of an array("q") key; a list is converted.
        GIL: released.
        """
        node = self.root_node if self.disable else self._find(params.key)
        return MatchResult(node.pages.size * self.page_size, node, node, node)

    def touch_prefix(self, key: Any) -> None:
        """Marks the cached part of a key as used now."""
        if not self.disable:
            self._find(key)

    def insert(self, params: Any) -> InsertResult:
        """Caches the pages of params.value under params.key.

        Ownership: new pages are the cache's then; those in ``duplicates`` stay the caller's.
        Copies: the new tokens.
        GIL: released.

        Raises:
          ValueError: there are no values or too few, they are not whole pages, or one is cached
            at another place already.
          IndexError: a slot beyond the allocator.
          RuntimeError: a slot of page 0, which is for padding.
        """
        if self.disable:
            return InsertResult(0)
        if params.value is None:
            raise ValueError("value is None; give the slot of each token of the key")
        tokens, namespace = self._tokens(params.key)
        count = tokens.size // self.page_size
        pages = self._pages_of(params.value, count)
        priority = getattr(params, "priority", 0) or 0
        result = self.cache.insert(tokens, pages, namespace=namespace, priority=priority)
        num_old = count - result.num_new_tokens // self.page_size
        if num_old < count:
            new = pages[num_old:]
            self._num_inserts += 1
            self._stamps[new] = self._num_inserts
            self.pool.release_array(new)
        if result.duplicates.size:
            with self.cache.match(tokens, namespace=namespace) as match:
                pages = match.block_ids
        return InsertResult(num_old * self.page_size, self._node(pages), result.duplicates)

    # --- Requests -------------------------------------------------------------

    def checkpoint(self, req: Any, *, up_to: int, **_: Any) -> None:
        """Caches a request's first ``up_to`` tokens; the request goes on from the cached pages.

        Its pages that were cached by someone else before are freed.
        """
        if self.disable:
            return
        result, length = self._insert_row(req, req.kv, req.full_untruncated_fill_ids[:up_to])
        node = result.last_device_node
        self._rebind(req.kv, node, length)
        self.unlock(req.lock)
        req.lock = self.lock(node)
        req.last_node = node

    def cache_unfinished_req(self, req: Any, **_: Any) -> None:
        """``checkpoint`` as SGLang called it before it had that name."""
        ids = req.fill_ids
        row = self.req_to_token_pool.req_to_token[req.req_pool_idx, : len(ids)]
        if self.disable:
            req.prefix_indices = row.to(dtype=self._torch.int64, copy=True)
            return
        result, length = self._insert_row(req, req, ids)
        node = result.last_device_node
        self._rebind(req, node, length)
        self.inc_lock_ref(node)
        self.dec_lock_ref(req.last_node)
        tail = row[length:].to(self._torch.int64)
        req.prefix_indices = self._torch.cat((self.path_device_indices(node), tail))
        req.last_node = node

    def cache_finished_req(self, req: Any, is_insert: bool = True, **_: Any) -> None:
        """Caches a finished request, frees what the cache does not keep, and drops its lock."""
        length = req.pop_committed_kv_cache()
        row = self.req_to_token_pool.req_to_token[req.req_pool_idx, :length]
        if self.disable:
            self.token_to_kv_pool_allocator.free(row)
            return
        start = req.cache_protected_len
        if is_insert:
            ids = (req.origin_input_ids + req.output_ids)[:length]
            start = self._insert_row(req, req, ids)[1]
        if start < length:
            self.token_to_kv_pool_allocator.free(row[start:])
        self.dec_lock_ref(req.last_node)

    # --- Eviction and locks ---------------------------------------------------

    def evict(self, params: Any) -> EvictResult:
        """Evicts as few whole pages as hold ``num_tokens``, and gives them to the allocator."""
        if self.disable or params.num_tokens <= 0:
            return EvictResult()
        count = self.cache.evict(-(-params.num_tokens // self.page_size))
        if count:
            # What was freed last is given first: exactly the evicted pages.
            pages = self.pool.allocate_array(count)
            assert pages is not None
            self._stamps[pages] = 0
            self._free(pages)
        return EvictResult(count * self.page_size)

    def evict_for_alloc(
        self, params: Any, *, allocation_reclaim_satisfied: Any = None
    ) -> EvictResult:
        """``evict``; a joint reclaim is NotImplementedError."""
        if allocation_reclaim_satisfied is not None:
            raise NotImplementedError("a joint reclaim is not supported")
        return self.evict(params)

    def inc_lock_ref(self, node: Node) -> LockResult:
        """Protects a prefix from eviction.

        Raises:
          RuntimeError: the prefix was evicted, or found before a reset.
        """
        if self.disable or not node.pages.size:
            return LockResult()
        last = self._last_page(node)
        before = self.evictable_size()
        self.pool.retain_array(node.pages)
        self._locks[last] = self._locks.get(last, 0) + 1
        return LockResult(self.evictable_size() - before)

    def dec_lock_ref(self, node: Node, _params: Any = None) -> LockResult:
        """Undoes one inc_lock_ref.

        Raises:
          RuntimeError: the prefix is not locked; nothing has changed.
        """
        if self.disable or not node.pages.size:
            return LockResult()
        last = self._last_page(node)
        locks = self._locks.get(last, 0)
        if locks == 0:
            raise RuntimeError(
                f"dec_lock_ref of a prefix of {node.pages.size * self.page_size} tokens that has "
                "0 locks; call it once for each inc_lock_ref"
            )
        before = self.evictable_size()
        self.pool.release_array(node.pages)
        if locks == 1:
            del self._locks[last]
        else:
            self._locks[last] = locks - 1
        return LockResult(self.evictable_size() - before)

    def lock(self, node: Node) -> Lock:
        """inc_lock_ref, for one holder."""
        self.inc_lock_ref(node)
        return Lock(node)

    def unlock(self, lock: Lock | None) -> None:
        """Undoes lock()."""
        if lock is not None:
            self.dec_lock_ref(lock.node)

    # --- What there is --------------------------------------------------------

    def path_device_indices(self, node: Node) -> Any:
        """The slots of a prefix: an int64 tensor on the allocator's device."""
        return self._slots(node.pages)

    def prefix_device_indices(self, req: Any) -> Any:
        """The slots of a request's matched prefix."""
        return self.path_device_indices(req.last_node)[: req.prefix_len]

    def evictable_size(self) -> int:
        """Cached tokens that are not locked."""
        return self.pool.stats()["num_idle"] * self.page_size

    def protected_size(self) -> int:
        """Cached tokens that are locked."""
        return self.total_size() - self.evictable_size()

    def total_size(self) -> int:
        """Cached tokens."""
        return self.cache.stats()["num_cached_blocks"] * self.page_size

    def full_evictable_size(self) -> int:
        """As evictable_size: there are no other components."""
        return self.evictable_size()

    def full_protected_size(self) -> int:
        """As protected_size."""
        return self.protected_size()

    def supports_prefix_sharing(self) -> bool:
        """Whether it caches at all."""
        return not self.disable

    def is_root(self, node: Node) -> bool:
        """Whether a node stands for nothing found."""
        return not node.pages.size

    def root_node_handle(self, **_: Any) -> Node:
        """What a match result carries when nothing was found."""
        return self.root_node

    def take_events(self) -> list[Any]:
        """Nothing: events are refused when a cache is made."""
        return []

    def pretty_print(self) -> None:
        """Prints the numbers of the cache."""
        print(self.cache.stats())

    # --- Inside ---------------------------------------------------------------

    def _tokens(self, key: Any) -> tuple[_Tokens, str]:
        ids = key.token_ids
        # Without a copy where it is array("q"), and no view outlives the call: an array
        # with a live view cannot grow.
        tokens = np.asarray(ids, dtype=np.int64)
        limit = getattr(key, "limit", None)
        if limit is not None:
            tokens = tokens[:limit]
        if self.is_eagle or getattr(key, "is_bigram", False):
            if ((tokens < 0) | (tokens >= 1 << 31)).any():
                raise ValueError("a token of a bigram key is out of range; it must be 0 .. 2**31-1")
            tokens = tokens[:-1] << 32 | tokens[1:]
        extra = getattr(key, "extra_key", None)
        salt = getattr(key, "cache_salt", None)
        return tokens, "" if extra is None and salt is None else repr((extra, salt))

    def _find(self, key: Any) -> Node:
        tokens, namespace = self._tokens(key)
        if tokens.size < self.page_size:
            return self.root_node
        with self.cache.match(tokens, namespace=namespace) as match:
            return self._node(match.block_ids)

    def _node(self, pages: _Pages) -> Node:
        if not pages.size:
            return self.root_node
        return Node(self.cache, pages, int(self._stamps[pages[-1]]))

    def _last_page(self, node: Node) -> int:
        last = int(node.pages[-1])
        if node.cache is not self.cache or node.stamp != self._stamps[last]:
            raise RuntimeError(
                f"a prefix of {node.pages.size * self.page_size} tokens is not cached any more; "
                "lock it before anything is evicted or reset, or match it anew"
            )
        return last

    def _pages_of(self, value: Any, count: int) -> _Pages:
        size = self.page_size
        slots: npt.NDArray[np.int64] = value[: count * size].cpu().numpy()
        if slots.size < count * size:
            raise ValueError(
                f"value has {slots.size} slots; a key of {count} whole pages needs {count * size}"
            )
        if size == 1:
            pages = slots.astype(np.int32)
            if not np.array_equal(pages, slots):
                raise ValueError("a slot of value is beyond int32")
            return pages
        firsts = slots[::size]
        if (firsts % size).any() or (
            slots.reshape(count, size) != firsts[:, None] + self._offsets
        ).any():
            raise ValueError(f"value is not made of whole pages of {size} consecutive slots")
        return (firsts // size).astype(np.int32)

    def _slots(self, pages: _Pages) -> Any:
        slots = pages.astype(np.int64)
        if self.page_size > 1:
            slots = np.add.outer(slots * self.page_size, self._offsets).reshape(-1)
        return self._torch.from_numpy(slots).to(self.device)

    def _free(self, pages: _Pages) -> None:
        self.token_to_kv_pool_allocator.free(self._slots(pages))

    def _insert_row(self, req: Any, owner: Any, ids: Any) -> tuple[InsertResult, int]:
        """Inserts a request's row and frees its duplicates; the result and the whole pages."""
        row_index = owner.req_pool_idx
        row = self.req_to_token_pool.req_to_token[row_index, : len(ids)]
        key = _Key(ids, req.extra_key, getattr(req, "cache_salt", None))
        result = self.insert(_Insertion(key, row.to(self._torch.int64), req.priority or 0))
        if result.duplicates.size:
            self._free(result.duplicates)
        length = result.last_device_node.pages.size * self.page_size
        if hasattr(owner, "cache_inserted_len"):
            owner.cache_inserted_len = max(owner.cache_inserted_len, length)
        return result, length

    def _rebind(self, owner: Any, node: Node, length: int) -> None:
        start = owner.cache_protected_len
        slots = self.path_device_indices(node)[start:]
        self.req_to_token_pool.write((owner.req_pool_idx, slice(start, length)), slots)
        owner.cache_protected_len = length


@dataclass(frozen=True)
class _Key:
    token_ids: Any
    extra_key: str | None
    cache_salt: str | None


@dataclass(frozen=True)
class _Insertion:
    key: _Key
    value: Any
    priority: int


def make_backend(context: Any) -> Any:
    """A factory for SGLang's register_radix_cache_backend.

    Args:
      context: SGLang's TreeCacheBuildContext.

    Returns:
      A RadixCache that is a BasePrefixCache of SGLang's too.
    """
    from sglang.srt.mem_cache.base_prefix_cache import (  # type: ignore[import-not-found]
        BasePrefixCache,
    )

    return types.new_class("ServecoreRadixCache", (RadixCache, BasePrefixCache))(context.params)
