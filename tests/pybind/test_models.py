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
# Beginnings of few sequences that share beginnings, so that lookups find something, and part in
# the middle of what one insert brought.
SEQUENCES = [[0] * 8, [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0, 0, 1], [1] * 8]
token_lists = st.builds(
    lambda sequence, length: sequence[:length], st.sampled_from(SEQUENCES), st.integers(0, 8)
)
namespaces = st.sampled_from(["", "other"])
priorities = st.integers(-2, 2)
dtypes = st.sampled_from([np.int32, np.int64])
steps = st.sampled_from([1, 3, -1, -2])
caches = st.integers(0, 1)


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
    """Every operation on two caches, and on their pool beside them."""

    matches = Bundle("matches")

    @initialize(
        num_blocks=pool_sizes,
        block_size=st.sampled_from([1, 2, 3, 16]),
        evictions=st.tuples(*[st.sampled_from(sorted(kv_models.RANKS))] * 2),
        max_events=st.sampled_from([0, 3, 2**20]),
    )
    def make(
        self, num_blocks: int, block_size: int, evictions: tuple[str, str], max_events: int
    ) -> None:
        super().make(num_blocks)
        self.block_size = block_size
        # So that blocks of every size end within what the few sequences share, and split it.
        self.stretch = 1 if block_size < 4 else 6
        self.options = [{"eviction": name, "max_events": max_events} for name in evictions]
        self.reals = [self.new_cache(servecore.PrefixCache, self.real, i) for i in (0, 1)]
        self.models = [self.new_cache(kv_models.ModelCache, self.model, i) for i in (0, 1)]

    def new_cache(self, cls: Any, pool: Any, which: int) -> Any:
        return cls(pool, self.block_size, **self.options[which])

    def stretched(self, tokens: list[int], dtype: Any) -> list[int]:
        """The tokens as a dtype shows them: what int64 is for would be taken for 1 by int32."""
        one = 1 if dtype is np.int32 else 1 + 2**32
        return [token * one for token in tokens for _ in range(self.stretch)]

    def as_tokens(self, tokens: list[int], dtype: Any, step: int) -> Any:
        array = as_array(tokens, dtype, step)
        return servecore.TokenBuffer(array) if step == 1 else array

    @rule(
        target=matches,
        which=caches,
        tokens=token_lists,
        dtype=dtypes,
        step=steps,
        namespace=namespaces,
    )
    def match(self, which: int, tokens: list[int], dtype: Any, step: int, namespace: str) -> Any:
        tokens = self.stretched(tokens, dtype)
        array = self.as_tokens(tokens, dtype, step)
        real = self.reals[which].match(array, namespace=namespace)
        model = self.models[which].match(tokens, namespace=namespace)
        assert real.num_tokens == model.num_tokens
        assert real.block_ids.tolist() == model.block_ids
        return (real, model) if model.block_ids else multiple()

    @rule(
        target=matches,
        which=caches,
        requests=st.lists(st.tuples(token_lists, namespaces), max_size=4),
        dtype=dtypes,
        step=steps,
    )
    def match_many(self, which: int, requests: list[Any], dtype: Any, step: int) -> Any:
        parts = [self.stretched(tokens, dtype) for tokens, _ in requests]
        tokens = [token for part in parts for token in part]
        offsets = [0]
        for part in parts:
            offsets.append(offsets[-1] + len(part))
        names = [name for _, name in requests]
        array = self.as_tokens(tokens, dtype, step)
        real = self.reals[which].match_many(array, offsets, namespace=names)
        model = self.models[which].match_many(tokens, offsets, namespace=names)
        for ours, theirs in zip(real, model, strict=True):
            assert ours.block_ids.tolist() == theirs.block_ids
        return multiple(*(pair for pair in zip(real, model, strict=True) if pair[1].block_ids))

    @rule(pair=matches)
    def release_match(self, pair: Any) -> None:
        real, model = pair
        self.both(real.release, model.release)

    @rule(
        which=caches,
        tokens=token_lists,
        ids=block_lists,
        dtype=dtypes,
        step=steps,
        namespace=namespaces,
        priority=priorities,
    )
    def insert_any(
        self,
        which: int,
        tokens: list[int],
        ids: list[int],
        dtype: Any,
        step: int,
        namespace: str,
        priority: int,
    ) -> None:
        tokens = self.stretched(tokens, dtype)
        self.insert(which, tokens, self.ids(ids), dtype, step, namespace, priority)

    @rule(
        which=caches,
        tokens=token_lists,
        dtype=dtypes,
        step=steps,
        namespace=namespaces,
        priority=priorities,
    )
    def serve(
        self, which: int, tokens: list[int], dtype: Any, step: int, namespace: str, priority: int
    ) -> None:
        """What an engine does for a request: match, allocate the rest, insert, give back."""
        tokens = self.stretched(tokens, dtype)
        real = self.reals[which].match(as_array(tokens, dtype, step), namespace=namespace)
        model = self.models[which].match(tokens, namespace=namespace)
        needed = max(0, len(tokens) // self.block_size - len(model.block_ids))
        own = self.reals[which].allocate(needed)
        assert own == self.models[which].allocate(needed)
        if own is not None:
            self.insert(which, tokens, model.block_ids + own, dtype, step, namespace, priority)
            self.real.release_array(np.array(own, dtype=np.int32))
            self.model.release_array(own)
        real.release()
        model.release()

    def insert(
        self,
        which: int,
        tokens: list[int],
        ids: list[int],
        dtype: Any,
        step: int,
        namespace: str,
        priority: int,
    ) -> None:
        def real() -> Any:
            array = self.as_tokens(tokens, dtype, step)
            result = self.reals[which].insert(
                array, as_array(ids, dtype, step), namespace=namespace, priority=priority
            )
            return (result.num_new_tokens, result.duplicates.tolist())

        def model() -> Any:
            result = self.models[which].insert(tokens, ids, namespace=namespace, priority=priority)
            return (result.num_new_tokens, result.duplicates)

        self.both(real, model)

    @rule(which=caches, n=counts, as_an_array=st.booleans())
    def allocate_by_eviction(self, which: int, n: int, as_an_array: bool) -> None:
        cache = self.reals[which]
        real = cache.allocate_array if as_an_array else cache.allocate
        self.both(lambda: real(n), lambda: self.models[which].allocate(n))

    @rule(which=caches, n=st.integers(-1, MOST_BLOCKS))
    def evict(self, which: int, n: int) -> None:
        self.both(lambda: self.reals[which].evict(n), lambda: self.models[which].evict(n))

    @rule(which=caches)
    def reset(self, which: int) -> None:
        self.reals[which].reset()
        self.models[which].reset()

    @rule(which=caches)
    def forget_the_cache(self, which: int) -> None:
        """Its end gives back what it held; matches of it go on."""
        self.reals[which] = self.new_cache(servecore.PrefixCache, self.real, which)
        self.models[which].reset()
        self.models[which] = self.new_cache(kv_models.ModelCache, self.model, which)

    @rule(which=caches)
    def fetch_events(self, which: int) -> None:
        events = self.reals[which].events()
        columns = (events.is_stored, events.block_ids, events.parent_ids)
        told = list(zip(*map(np.ndarray.tolist, columns), strict=True))
        assert (told, events.num_lost) == self.models[which].events()

    @invariant()
    def caches_equal(self) -> None:
        for real, model in zip(self.reals, self.models, strict=True):
            real.check()
            stats = real.stats()
            assert 0 <= stats.pop("num_nodes") <= stats["num_cached_blocks"]
            assert stats == model.stats()

    def teardown(self) -> None:
        for which in range(len(getattr(self, "reals", []))):
            self.fetch_events(which)


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
