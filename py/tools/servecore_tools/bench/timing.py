# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""How a figure is taken and judged: repeats, medians, ratios and goals.

It imports the standard library only, so that it also runs in a rival's interpreter.
"""

from __future__ import annotations

import gc
import os
import statistics
import timeit
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Result = TypeVar("_Result")

DEFAULT_REPEATS = 7
QUICK_REPEATS = 3


class GoalKind(StrEnum):
    """What a goal's number bounds."""

    TIMES_THE_LIMIT = "times_the_limit"  # ours / other, at most
    TIMES_FASTER = "times_faster"  # other / ours, at least
    AT_LEAST = "at_least"  # ours itself, in its unit
    AT_MOST = "at_most"  # ours itself, in its unit
    MORE_THAN_THE_LIMIT = "more_than_the_limit"  # ours - other, at most, in their unit


@dataclass(frozen=True)
class Goal:
    """What a figure should reach.

    Attributes:
        kind: What `value` bounds.
        value: The bound.
    """

    kind: GoalKind
    value: float

    def __str__(self) -> str:
        """The goal as the table shows it."""
        return {
            GoalKind.TIMES_THE_LIMIT: f"<= {self.value:g}x",
            GoalKind.TIMES_FASTER: f">= {self.value:g}x",
            GoalKind.AT_LEAST: f">= {self.value:g}",
            GoalKind.AT_MOST: f"<= {self.value:g}",
            GoalKind.MORE_THAN_THE_LIMIT: f"<= +{self.value:g}",
        }[self.kind]


def at_most_times(value: float) -> Goal:
    """The goal of taking at most `value` times as long as the limit."""
    return Goal(GoalKind.TIMES_THE_LIMIT, value)


def times_faster(value: float) -> Goal:
    """The goal of being at least `value` times as fast as the rival."""
    return Goal(GoalKind.TIMES_FASTER, value)


def at_least(value: float) -> Goal:
    """The goal of a figure of at least `value`."""
    return Goal(GoalKind.AT_LEAST, value)


def at_most(value: float) -> Goal:
    """The goal of a figure of at most `value`."""
    return Goal(GoalKind.AT_MOST, value)


def at_most_more(value: float) -> Goal:
    """The goal of at most `value` more than the limit."""
    return Goal(GoalKind.MORE_THAN_THE_LIMIT, value)


@dataclass(frozen=True)
class Spread:
    """A median and the quartiles around it."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """The median and the quartiles of the values, interpolated between neighbours.

    Raises:
        ValueError: There are no values.
    """
    if not values:
        raise ValueError("found 0 values; allowed: 1 or more")
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


@dataclass(frozen=True)
class Figure:
    """One line of the result.

    Attributes:
        section: The section that it belongs to.
        name: What was measured.
        unit: Unit of `ours` and `other`.
        ours: The figure of each repeat.
        against: What it stands beside; empty where it stands alone.
        other: The rival's or the limit's figure of each repeat, in the same order.
        goal: What it should reach, if anything.
        parts: What `ours` is made of, repeat by repeat.
        other_parts: What `other` is made of.
        against_limit: Whether `other` is a limit to stay near to, rather than a rival to be
            faster than. Where there is a goal, its kind says so.
    """

    section: str
    name: str
    unit: str
    ours: list[float]
    against: str = ""
    other: list[float] = field(default_factory=list)
    goal: Goal | None = None
    parts: dict[str, list[float]] = field(default_factory=dict)
    other_parts: dict[str, list[float]] = field(default_factory=dict)
    against_limit: bool = False

    @property
    def is_limit(self) -> bool:
        """Whether `other` is a limit to stay near to, rather than a rival to be faster than."""
        if self.goal is None:
            return self.against_limit
        return self.goal.kind in (
            GoalKind.TIMES_THE_LIMIT,
            GoalKind.MORE_THAN_THE_LIMIT,
        )

    @property
    def ratios(self) -> list[float]:
        """Ours over the limit's, or the rival's over ours, of each repeat; empty without either.

        Both sides of a repeat were measured one right after the other, so that what slows the
        machine down for a while falls out of their ratio.
        """
        pairs = zip(self.ours, self.other, strict=False)
        if self.is_limit:
            return [ours / other for ours, other in pairs]
        return [other / ours for ours, other in pairs]

    @property
    def ratio(self) -> float | None:
        """The median of the ratios; None without a rival or limit."""
        return statistics.median(self.ratios) if self.other else None

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is reached; None without a goal, or without what it is taken from."""
        if self.goal is None:
            return None
        if self.goal.kind is GoalKind.AT_LEAST:
            return statistics.median(self.ours) >= self.goal.value
        if self.goal.kind is GoalKind.AT_MOST:
            return statistics.median(self.ours) <= self.goal.value
        if self.ratio is None:
            return None
        if self.goal.kind is GoalKind.MORE_THAN_THE_LIMIT:
            more = [ours - other for ours, other in zip(self.ours, self.other, strict=True)]
            return statistics.median(more) <= self.goal.value
        if self.is_limit:
            return self.ratio <= self.goal.value
        return self.ratio >= self.goal.value

    def to_record(self) -> dict[str, object]:
        """The figure as the JSON holds it."""
        record: dict[str, object] = asdict(self)
        record["against_limit"] = self.is_limit
        record["ours"] = _side(self.ours, self.parts)
        record["other"] = _side(self.other, self.other_parts) if self.other else None
        del record["parts"], record["other_parts"]
        record["ratio"] = self.ratio
        record["ratios"] = self.ratios
        record["met"] = self.is_met
        return record

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> Figure:
        """The figure whose `asdict` that is."""
        goal = fields["goal"]
        rebuilt = None if goal is None else Goal(GoalKind(goal["kind"]), goal["value"])
        return Figure(**{**fields, "goal": rebuilt})


def _side(values: list[float], parts: Mapping[str, list[float]]) -> dict[str, object]:
    return {**asdict(spread(values)), "repeats": values, "parts": dict(parts)}


@dataclass(frozen=True)
class LeftOut:
    """Something that was not measured, and why."""

    what: str
    why: str


def pin_thread() -> int | None:
    """Pins this thread to one of its processors and gives its number; None where that fails."""
    try:
        processor = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processor})
    except (AttributeError, OSError):
        return None
    return processor


@contextmanager
def collector_off() -> Iterator[None]:
    """Keeps the garbage collector out of what is timed, for both sides alike."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def interleaved(repeats: int, sides: Sequence[Callable[[], _Result]]) -> list[list[_Result]]:
    """Runs the sides by turns, the first one last in every other round.

    Returns:
        For each side, what each of its runs gave.
    """
    results: list[list[_Result]] = [[] for _ in sides]
    for round_number in range(repeats):
        order = list(range(len(sides)))
        if round_number % 2:
            order.reverse()
        for index in order:
            results[index].append(sides[index]())
    return results


def statement(code: str, names: Mapping[str, object], seconds: float) -> Callable[[], float]:
    """A side that times a Python statement in a bare loop.

    Args:
        code: The statement.
        names: What its names mean.
        seconds: About how long one run takes.

    Returns:
        A function whose call gives nanoseconds for each execution of the statement.
    """
    timer = timeit.Timer(code, globals=dict(names))
    count = 1
    while (taken := timer.timeit(count)) < seconds / 10:
        count *= 4
    count = max(1, round(count * seconds / taken))
    return lambda: timer.timeit(count) / count * 1e9
