# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""SGLang's own RadixCache and ours, side by side, under random requests.

Run by test_sglang.py in an interpreter that has torch; $PEERS/sglang_whl is SGLang's wheel,
unpacked. Of it only the modules named in REAL are run; every other one is an empty stand-in.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import sys
import types
from array import array
from pathlib import Path

import torch

WHEEL = Path(os.environ["PEERS"]) / "sglang_whl"
MEM = "sglang.srt.mem_cache"
REAL = {
    f"{MEM}.{name}"
    for name in ("base_prefix_cache", "cache_init_params", "evict_policy", "radix_cache")
} | {f"{MEM}.unified_cache.component_type"}


class Recorder:
    """SGLang's event recorder, which records nothing here."""

    def __init__(self, **_: object) -> None: ...

    def record_store(self, node: object) -> None: ...

    def record_remove(self, node: object) -> None: ...

    def record_all_cleared(self) -> None: ...


def lru(*_: object) -> object:
    return importlib.import_module(f"{MEM}.evict_policy").LRUStrategy()


def split_nothing(value: None, *_: object) -> tuple[None, None]:
    return value, None


class StandIn(types.ModuleType):
    """A module that has a class of every name."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        known = {
            "KVCacheEventRecorder": Recorder,
            "get_eviction_strategy": lru,
            "split_node_hash_value": split_nothing,
        }
        return known.get(name) or type(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds SGLang's real modules in the wheel and stand-ins for the others."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name in REAL:
            file = WHEEL / (name.replace(".", "/") + ".py")
            return importlib.util.spec_from_file_location(name, file)
        if name.split(".")[0] == "sglang":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


sys.meta_path.insert(0, Finder())

import sglang.srt.mem_cache.base_prefix_cache as base  # noqa: E402
import sglang.srt.mem_cache.radix_cache as theirs  # noqa: E402
from sglang.srt.mem_cache.cache_init_params import CacheInitParams  # noqa: E402

from servecore.integrations import sglang as ours  # noqa: E402


class Allocator:
    """Pages in order of first use, and the lowest free one first."""

    device = "cpu"

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.size, self.page_size = num_pages * page_size, page_size
        self.pages = set(range(1, num_pages + 1))

    def alloc(self, count: int) -> torch.Tensor:
        taken = sorted(self.pages)[:count]
        assert len(taken) == count
        self.pages -= set(taken)
        slots = torch.tensor(taken, dtype=torch.int64).reshape(-1, 1) * self.page_size
        return (slots + torch.arange(self.page_size)).reshape(-1)

    def free(self, slots: torch.Tensor) -> None:
        pages = set((slots // self.page_size).tolist())
        assert not pages & self.pages, "a page was freed twice"
        self.pages |= pages

    def free_segment(self, slots: torch.Tensor, *, start_pos: int) -> None:
        self.free(slots)


def params(page_size: int) -> CacheInitParams:
    return CacheInitParams(False, None, Allocator(400, page_size), page_size)


def run(page_size: int) -> None:
    rng = random.Random(page_size)
    context = types.SimpleNamespace(params=params(page_size))
    caches = [theirs.RadixCache(params(page_size)), ours.make_backend(context)]
    assert isinstance(caches[1], base.BasePrefixCache)
    locked: list[list[object]] = []
    prompts: list[list[int]] = [[]]
    for step in range(3000):
        if locked and rng.random() < 0.4:
            nodes = locked.pop(rng.randrange(len(locked)))
            deltas = {c.dec_lock_ref(n).delta for c, n in zip(caches, nodes, strict=True)}
            assert len(deltas) == 1, (step, deltas)
        old = rng.choice(prompts)
        tail = [rng.randrange(3) for _ in range(rng.randrange(3 * page_size + 4))]
        tokens = (old[: rng.randrange(len(old) + 1)] + tail)[: 30 * page_size]
        extra = rng.choice([None, "adapter"])
        prompts = [*prompts[-30:], tokens]
        seen, nodes = [], []
        for cache in caches:
            allocator = cache.token_to_kv_pool_allocator
            key = theirs.RadixKey(array("q", tokens), extra)
            match = cache.match_prefix(base.MatchPrefixParams(key=key))
            hit = match.device_prefix_len
            slots = cache.path_device_indices(match.last_device_node)
            lock = cache.inc_lock_ref(match.last_device_node).delta
            count = len(tokens) // page_size - hit // page_size
            new = allocator.alloc(count)
            value = torch.cat((slots, new))
            key = theirs.RadixKey(array("q", tokens), extra)
            result = cache.insert(base.InsertParams(key=key, value=value))
            assert result.prefix_len == hit
            # The same with new pages: all are duplicates, and the caller's to free.
            again = allocator.alloc(len(tokens) // page_size)
            key = theirs.RadixKey(array("q", tokens), extra)
            result = cache.insert(base.InsertParams(key=key, value=again))
            assert result.prefix_len == len(again)
            allocator.free(again)
            end = cache.path_device_indices(result.last_device_node)
            sizes = (cache.evictable_size(), cache.protected_size(), cache.total_size())
            assert sizes[2] + len(allocator.pages) * page_size == allocator.size
            seen.append((hit, slots.tolist(), lock, end.tolist(), sizes))
            nodes.append(match.last_device_node)
        assert seen[0] == seen[1], (step, seen)
        if len(locked) < 4:
            locked.append(nodes)
        else:
            for cache, node in zip(caches, nodes, strict=True):
                cache.dec_lock_ref(node)
        if min(len(c.token_to_kv_pool_allocator.pages) for c in caches) < 130:
            # Whole nodes go there and single pages here: so everything that may go, goes.
            gone = {
                c.evict(base.EvictParams(num_tokens=c.evictable_size())).num_tokens_evicted
                for c in caches
            }
            assert len(gone) == 1, (step, gone)
    caches[1].cache.check()
    print(f"equal: page {page_size}")


run(1)
run(16)
