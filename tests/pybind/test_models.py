# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""BlockPool and PrefixCache beside their slow models, through random operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

import kv_models
import servecore

MOST_BLOCKS = 12

pool_sizes = st.sampled_from([0, 1, 4, 8, MOST_BLOCKS])
# The two ends stand for foreign ids; see PoolMachine.ids.
blocks = st.integers(-1, MOST_BLOCKS)
block_lists = st.lists(blocks, max_size=8)
counts = st.one_of(st.integers(-1, MOST_BLOCKS + 1), st.just(2**31), st.just(2**70))
# Beginnings of few sequences that share beginnings, so that lookups find something.
SEQUENCES = [[0] * 8, [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0, 0, 1], [1] * 8]
token_lists = st.builds(
    lambda sequence, length: sequence[:length], st.sampled_from(SEQUENCES), st.integers(0, 8)
)
namespaces = st.sampled_from(["", "other"])
priorities = st.integers(-2, 2)
dtypes = st.sampled_from([np.int32, np.int64])
steps = st.sampled_from([1, 3, -1, -2])


def as_array(values: list[int], dtype: Any, step: int) -> np.ndarray[Any, Any]:
    """The values as an array with that step between them."""
    spread = np.full(len(values) * abs(step), -5, dtype=dtype)
    view = spread[::step]
    view[:] = values
    return view


def plain(value: Any) -> Any:
    """Arrays as lists, so that results can be compared."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    """What a call gives, or the type of what it raises."""
    try:
        return ("result", plain(call()))
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        return ("error", type(error))


class PoolMachine(RuleBasedStateMachine):
    """Every operation on a pool, valid or not."""

    @initialize(num_blocks=pool_sizes)
    def make(self, num_blocks: int) -> None:
        self.real = servecore.BlockPool(num_blocks)
        self.model = kv_models.ModelPool(num_blocks)

    def ids(self, drawn: list[int]) -> list[int]:
        """Mostly ids of the pool, whatever its size."""
        ends = (-1, MOST_BLOCKS)
        return [i if i in ends else i % max(1, self.model.num_blocks) for i in drawn]

    def both(self, real: Callable[[], Any], model: Callable[[], Any]) -> None:
        assert outcome(real) == outcome(model)

    @rule(n=counts)
    def allocate(self, n: int) -> None:
        self.both(lambda: self.real.allocate(n), lambda: self.model.allocate(n))

    @rule(n=counts)
    def allocate_array(self, n: int) -> None:
        self.both(lambda: self.real.allocate_array(n), lambda: self.model.allocate(n))

    @rule(many=st.lists(st.integers(-1, 5), max_size=4))
    def allocate_many(self, many: list[int]) -> None:
        self.both(lambda: self.real.allocate_many(many), lambda: self.model.allocate_many(many))

    @rule(many=st.lists(st.integers(0, 5), max_size=4), dtype=dtypes, step=steps)
    def allocate_many_array(self, many: list[int], dtype: Any, step: int) -> None:
        result = self.real.allocate_many_array(as_array(many, dtype, step))
        expected = self.model.allocate_many(many)
        if result is None:
            assert expected is None
        else:
            ids, offsets = result
            assert [part.tolist() for part in np.split(ids, offsets[1:-1])][: len(many)] == expected

    @rule(block=blocks)
    def retain(self, block: int) -> None:
        (block,) = self.ids([block])
        self.both(lambda: self.real.retain(block), lambda: self.model.retain(block))

    @rule(block=blocks)
    def release(self, block: int) -> None:
        (block,) = self.ids([block])
        self.both(lambda: self.real.release(block), lambda: self.model.release(block))

    @rule(ids=block_lists, dtype=dtypes, step=steps)
    def retain_array(self, ids: list[int], dtype: Any, step: int) -> None:
        ids = self.ids(ids)
        array = as_array(ids, dtype, step)
        self.both(lambda: self.real.retain_array(array), lambda: self.model.retain_array(ids))

    @rule(ids=block_lists, dtype=dtypes, step=steps)
    def release_array(self, ids: list[int], dtype: Any, step: int) -> None:
        ids = self.ids(ids)
        array = as_array(ids, dtype, step)
        self.both(lambda: self.real.release_array(array), lambda: self.model.release_array(ids))

    @rule(too_many=st.integers(0, 1))
    def release_all_that_are_held(self, too_many: int) -> None:
        ids = [block for block, refs in enumerate(self.model.loose) for _ in range(refs)]
        ids += ids[:too_many]
        array = np.array(ids, dtype=np.int32)
        self.both(lambda: self.real.release_array(array), lambda: self.model.release_array(ids))

    @invariant()
    def equal(self) -> None:
        self.real.check()
        assert self.real.stats() == self.model.stats()
        assert self.real.num_free == self.model.num_free
        for block in range(self.model.num_blocks):
            assert self.real.ref_count(block) == self.model.ref_count(block)


class CacheMachine(PoolMachine):
    """Every operation on a cache, and on its pool beside it."""

    matches = Bundle("matches")

    @initialize(
        num_blocks=pool_sizes,
        block_size=st.sampled_from([1, 2, 3, 16]),
        eviction=st.sampled_from(sorted(kv_models.RANKS)),
    )
    def make(self, num_blocks: int, block_size: int, eviction: str) -> None:
        super().make(num_blocks)
        self.block_size = block_size
        self.real_cache = servecore.PrefixCache(self.real, block_size, eviction=eviction)
        self.model_cache = kv_models.ModelCache(self.model, block_size, eviction=eviction)

    @rule(target=matches, tokens=token_lists, dtype=dtypes, step=steps, namespace=namespaces)
    def match(self, tokens: list[int], dtype: Any, step: int, namespace: str) -> Any:
        array = as_array(tokens, dtype, step)
        real = self.real_cache.match(array, namespace=namespace)
        model = self.model_cache.match(tokens, namespace=namespace)
        assert real.num_tokens == model.num_tokens
        assert real.block_ids.tolist() == model.block_ids
        return (real, model) if model.block_ids else multiple()

    @rule(
        target=matches,
        requests=st.lists(st.tuples(token_lists, namespaces), max_size=4),
        dtype=dtypes,
        step=steps,
    )
    def match_many(self, requests: list[Any], dtype: Any, step: int) -> Any:
        tokens = [token for some, _ in requests for token in some]
        offsets = [0]
        for some, _ in requests:
            offsets.append(offsets[-1] + len(some))
        names = [name for _, name in requests]
        real = self.real_cache.match_many(as_array(tokens, dtype, step), offsets, namespace=names)
        model = self.model_cache.match_many(tokens, offsets, namespace=names)
        for ours, theirs in zip(real, model, strict=True):
            assert ours.block_ids.tolist() == theirs.block_ids
        return multiple(*(pair for pair in zip(real, model, strict=True) if pair[1].block_ids))

    @rule(pair=matches)
    def release_match(self, pair: Any) -> None:
        real, model = pair
        self.both(real.release, model.release)

    @rule(
        tokens=token_lists,
        ids=block_lists,
        dtype=dtypes,
        step=steps,
        namespace=namespaces,
        priority=priorities,
    )
    def insert_any(
        self,
        tokens: list[int],
        ids: list[int],
        dtype: Any,
        step: int,
        namespace: str,
        priority: int,
    ) -> None:
        self.insert(tokens, self.ids(ids), dtype, step, namespace, priority)

    @rule(tokens=token_lists, dtype=dtypes, step=steps, namespace=namespaces, priority=priorities)
    def serve(
        self, tokens: list[int], dtype: Any, step: int, namespace: str, priority: int
    ) -> None:
        """What an engine does for a request: match, allocate the rest, insert, give back."""
        array = as_array(tokens, dtype, step)
        real = self.real_cache.match(array, namespace=namespace)
        model = self.model_cache.match(tokens, namespace=namespace)
        needed = max(0, len(tokens) // self.block_size - len(model.block_ids))
        own = self.real_cache.allocate(needed)
        assert own == self.model_cache.allocate(needed)
        if own is not None:
            self.insert(tokens, model.block_ids + own, dtype, step, namespace, priority)
            self.real.release_array(np.array(own, dtype=np.int32))
            self.model.release_array(own)
        real.release()
        model.release()

    def insert(
        self,
        tokens: list[int],
        ids: list[int],
        dtype: Any,
        step: int,
        namespace: str,
        priority: int,
    ) -> None:
        array: Any = as_array(tokens, dtype, step)
        if step == 1:
            array = servecore.TokenBuffer(array)

        def real() -> Any:
            result = self.real_cache.insert(
                array, as_array(ids, dtype, step), namespace=namespace, priority=priority
            )
            return (result.num_new_tokens, result.duplicates.tolist())

        def model() -> Any:
            result = self.model_cache.insert(tokens, ids, namespace=namespace, priority=priority)
            return (result.num_new_tokens, result.duplicates)

        self.both(real, model)

    @rule(n=counts)
    def allocate_by_eviction(self, n: int) -> None:
        self.both(lambda: self.real_cache.allocate(n), lambda: self.model_cache.allocate(n))

    @rule(n=st.integers(-1, MOST_BLOCKS))
    def evict(self, n: int) -> None:
        self.both(lambda: self.real_cache.evict(n), lambda: self.model_cache.evict(n))

    @rule()
    def reset(self) -> None:
        self.real_cache.reset()
        self.model_cache.reset()

    @invariant()
    def caches_equal(self) -> None:
        self.real_cache.check()
        stats = self.real_cache.stats()
        assert 0 <= stats.pop("num_nodes") <= stats["num_cached_blocks"]
        assert stats == self.model_cache.stats()
        events = self.real_cache.events()
        columns = (events.is_stored, events.block_ids, events.parent_ids)
        assert list(zip(*map(np.ndarray.tolist, columns), strict=True)) == self.model_cache.events()
        assert events.num_lost == 0


# Speed of the machine is no property of the code, so there is no deadline.
_SETTINGS = settings(
    max_examples=200,
    stateful_step_count=50,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)

TestPool = PoolMachine.TestCase
TestPool.settings = _SETTINGS
TestCache = CacheMachine.TestCase
TestCache.settings = _SETTINGS
