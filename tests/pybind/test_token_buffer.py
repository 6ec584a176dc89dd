# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of TokenBuffer: the tokens of a request that grows, read in place."""

from __future__ import annotations

import array
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from servecore import BlockPool, PrefixCache, TokenBuffer, common_prefix, count_eos


def test_it_keeps_what_is_appended() -> None:
    buffer = TokenBuffer()
    assert len(buffer) == 0
    assert repr(buffer) == "<TokenBuffer tokens=0>"
    buffer.append(5)
    buffer.append(np.int64(6))
    buffer.append([7, 8])
    buffer.append((9,))
    buffer.append(range(10, 12))
    buffer.append(np.array([12, 0, 13], dtype=np.int32)[::2])
    buffer.append(array.array("q", [14]))
    buffer.append([])
    buffer.append(TokenBuffer([15]))
    assert buffer.to_numpy().tolist() == list(range(5, 16))
    assert buffer.to_numpy().dtype == np.int32
    assert len(buffer) == 11


def test_it_widens_for_the_first_token_that_needs_it() -> None:
    buffer = TokenBuffer(np.arange(3, dtype=np.int64))
    before = buffer.to_numpy()
    buffer.append(2**40)
    assert before.dtype == np.int32
    assert buffer.to_numpy().dtype == np.int64
    assert buffer.to_numpy().tolist() == [0, 1, 2, 2**40]


def test_its_arrays_are_views_of_what_was_there() -> None:
    buffer = TokenBuffer(range(100))
    first, second = buffer.to_numpy(), buffer.to_numpy()
    assert np.shares_memory(first, second)
    assert not first.flags.writeable
    buffer.append(range(1000))
    assert len(first) == 100
    del buffer, second
    gc.collect()
    assert first.tolist() == list(range(100))


@pytest.mark.parametrize(
    ("tokens", "error", "words"),
    [
        (1.5, TypeError, "tokens"),
        (True, TypeError, "bool"),
        (None, TypeError, "None"),
        ("12", TypeError, "tokens"),
        ([1, 2.5], TypeError, r"tokens\[1\]"),
        (np.array([1.5]), TypeError, "int32 or int64"),
        (np.zeros((2, 2), np.int32), ValueError, "dimension"),
        (2**70, ValueError, "tokens"),
        ([2**70], ValueError, r"tokens\[0\]"),
    ],
)
def test_what_is_no_tokens_is_refused(tokens: Any, error: type[Exception], words: str) -> None:
    buffer = TokenBuffer([1])
    with pytest.raises(error, match=words):
        buffer.append(tokens)
    assert buffer.to_numpy().tolist() == [1]
    if not isinstance(tokens, int):
        with pytest.raises(error, match=words):
            TokenBuffer(tokens)


def test_it_stands_for_an_array() -> None:
    pool = BlockPool(8)
    cache = PrefixCache(pool, 2)
    buffer = TokenBuffer([1, 2, 3])
    blocks = cache.allocate(2)
    assert blocks is not None
    assert cache.insert(buffer, blocks).num_new_tokens == 2
    buffer.append([4])
    assert cache.insert(buffer, blocks).num_new_tokens == 2
    assert cache.match(buffer).num_tokens == 4
    assert cache.match(np.array([1, 2, 3, 4])).num_tokens == 4
    many = cache.match_many(buffer, [0, 2, 4])
    assert [match.num_tokens for match in many] == [2, 0]
    assert common_prefix(buffer, [1, 2, 9]) == 2
    assert count_eos(buffer, 4) == 1


def test_one_that_was_not_constructed_is_an_error() -> None:
    cache = PrefixCache(BlockPool(1), 1)
    with pytest.raises(TypeError, match="__init__"):
        cache.match(TokenBuffer.__new__(TokenBuffer))


def test_it_is_collected() -> None:
    class Watched(TokenBuffer):
        pass

    buffer = Watched([1])
    gone = weakref.ref(buffer)
    del buffer
    gc.collect()
    assert gone() is None


def test_threads_append_and_read_at_once() -> None:
    buffer = TokenBuffer()
    cache = PrefixCache(BlockPool(1), 1)
    wrong = []

    def append() -> None:
        for token in range(3000):
            buffer.append(token)

    def read() -> None:
        while len(buffer) < 3000:
            tokens = buffer.to_numpy()
            cache.match(buffer)
            if not np.array_equal(tokens, np.arange(len(tokens))):
                wrong.append(tokens)

    threads = [threading.Thread(target=target) for target in (append, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(buffer) == 3000
