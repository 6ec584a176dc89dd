# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The built-in workload: chats with shared system prompts, generated, the same every time.

It needs no file, so that the tool has something to replay on a bare clone. Its shape is that of a
chat service: a few tenants, each with a system prompt of its own that all its chats share; each
chat sends its whole history again at every turn, so that a turn finds the turns before it.
"""

from __future__ import annotations

import random

import numpy as np

from servecore_tools.trace import DEFAULT_BLOCK_TOKENS, Request, Trace

DEFAULT_REQUESTS = 10_000
DEFAULT_SEED = 7

_TENANTS = 8
_OPEN_CHATS = 48
_MAX_PROMPT_TOKENS = 8192
_CHAT_ENDS = 0.06


class _Chat:
    """One chat: the ids of its whole blocks so far, and its length in tokens."""

    def __init__(self, system_ids: list[int]) -> None:
        self.ids = list(system_ids)
        self.length = len(system_ids) * DEFAULT_BLOCK_TOKENS


def make_workload(num_requests: int = DEFAULT_REQUESTS, seed: int = DEFAULT_SEED) -> Trace:
    """Generates the workload.

    Args:
        num_requests: Number of requests, 1 or more.
        seed: Equal seeds give equal workloads, on every machine: only `random.Random.random`
            is drawn from, whose sequence Python guarantees.

    Returns:
        A trace of the form `built-in`, with ids of DEFAULT_BLOCK_TOKENS tokens.

    Raises:
        ValueError: `num_requests` is below 1.
    """
    if num_requests < 1:
        raise ValueError(f"num_requests is {num_requests}; allowed: 1 or more")
    draw = random.Random(seed).random
    next_id = 0

    def fresh(count: int) -> list[int]:
        nonlocal next_id
        next_id += count
        return list(range(next_id - count, next_id))

    def between(low: int, high: int) -> int:
        return low + int(draw() * (high - low + 1))

    systems = [fresh(between(32, 128)) for _ in range(_TENANTS)]

    def open_chat() -> _Chat:
        # The square favours the first tenants, as real services have a few large ones.
        return _Chat(systems[int(draw() ** 2 * _TENANTS)])

    chats = [open_chat() for _ in range(_OPEN_CHATS)]
    requests: list[Request] = []
    clock_ms = 0.0
    for _ in range(num_requests):
        slot = int(draw() * _OPEN_CHATS)
        chat = chats[slot]
        clock_ms += 200.0 * draw()
        question, answer = between(16, 600), between(8, 400)
        chat.length += question
        whole, rest = divmod(chat.length, DEFAULT_BLOCK_TOKENS)
        chat.ids += fresh(whole - len(chat.ids))
        # A block that is still growing is no block that a later turn can find again.
        ids = chat.ids + fresh(1 if rest else 0)
        requests.append(Request(clock_ms, chat.length, answer, np.array(ids, dtype=np.int32)))
        chat.length += answer
        if chat.length > _MAX_PROMPT_TOKENS or draw() < _CHAT_ENDS:
            chats[slot] = open_chat()
    return Trace(
        name=f"built-in workload, seed {seed}",
        form="built-in",
        block_tokens=DEFAULT_BLOCK_TOKENS,
        num_ids=next_id,
        shares_prefixes=True,
        requests=requests,
    )
