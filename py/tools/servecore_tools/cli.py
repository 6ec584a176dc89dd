# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of the replay tool: options, progress, exit codes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

import servecore
from servecore_tools.output import (
    EXIT_BAD_INPUT,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    run_app,
    to_json,
    unwritable_reason,
    user_path,
    write_atomically,
)
from servecore_tools.replay import Plan, Result, make_plan, replay
from servecore_tools.report import print_report, to_record
from servecore_tools.trace import DEFAULT_BLOCK_TOKENS, Trace, TraceError, read_trace
from servecore_tools.workload import DEFAULT_REQUESTS, make_workload

DEFAULT_BLOCKS = "10000"
MAX_BLOCKS = 2**31 - 1

_REDRAW_SECONDS = 0.1

_HINT = (
    "That was the built-in workload. Next, a trace of your own:  --trace FILE\n"
    "or the best that any cache could do:  --blocks inf      everything else:  --help"
)

_HELP = """Replays a serving trace through servecore's BlockPool and PrefixCache.

Reports hit rates by tokens and by blocks, evictions, peak occupancy, and the time of each
operation. Without --trace it replays a built-in generated workload with shared prefixes.

Each request ends before the next begins: match, allocate the missing blocks, insert, release.
Only prompts are replayed. A request that needs more blocks than the pool has is rejected and
counted.

Traces: Mooncake JSONL (one id for each 512-token block) and Azure CSV (lengths only, so no
prefix can be shared). The form is told from the content.

\b
Examples:
  replay
  replay --trace conversation.jsonl --blocks inf
  replay --trace conversation.jsonl --expand --block-size 16 --blocks 100000
  replay --trace conversation.jsonl --json - --quiet | jq .hit_rate_tokens

\b
Exit codes: 0 done; 1 the result could not be written; 2 wrong usage or a trace
that cannot be used; 130 interrupted; 141 the reader of the output went away.
"""


class Policy(StrEnum):
    """Eviction policies that the core offers."""

    LRU = "lru"
    LFU = "lfu"
    SLRU = "slru"
    FIFO = "fifo"
    PRIORITY = "priority"


@dataclass(frozen=True)
class Options:
    """The options as given, paths resolved and `--blocks` read; None where left open."""

    trace: Path | None
    blocks: int | None
    expand: bool
    block_size: int | None
    policy: Policy
    limit: int | None
    skip_bad: bool
    json_out: str | None
    quiet: bool

    @property
    def json_path(self) -> Path | None:
        """The file that the JSON goes to, if it goes to one."""
        return None if self.json_out in (None, "-") else user_path(self.json_out)

    def in_force(self, plan: Plan) -> dict[str, object]:
        """What the JSON says of the options, those included that the trace settled."""
        return {
            "blocks": "inf" if self.blocks is None else self.blocks,
            "expand": self.expand,
            "block_size": plan.block_size,
            "policy": self.policy.value,
            "limit": self.limit,
            "skip_bad": self.skip_bad,
        }


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class _ReplayError(Exception):
    """An end with a message for the user and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def main() -> None:
    """Runs the tool on `sys.argv`, and exits."""
    run_app(app, "replay")


@app.command(help=_HELP)
def replay_command(
    trace: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Trace to replay.", show_default="built-in workload"),
    ] = None,
    blocks: Annotated[
        str,
        typer.Option(
            metavar="N|inf",
            help="Blocks of the pool; inf: as many as the trace has distinct blocks, so that "
            "nothing is ever evicted.",
        ),
    ] = DEFAULT_BLOCKS,
    expand: Annotated[
        bool,
        typer.Option(
            "--expand",
            help="Expand the ids to real token arrays and keep whole blocks only. Otherwise each "
            "id is one block, the last, partial one too.",
        ),
    ] = False,
    block_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="TOKENS",
            help="Tokens of a block. One other than the trace's own needs --expand, unless the "
            "trace has lengths only.",
            show_default=f"the trace's own: 512 for Mooncake, else {DEFAULT_BLOCK_TOKENS}",
        ),
    ] = None,
    policy: Annotated[Policy, typer.Option(help="Eviction policy.")] = Policy.LRU,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Replay the first N requests only."),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Leave broken lines out, and say how many they are."),
    ] = False,
    json_out: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="OUT",
            help="Write the result as JSON, to a file (all or nothing) or, with -, to the "
            "standard output; the tables then go to the standard error.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print neither tables nor progress.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Does what the options say; turns every expected failure into a line and an exit code."""
    if version:
        print(f"servecore replay {servecore.__version__}")
        return
    options = Options(
        trace=None if trace is None else user_path(trace),
        blocks=_parse_blocks(blocks),
        expand=expand,
        block_size=block_size,
        policy=policy,
        limit=limit,
        skip_bad=skip_bad,
        json_out=json_out,
        quiet=quiet,
    )
    try:
        _run(options)
    except _ReplayError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(error.code) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _run(options: Options) -> None:
    out_path = options.json_path
    if out_path is not None:
        _check_writable(out_path)
    trace = _load(options)
    if trace.num_skipped and not options.quiet:
        _report_skipped(trace)
    try:
        plan = make_plan(
            trace, blocks=options.blocks, expand=options.expand, block_size=options.block_size
        )
    except ValueError as error:
        raise _ReplayError(f"--block-size: {error}; or add --expand", EXIT_BAD_INPUT) from None
    result = _replay(plan, options)
    # The file first: who closes the pipe on the tables still has it.
    if options.json_out is not None:
        record = to_record(
            plan, result, version=servecore.__version__, options=options.in_force(plan)
        )
        with _writing_to(str(out_path or "the standard output")):
            if out_path is None:
                sys.stdout.write(to_json(record))
                sys.stdout.flush()
            else:
                write_atomically(out_path, to_json(record))
    if not options.quiet:
        stream = sys.stderr if options.json_out == "-" else sys.stdout
        with _writing_to("the terminal" if stream.isatty() else "the standard output"):
            print_report(plan, result, stream)
            if options.trace is None:
                print(_HINT, file=stream, flush=True)


def _report_skipped(trace: Trace) -> None:
    for error in trace.skipped:
        print(f"skipped: {error}", file=sys.stderr)
    more = trace.num_skipped - len(trace.skipped)
    if more:
        print(f"skipped: {more} more broken lines", file=sys.stderr)


@contextmanager
def _writing_to(target: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _ReplayError(f"cannot write to {target}: {error.strerror}", EXIT_FAILED) from None


def _parse_blocks(text: str) -> int | None:
    if text == "inf":
        return None
    if text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MAX_BLOCKS:
        return int(text)
    raise typer.BadParameter(
        f"found {text!r}; allowed: inf, or an integer from 1 to {MAX_BLOCKS}",
        param_hint="--blocks",
    )


def _check_writable(path: Path) -> None:
    # Now, rather than when the work is done and would be lost.
    reason = unwritable_reason(path)
    if reason is not None:
        raise _ReplayError(f"--json: cannot write {path}: {reason}", EXIT_BAD_INPUT)


def _load(options: Options) -> Trace:
    if options.trace is None:
        return make_workload(options.limit or DEFAULT_REQUESTS)
    try:
        return read_trace(
            options.trace,
            block_size=options.block_size,
            skip_bad=options.skip_bad,
            limit=options.limit,
        )
    except TraceError as error:
        hint = "\n--skip-bad leaves broken lines out" if error.line and not options.skip_bad else ""
        raise _ReplayError(f"{error}{hint}", EXIT_BAD_INPUT) from None
    except OSError as error:
        reason = f"cannot read {options.trace}: {error.strerror or error}"
        raise _ReplayError(f"--trace: {reason}", EXIT_BAD_INPUT) from None


def _replay(plan: Plan, options: Options) -> Result:
    total = len(plan.trace.requests)
    done = 0
    try:
        pool = servecore.BlockPool(plan.pool_blocks)
        cache = servecore.PrefixCache(pool, plan.cache_block_size, eviction=options.policy.value)
        with _progress_bar(total, options.quiet) as bar:
            last = time.monotonic()

            def on_request() -> None:
                nonlocal done, last
                done += 1
                now = time.monotonic()
                if now - last >= _REDRAW_SECONDS:
                    last = now
                    bar.update_to(done)

            return replay(plan, pool, cache, on_request)
    except MemoryError:
        message = f"no memory for a pool of {plan.pool_blocks} blocks; take a smaller --blocks"
        raise _ReplayError(message, EXIT_BAD_INPUT) from None
    except KeyboardInterrupt:
        print(f"stopped after {done:,} of {total:,} requests; nothing was written", file=sys.stderr)
        raise


class _Bar:
    """A progress bar of one task."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("replaying", total=total)

    def update_to(self, done: int) -> None:
        self._progress.update(self._task, completed=done)


@contextmanager
def _progress_bar(total: int, quiet: bool) -> Iterator[_Bar]:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet or not sys.stderr.isatty(),
    )
    with progress:
        yield _Bar(progress, total)
