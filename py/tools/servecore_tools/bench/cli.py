# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of the benchmark tool: options, progress, exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import servecore
from servecore_tools.bench import kv
from servecore_tools.bench.peers import peers_python
from servecore_tools.bench.report import (
    BUSY_LOAD,
    Machine,
    look_at_machine,
    print_figures,
    to_record,
)
from servecore_tools.bench.timing import Figure
from servecore_tools.bench.worker import MeasureError, Setting, run, run_beside_peers
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
from servecore_tools.trace import TraceError, read_trace

TRACE_NAME = "mooncake_conversation_trace.jsonl"

_HELP = """Measures servecore, each figure beside a rival or a limit taken in the same run.

A missed goal is a figure, not a failure: the exit code tells only whether all was measured.
"""

_KV_HELP = """Measures the KV core: calls, batches of blocks, matching, whole requests.

The limits are a Python call and memcmp. The rivals, SGLang's native prefix tree and vLLM's block
pool, are measured where the environment variable PEERS names a folder with both, and an
interpreter that has what they need in venv/bin/python; otherwise they are left out.

\b
Sections (--only):
  boundary  an empty call; allocate(1) + release(1)
  pool      batches of 512 blocks
  match     a warm match of 32,768 tokens
  tree      requests beside SGLang: match, hold, insert, release
  hash      requests beside vLLM: hash, match, allocate, cache, free

\b
Workloads: W1 questions about shared documents; MT chats of many turns; MC the first
requests of a Mooncake trace (--trace, or the folder TRACES).

\b
Examples:
  bench kv
  bench kv --quick
  bench kv --only boundary,pool --json result.json
  PEERS=/opt/peers bench kv --trace conversation.jsonl --json - | jq '.figures[].ratio'

\b
Exit codes: 0 measured; 1 something could not be measured or written; 2 wrong usage;
130 interrupted; 141 the reader of the output went away.
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@dataclass(frozen=True)
class Options:
    """The options as given, paths resolved."""

    plan: kv.Plan
    pin: bool
    json_out: str | None
    quiet: bool

    def in_force(self) -> dict[str, object]:
        """What the JSON says of the options."""
        plan = self.plan
        return {
            "only": list(plan.sections),
            "quick": plan.quick,
            "repeats": plan.repeats,
            "pin": self.pin,
            "peers": None if plan.peers is None else str(plan.peers),
            "trace": None if plan.trace is None else str(plan.trace),
        }


class _BenchError(Exception):
    """An end with a message for the user and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def main() -> None:
    """Runs the tool on `sys.argv`, and exits."""
    run_app(app, "bench")


def _print_version(value: bool) -> None:
    if value:
        print(f"servecore bench {servecore.__version__}")
        raise typer.Exit


@app.callback(help=_HELP)
def bench_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Holds the options that come before the command."""


@app.command("kv", help=_KV_HELP)
def kv_command(
    only: Annotated[
        str | None,
        typer.Option(
            metavar="SECTIONS",
            help="Measure these sections only, separated by commas.",
            show_default="all",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Small workloads and short runs: seconds, for a first look."),
    ] = False,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            metavar="N",
            help="Runs of each side.",
            show_default=f"{kv.default_repeats(quick=False)}; "
            f"{kv.default_repeats(quick=True)} with --quick",
        ),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Trace of the workload MC.",
            show_default=f"{TRACE_NAME} in the folder TRACES",
        ),
    ] = None,
    no_pin: Annotated[
        bool, typer.Option("--no-pin", help="Do not pin the thread to one processor.")
    ] = False,
    json_out: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="OUT",
            help="Write the result as JSON, to a file (all or nothing) or, with -, to the "
            "standard output; the table then goes to the standard error.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print neither table nor progress.")
    ] = False,
) -> None:
    """Does what the options say; turns every expected failure into a line and an exit code."""
    try:
        plan = kv.Plan(
            _sections(only),
            quick,
            repeats or kv.default_repeats(quick=quick),
            _peers(os.environ.get("PEERS", "")),
            _trace(trace, os.environ.get("TRACES", "")),
        )
        _run(Options(plan, not no_pin, json_out, quiet))
    except _BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(error.code) from None
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _sections(only: str | None) -> tuple[str, ...]:
    if only is None:
        return kv.SECTIONS
    names = [name.strip() for name in only.split(",")]
    for name in names:
        if name not in kv.SECTIONS:
            raise _BenchError(
                f"--only: found {name!r}; allowed: {', '.join(kv.SECTIONS)}", EXIT_BAD_INPUT
            )
    return tuple(name for name in kv.SECTIONS if name in names)


def _peers(value: str) -> Path | None:
    if not value:
        return None
    folder = user_path(value)
    if not peers_python(folder).exists():
        raise _BenchError(
            f"PEERS: there is no {peers_python(folder)}; "
            "name the folder of the rivals, or unset it",
            EXIT_BAD_INPUT,
        )
    return folder


def _trace(option: str | None, traces: str) -> Path | None:
    if option is None and not traces:
        return None
    name = "--trace" if option is not None else "TRACES"
    path = user_path(option) if option is not None else user_path(traces) / TRACE_NAME
    try:
        # Now, rather than when half of the work is done.
        if not read_trace(path, limit=1).shares_prefixes:
            reason = f"{path} has lengths only; allowed: a Mooncake trace"
            raise _BenchError(f"{name}: {reason}", EXIT_BAD_INPUT)
    except TraceError as error:
        raise _BenchError(f"{name}: {error}", EXIT_BAD_INPUT) from None
    except OSError as error:
        reason = f"cannot read {path}: {error.strerror or error}"
        raise _BenchError(f"{name}: {reason}", EXIT_BAD_INPUT) from None
    return path


def _run(options: Options) -> None:
    out_path = None if options.json_out in (None, "-") else user_path(str(options.json_out))
    if out_path is not None:
        reason = unwritable_reason(out_path)
        if reason is not None:
            raise _BenchError(f"--json: cannot write {out_path}: {reason}", EXIT_BAD_INPUT)
    machine = look_at_machine()
    if machine.is_busy:
        print(
            f"warning: the machine is busy (load {machine.load:.2f}; quiet is up to {BUSY_LOAD}), "
            "so the figures are less sure; the ratios suffer less than the times",
            file=sys.stderr,
        )
    figures, left_out, setting = _measure(options)
    # The file first: who closes the pipe on the table still has it.
    if options.json_out is not None:
        record = to_record(
            "kv",
            figures,
            left_out,
            version=servecore.__version__,
            machine=machine,
            setting=setting,
            options=options.in_force(),
        )
        with _writing_to(str(out_path or "the standard output")):
            if out_path is None:
                sys.stdout.write(to_json(record))
                sys.stdout.flush()
            else:
                write_atomically(out_path, to_json(record))
    if not options.quiet:
        _print(figures, left_out, machine, setting, to_error=options.json_out == "-")


def _print(
    figures: list[Figure],
    left_out: list[kv.LeftOut],
    machine: Machine,
    setting: Setting,
    *,
    to_error: bool,
) -> None:
    stream = sys.stderr if to_error else sys.stdout
    with _writing_to("the terminal" if stream.isatty() else "the standard output"):
        print_figures(figures, left_out, stream, machine=machine, setting=setting)


@contextmanager
def _writing_to(target: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _BenchError(f"cannot write to {target}: {error.strerror}", EXIT_FAILED) from None


def _measure(options: Options) -> tuple[list[Figure], list[kv.LeftOut], Setting]:
    figures: list[Figure] = []
    left_out: list[kv.LeftOut] = []
    setting: Setting | None = None
    measuring = run if options.plan.peers is None else run_beside_peers
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # Its thread would take a part of what is measured.
        auto_refresh=False,
        disable=options.quiet or not sys.stderr.isatty(),
    )
    try:
        with progress:
            task = progress.add_task("starting", total=kv.count_steps(options.plan))
            begun = 0
            for event in measuring(options.plan, pin=options.pin):
                if isinstance(event, str):
                    progress.update(task, description=event, completed=begun, refresh=True)
                    begun += 1
                elif isinstance(event, Figure):
                    figures.append(event)
                elif isinstance(event, Setting):
                    setting = event
                else:
                    left_out.append(event)
    except (MeasureError, TraceError, OSError, MemoryError, RuntimeError) as error:
        raise _BenchError(f"cannot measure: {error}", EXIT_FAILED) from None
    if setting is None:
        raise _BenchError("cannot measure: the measuring process said nothing", EXIT_FAILED)
    return figures, left_out, setting
