# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of the benchmark tool: options, progress, exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import servecore
from servecore_tools.bench import kv, ops
from servecore_tools.bench.peers import peers_python
from servecore_tools.bench.session import BenchError, Job, run_job
from servecore_tools.bench.worker import run, run_beside_peers, run_ops
from servecore_tools.output import EXIT_BAD_INPUT, EXIT_INTERRUPTED, run_app, user_path
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

_OPS_HELP = """Measures the tensor ops, with one of torch's threads, beside torch's own and copies.

The limits are copy_ of the same tensor and a dispatcher call; the rivals are F.rms_norm and what
modelling code writes for the fused ops. L2 means 32 rows of 4096 elements, DRAM 8192.

\b
Sections (--only):
  import    from `import servecore.ops` to the end of the first op, in a new process
  call      one row: what a call costs beside a dispatcher call
  out       rmsnorm_out beside copy_
  forward   rmsnorm beside F.rms_norm and beside clone
  backward  its gradients beside F.rms_norm's
  fused     fused_add_rmsnorm_, silu_and_mul and rotary_embedding_ beside torch's ops

\b
Examples:
  bench ops
  bench ops --quick
  bench ops --only call,out --json result.json

\b
Exit codes: 0 measured; 1 something could not be measured or written; 2 wrong usage;
130 interrupted; 141 the reader of the output went away.
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


# Options that the commands share.
_Only = Annotated[
    str | None,
    typer.Option(
        metavar="SECTIONS",
        help="Measure these sections only, separated by commas.",
        show_default="all",
    ),
]
_Repeats = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        metavar="N",
        help="Runs of each side.",
        show_default=f"{kv.default_repeats(quick=False)}; "
        f"{kv.default_repeats(quick=True)} with --quick",
    ),
]
_NoPin = Annotated[bool, typer.Option("--no-pin", help="Do not pin the thread to one processor.")]
_JsonOut = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="OUT",
        help="Write the result as JSON, to a file (all or nothing) or, with -, to the "
        "standard output; the table then goes to the standard error.",
    ),
]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print neither table nor progress.")]


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
    only: _Only = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Small workloads and short runs: seconds, for a first look."),
    ] = False,
    repeats: _Repeats = None,
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Trace of the workload MC.",
            show_default=f"{TRACE_NAME} in the folder TRACES",
        ),
    ] = None,
    no_pin: _NoPin = False,
    json_out: _JsonOut = None,
    quiet: _Quiet = False,
) -> None:
    """Measures the KV core."""
    with _ending_in_words():
        plan = kv.Plan(
            _sections(only, kv.SECTIONS),
            quick,
            repeats or kv.default_repeats(quick=quick),
            _peers(os.environ.get("PEERS", "")),
            _trace(trace, os.environ.get("TRACES", "")),
        )
        options = {
            **_in_force(plan, pin=not no_pin),
            "peers": None if plan.peers is None else str(plan.peers),
            "trace": None if plan.trace is None else str(plan.trace),
        }
        measure = partial(run if plan.peers is None else run_beside_peers, plan, pin=not no_pin)
        run_job(Job("kv", kv.count_steps(plan), measure, options, json_out, quiet))


@app.command("ops", help=_OPS_HELP)
def ops_command(
    only: _Only = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Small tensors and short runs: seconds, for a first look."),
    ] = False,
    repeats: _Repeats = None,
    no_pin: _NoPin = False,
    json_out: _JsonOut = None,
    quiet: _Quiet = False,
) -> None:
    """Measures the tensor ops."""
    with _ending_in_words():
        plan = ops.Plan(
            _sections(only, ops.SECTIONS), quick, repeats or ops.default_repeats(quick=quick)
        )
        options = _in_force(plan, pin=not no_pin)
        measure = partial(run_ops, plan, pin=not no_pin)
        run_job(Job("ops", ops.count_steps(plan), measure, options, json_out, quiet))


@contextmanager
def _ending_in_words() -> Iterator[None]:
    """Turns every expected failure into a line and an exit code."""
    try:
        yield
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(error.code) from None
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _in_force(plan: kv.Plan | ops.Plan, *, pin: bool) -> dict[str, object]:
    """What the JSON says of the options that the commands share."""
    return {
        "only": list(plan.sections),
        "quick": plan.quick,
        "repeats": plan.repeats,
        "pin": pin,
    }


def _sections(only: str | None, allowed: tuple[str, ...]) -> tuple[str, ...]:
    if only is None:
        return allowed
    names = [name.strip() for name in only.split(",")]
    for name in names:
        if name not in allowed:
            raise BenchError(
                f"--only: found {name!r}; allowed: {', '.join(allowed)}", EXIT_BAD_INPUT
            )
    return tuple(name for name in allowed if name in names)


def _peers(value: str) -> Path | None:
    if not value:
        return None
    folder = user_path(value)
    if not peers_python(folder).exists():
        raise BenchError(
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
            raise BenchError(f"{name}: {reason}", EXIT_BAD_INPUT)
    except TraceError as error:
        raise BenchError(f"{name}: {error}", EXIT_BAD_INPUT) from None
    except OSError as error:
        reason = f"cannot read {path}: {error.strerror or error}"
        raise BenchError(f"{name}: {reason}", EXIT_BAD_INPUT) from None
    return path
