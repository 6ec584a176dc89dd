# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""A run of a benchmark from its options to its end: progress, table, JSON, failures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import servecore
from servecore_tools.bench.report import (
    BUSY_LOAD,
    Machine,
    look_at_machine,
    print_figures,
    to_record,
)
from servecore_tools.bench.timing import Figure, LeftOut
from servecore_tools.bench.worker import Event, MeasureError, Setting
from servecore_tools.output import (
    EXIT_BAD_INPUT,
    EXIT_FAILED,
    to_json,
    unwritable_reason,
    user_path,
    write_atomically,
)
from servecore_tools.trace import TraceError


class BenchError(Exception):
    """An end with a message for the user and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Job:
    """What to measure and where the result goes.

    Attributes:
        command: The command's name.
        num_steps: How many steps `measure` will name.
        measure: Measures; gives what `servecore_tools.bench.worker.run` gives.
        options: What the JSON says of the options.
        json_out: Where the JSON goes: a path, - for the standard output, or None for nowhere.
        quiet: Whether to print neither table nor progress.
    """

    command: str
    num_steps: int
    measure: Callable[[], Iterator[Event]]
    options: Mapping[str, object]
    json_out: str | None
    quiet: bool


def run_job(job: Job) -> None:
    """Measures and tells.

    Raises:
        BenchError: Something could not be measured or written.
    """
    out_path = None if job.json_out in (None, "-") else user_path(str(job.json_out))
    if out_path is not None:
        reason = unwritable_reason(out_path)
        if reason is not None:
            raise BenchError(f"--json: cannot write {out_path}: {reason}", EXIT_BAD_INPUT)
    machine = look_at_machine()
    if machine.is_busy:
        print(
            f"warning: the machine is busy (load {machine.load:.2f}; quiet is up to {BUSY_LOAD}), "
            "so the figures are less sure; the ratios suffer less than the times",
            file=sys.stderr,
        )
    figures, left_out, setting = _measure(job)
    # The file first: who closes the pipe on the table still has it.
    if job.json_out is not None:
        record = to_record(
            job.command,
            figures,
            left_out,
            version=servecore.__version__,
            machine=machine,
            setting=setting,
            options=job.options,
        )
        with _writing_to(str(out_path or "the standard output")):
            if out_path is None:
                sys.stdout.write(to_json(record))
                sys.stdout.flush()
            else:
                write_atomically(out_path, to_json(record))
    if not job.quiet:
        _print(figures, left_out, machine, setting, to_error=job.json_out == "-")


def _print(
    figures: list[Figure],
    left_out: list[LeftOut],
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
        raise BenchError(f"cannot write to {target}: {error.strerror}", EXIT_FAILED) from None


def _measure(job: Job) -> tuple[list[Figure], list[LeftOut], Setting]:
    figures: list[Figure] = []
    left_out: list[LeftOut] = []
    setting: Setting | None = None
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # Its thread would take a part of what is measured.
        auto_refresh=False,
        disable=job.quiet or not sys.stderr.isatty(),
    )
    try:
        with progress:
            task = progress.add_task("starting", total=job.num_steps)
            begun = 0
            for event in job.measure():
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
        raise BenchError(f"cannot measure: {error}", EXIT_FAILED) from None
    if setting is None:
        raise BenchError("cannot measure: the measuring process said nothing", EXIT_FAILED)
    return figures, left_out, setting
