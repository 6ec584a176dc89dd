# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The drop-in for SGLang's RadixCache; beside the real one where PEERS names it."""

import os
import subprocess
from array import array
from pathlib import Path
from types import SimpleNamespace as Bag

import pytest
import torch

import servecore
from servecore.integrations.sglang import RadixCache


class Allocator:
    """Pages of slots; page 0 is for padding. A page freed twice is an error."""

    device = "cpu"

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.size = num_pages * page_size
        self.page_size = page_size
        self.pages = list(range(1, num_pages + 1))

    def alloc(self, count: int) -> torch.Tensor:
        taken, self.pages = self.pages[:count], self.pages[count:]
        slots = torch.tensor(taken).reshape(-1, 1) * self.page_size + torch.arange(self.page_size)
        return slots.reshape(-1)

    def free(self, slots: torch.Tensor) -> None:
        pages = torch.unique(slots // self.page_size).tolist()
        assert not set(pages) & set(self.pages)
        self.pages += pages


class Rows:
    """SGLang's ReqToTokenPool."""

    def __init__(self) -> None:
        self.req_to_token = torch.zeros((4, 64), dtype=torch.int32)

    def write(self, where: tuple[int, slice], slots: torch.Tensor) -> None:
        self.req_to_token[where] = slots.to(torch.int32)


def make(page_size: int = 4, num_pages: int = 8, **options: object) -> RadixCache:
    fields = {
        "disable": False,
        "req_to_token_pool": Rows(),
        "token_to_kv_pool_allocator": Allocator(num_pages, page_size),
        "page_size": page_size,
    }
    return RadixCache(Bag(**(fields | options)))


def key(tokens: range | list[int], extra: str | None = None, salt: str | None = None) -> Bag:
    return Bag(token_ids=array("q", tokens), extra_key=extra, cache_salt=salt)


def put(cache: RadixCache, k: Bag, **more: object) -> torch.Tensor:
    value = cache.token_to_kv_pool_allocator.alloc(len(k.token_ids) // cache.page_size)
    cache.insert(Bag(key=k, value=value, **more))
    return value


def numbers(cache: RadixCache) -> tuple[object, ...]:
    cache.cache.check()
    cache.pool.check()
    sizes = (cache.evictable_size(), cache.protected_size(), cache.total_size())
    return (cache.cache.stats(), cache.pool.stats(), *sizes)


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_what_was_inserted_is_found(page_size: int) -> None:
    cache = make(page_size)
    value = put(cache, key(range(3 * page_size)))
    found = cache.match_prefix(Bag(key=key(range(2 * page_size))))
    assert found.device_prefix_len == 2 * page_size
    assert cache.path_device_indices(found.last_device_node).equal(value[: 2 * page_size])
    assert cache.match_prefix(Bag(key=key([]))).last_device_node is cache.root_node


def test_namespaces_are_strangers() -> None:
    cache = make()
    put(cache, key(range(4), "a"))
    for extra, salt in [(None, None), ("b", None), (None, "a"), ("a", "a"), ("", None)]:
        assert cache.match_prefix(Bag(key=key(range(4), extra, salt))).device_prefix_len == 0
    assert cache.match_prefix(Bag(key=key(range(4), "a"))).device_prefix_len == 4


def test_a_locked_prefix_is_not_evicted_and_comes_back_after() -> None:
    cache = make()
    put(cache, key(range(12)))
    node = cache.match_prefix(Bag(key=key(range(8)))).last_device_node
    assert cache.inc_lock_ref(node).delta == -8
    assert (cache.evictable_size(), cache.protected_size()) == (4, 8)
    assert cache.evict(Bag(num_tokens=100)).num_tokens_evicted == 4
    assert cache.dec_lock_ref(node).delta == 8
    assert cache.evict(Bag(num_tokens=1)).num_tokens_evicted == 4  # a page, not a node
    assert cache.evict(Bag(num_tokens=100)).num_tokens_evicted == 4
    assert sorted(cache.token_to_kv_pool_allocator.pages) == list(range(1, 9))


def test_an_unbalanced_unlock_is_an_error() -> None:
    cache = make()
    put(cache, key(range(8)))
    node = cache.match_prefix(Bag(key=key(range(8)))).last_device_node
    cache.inc_lock_ref(node)
    cache.dec_lock_ref(node)
    before = numbers(cache)
    with pytest.raises(RuntimeError, match="0 locks"):
        cache.dec_lock_ref(node)
    assert numbers(cache) == before


@pytest.mark.parametrize("forget", ["evict", "evict and reuse", "reset"])
def test_a_stale_node_is_an_error(forget: str) -> None:
    cache = make(num_pages=1)
    put(cache, key(range(4)))
    node = cache.match_prefix(Bag(key=key(range(4)))).last_device_node
    if forget == "reset":
        cache.reset()
    else:
        cache.evict(Bag(num_tokens=4))
    if forget == "evict and reuse":
        put(cache, key(range(4, 8)))
    before = numbers(cache)
    with pytest.raises(RuntimeError, match="not cached any more"):
        cache.inc_lock_ref(node)
    assert numbers(cache) == before


@pytest.mark.parametrize(
    ("slots", "error"),
    [
        (range(4), RuntimeError),
        (range(4, 7), ValueError),
        (range(5, 9), ValueError),
        ([4, 5, 7, 6], ValueError),
        (range(36, 40), IndexError),
        (range(8, 12), ValueError),  # cached at another place
    ],
)
def test_wrong_slots_are_an_error(slots: list[int], error: type[Exception]) -> None:
    cache = make()
    cache.insert(Bag(key=key(range(50, 54)), value=torch.arange(8, 12)))
    before = numbers(cache)
    with pytest.raises(error):
        cache.insert(Bag(key=key(range(4)), value=torch.tensor(list(slots))))
    assert numbers(cache) == before


def test_options_that_are_not_there_are_an_error() -> None:
    for options in [{"eviction_policy": "mru"}, {"enable_kv_cache_events": True}]:
        with pytest.raises(ValueError, match=r"must be one of|only False"):
            make(**options)


def test_metrics_that_are_not_there_are_a_warning() -> None:
    with pytest.warns(UserWarning, match="reports no eviction metrics"):
        make(enable_metrics=True)


def test_priority_decides() -> None:
    cache = make(eviction_policy="priority")
    put(cache, key(range(4)), priority=2)
    put(cache, key(range(4, 8)), priority=1)
    cache.evict(Bag(num_tokens=4))
    assert cache.match_prefix(Bag(key=key(range(4)))).device_prefix_len == 4


def test_equal_requests_share_and_leak_nothing() -> None:
    cache = make()
    allocator = cache.token_to_kv_pool_allocator
    reqs = []
    for row in range(2):
        slots = allocator.alloc(3)
        cache.req_to_token_pool.write((row, slice(0, 12)), slots)
        kv = Bag(req_pool_idx=row, cache_protected_len=0, cache_inserted_len=0)
        ids = array("q", range(10))
        reqs.append(
            Bag(kv=kv, full_untruncated_fill_ids=ids, extra_key=None, priority=None, lock=None)
        )
    for req in reqs:
        cache.checkpoint(req, up_to=10)
    rows = cache.req_to_token_pool.req_to_token
    assert rows[0, :8].equal(rows[1, :8])
    assert cache.protected_size() == 8
    for req in reqs:
        allocator.free(rows[req.kv.req_pool_idx, req.kv.cache_protected_len : 10])
        cache.unlock(req.lock)
    assert len(allocator.pages) + cache.total_size() // 4 == 8
    assert cache.evictable_size() == 8


def test_requests_of_earlier_releases() -> None:
    cache = make()
    allocator = cache.token_to_kv_pool_allocator
    for row in range(2):
        cache.req_to_token_pool.write((row, slice(0, 12)), allocator.alloc(3))
        req = Bag(
            req_pool_idx=row,
            cache_protected_len=0,
            fill_ids=list(range(9)),
            origin_input_ids=list(range(9)),
            output_ids=[9, 10],
            extra_key=None,
            priority=None,
            last_node=cache.root_node,
            pop_committed_kv_cache=lambda: 10,
        )
        cache.cache_unfinished_req(req)
        assert req.prefix_indices.tolist() == cache.req_to_token_pool.req_to_token[row, :9].tolist()
        assert cache.protected_size() == 8
        cache.cache_finished_req(req)
        assert (cache.evictable_size(), cache.protected_size()) == (8, 0)
        assert len(allocator.pages) + cache.total_size() // 4 == 8


def test_beside_sglang() -> None:
    peers = os.environ.get("PEERS")
    if not peers:
        pytest.skip("PEERS is not set: SGLang's RadixCache was not run beside ours")
    package = Path(servecore.__file__).parents[1]
    script = Path(__file__).with_name("sglang_beside.py")
    env = os.environ | {"PYTHONPATH": str(package)}
    done = subprocess.run(
        [f"{peers}/venv/bin/python", script], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal: page 1\nequal: page 16\n" in done.stdout
