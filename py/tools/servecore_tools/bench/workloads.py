# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Requests to measure with: three shapes of traffic, the same tokens on every machine.

Each is a list of int64 token arrays, one for each request, in the order in which they arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from servecore_tools.trace import read_trace

VOCABULARY = 128_000

Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class Workload:
    """Requests under a name.

    Attributes:
        name: Its short name.
        about: What its traffic is like.
        requests: The tokens of each request.
    """

    name: str
    about: str
    requests: list[Tokens]


def shared_documents(
    num_requests: int = 1000,
    *,
    num_documents: int = 20,
    shortest: int = 2048,
    longest: int = 32_768,
    seed: int = 11,
) -> list[Tokens]:
    """Questions about a few long documents, some asked about far more often than others.

    A request's length is log-uniform between the bounds. It begins with 20 to 90 % of its length
    of one of the documents (and no less than `shortest`, where 90 % allow it), the rest is its own.
    """
    random = np.random.default_rng(seed)
    documents = [_fresh(random, longest) for _ in range(num_documents)]
    weights = 1.0 / np.arange(1, num_documents + 1)
    choices = random.choice(num_documents, size=num_requests, p=weights / weights.sum())
    lengths = np.exp(random.uniform(np.log(shortest), np.log(longest), num_requests)).astype(int)
    shares = random.uniform(0.2, 0.9, num_requests)
    requests = []
    for choice, length, share in zip(choices, lengths, shares, strict=True):
        most = int(0.9 * length)
        shared = min(most, max(shortest, int(share * length)))
        own = _fresh(random, int(length) - shared)
        requests.append(np.concatenate([documents[choice][:shared], own]))
    return requests


def chats(
    num_chats: int = 40,
    *,
    num_turns: int = 25,
    system: int = 1024,
    first: int = 2048,
    turn: int = 1024,
    seed: int = 12,
) -> list[Tokens]:
    """Chats that take turns; each turn sends the whole chat again and `turn` tokens more.

    All share a system prompt of `system` tokens, which is a part of the `first` tokens.
    """
    random = np.random.default_rng(seed)
    prompt = _fresh(random, system)
    whole = [
        np.concatenate([prompt, _fresh(random, first - system + turn * (num_turns - 1))])
        for _ in range(num_chats)
    ]
    return [chat[: first + turn * number] for number in range(num_turns) for chat in whole]


def from_trace(path: Path, num_requests: int = 1000) -> list[Tokens]:
    """The first requests of a Mooncake trace, each block id expanded to tokens of its own.

    Raises:
        TraceError: The file is no trace, or a line of it is broken.
        OSError: The file cannot be read.
    """
    trace = read_trace(path, limit=num_requests)
    places = np.arange(trace.block_tokens, dtype=np.int64) * 6_700_417
    return [
        np.ascontiguousarray(
            (
                (request.block_ids.astype(np.int64)[:, None] * 2_097_593 + places) % VOCABULARY
            ).reshape(-1)[: request.input_length]
        )
        for request in trace.requests
        if request.input_length
    ]


def make_workloads(*, quick: bool, trace: Path | None) -> list[tuple[str, Callable[[], Workload]]]:
    """What makes each workload, by name, so that only one need be in memory at a time."""

    def documents() -> Workload:
        small = {"num_requests": 24, "num_documents": 4, "longest": 8192}
        requests = shared_documents(**small) if quick else shared_documents()
        return Workload("W1", "questions about shared documents", requests)

    def turns() -> Workload:
        requests = chats(6, num_turns=4) if quick else chats()
        return Workload("MT", "chats of many turns", requests)

    makers = [("W1", documents), ("MT", turns)]
    if trace is not None:
        path = trace

        def replayed() -> Workload:
            requests = from_trace(path, 24 if quick else 1000)
            return Workload("MC", "the first requests of a trace", requests)

        makers.append(("MC", replayed))
    return makers


def _fresh(random: np.random.Generator, count: int) -> Tokens:
    return random.integers(0, VOCABULARY, count, dtype=np.int64)
