# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What a replay tells: tables for people, one JSON object for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TextIO

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from servecore_tools.replay import Plan, Result


def to_record(
    plan: Plan, result: Result, *, version: str, options: Mapping[str, object]
) -> dict[str, object]:
    """Gathers everything that the JSON holds.

    Rates are fractions, `seconds` and `core_seconds` seconds, `*_us` microseconds.

    Args:
        plan: What was replayed, and how.
        result: What came out.
        version: Version of servecore.
        options: The options as they were in force.
    """
    return {
        "tool": "servecore replay",
        "version": version,
        "trace": plan.trace.name,
        "form": plan.trace.form,
        "options": dict(options),
        "skipped_lines": plan.trace.num_skipped,
        **asdict(result),
        "hit_rate_tokens": result.hit_rate_tokens,
        "hit_rate_blocks": result.hit_rate_blocks,
        "core_seconds": result.core_seconds,
    }


def print_report(plan: Plan, result: Result, stream: TextIO) -> None:
    """Prints the tables, coloured where the stream is a terminal.

    Raises:
        OSError: The stream cannot be written.
    """
    console = Console(file=stream, highlight=False)
    with console.capture() as capture:
        console.print(_headline(plan, result))
        console.print(_counts(plan, result))
        console.print(_times(result))
    # Written here, because a rich console ends the program by itself on some errors.
    stream.write(capture.get())
    stream.flush()


def _headline(plan: Plan, result: Result) -> Text:
    trace = plan.trace
    ids = "ids as published" if trace.shares_prefixes else "lengths only"
    text = Text()
    text.append(trace.name, style="bold")
    text.append(f"\n{trace.form} form, {ids}{', expanded to tokens' if plan.expand else ''}; ")
    text.append(f"a pool of {result.pool_blocks:,} blocks of {plan.block_size} tokens")
    return text


def _counts(plan: Plan, result: Result) -> Table:
    table = Table(box=SIMPLE, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_row("requests", f"{result.requests:,}", "")
    if plan.trace.num_skipped:
        table.add_row("broken lines skipped", f"{plan.trace.num_skipped:,}", "")
    if result.rejected_requests:
        table.add_row(
            "requests rejected",
            f"{result.rejected_requests:,}",
            "each needs more blocks than the pool has; counted nowhere below",
        )
    table.add_row("prompt tokens", f"{result.tokens:,}", "")
    note = "" if plan.trace.shares_prefixes else "no prefix can be known to be shared"
    table.add_row("hit rate by tokens", f"{result.hit_rate_tokens:.2%}", note)
    table.add_row(
        "hit rate by blocks",
        f"{result.hit_rate_blocks:.2%}",
        f"{result.hit_blocks:,} of {result.blocks:,}",
    )
    table.add_row("blocks evicted", f"{result.evicted_blocks:,}", "")
    occupancy = result.peak_blocks / result.pool_blocks
    table.add_row("peak blocks in use", f"{result.peak_blocks:,}", f"{occupancy:.1%} of the pool")
    table.add_row("seconds", f"{result.seconds:.2f}", f"{result.core_seconds:.2f} in the core")
    return table


def _times(result: Result) -> Table:
    table = Table(box=SIMPLE)
    table.add_column("operation")
    for title in ("calls", "mean us", "p50 us", "p99 us", "total s"):
        table.add_column(title, justify="right")
    for name, times in result.operations.items():
        table.add_row(
            name,
            f"{times.count:,}",
            f"{times.mean_us:.2f}",
            f"{times.p50_us:.2f}",
            f"{times.p99_us:.2f}",
            f"{times.total_seconds:.3f}",
        )
    return table
