# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What several tests of the binding share."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import servecore


@contextlib.contextmanager
def unchanged(*objects: servecore.BlockPool | servecore.PrefixCache) -> Iterator[None]:
    """Asserts that the block leaves pools and caches as they are, and whole."""
    before = [(thing.stats(), free_blocks(thing)) for thing in objects]
    yield
    for thing in objects:
        thing.check()
    assert [(thing.stats(), free_blocks(thing)) for thing in objects] == before


def free_blocks(thing: servecore.BlockPool | servecore.PrefixCache) -> list[int]:
    """The blocks of a pool that have no reference, [] for a cache."""
    if isinstance(thing, servecore.PrefixCache):
        return []
    return [block for block in range(thing.num_blocks) if thing.ref_count(block) == 0]


class GilTicker:
    """A thread that counts whenever the thread that uses it has given up the GIL.

    The interpreter is told not to take the GIL away from anybody, so the count moves only in calls
    that give it up by themselves.
    """

    def __init__(self) -> None:
        self._count = 0
        self._stop = False
        self._interval = sys.getswitchinterval()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> GilTicker:
        self._thread.start()
        while self._count == 0:
            time.sleep(0)
        sys.setswitchinterval(1000)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.setswitchinterval(self._interval)
        self._stop = True
        self._thread.join()

    def _run(self) -> None:
        while not self._stop:
            self._count += 1
            time.sleep(0)

    def ticks_during(self, call: Callable[[], Any]) -> int:
        """How often the other thread ran while the call did."""
        before = self._count
        call()
        return self._count - before
