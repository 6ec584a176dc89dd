# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What a benchmark tells: a table for people, one JSON object for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from servecore_tools.bench.timing import Figure, LeftOut, Spread, spread
from servecore_tools.bench.worker import Setting

SCHEMA = 1
BUSY_LOAD = 0.5

_FILE_WIDTH = 170
_LEGEND = (
    "Medians of the repeats, ± half the distance of their quartiles. "
    "Ratio: ours / limit where it stands beside a limit; else rival / ours."
)
_VERDICTS = {None: "", True: "yes", False: "no"}


@dataclass(frozen=True)
class Machine:
    """The machine, as it was before the measuring began.

    Attributes:
        cpu: Model of its processor.
        num_processors: How many of them this process may use.
        load: Mean number of processes that wanted to run, over the last minute.
    """

    cpu: str
    num_processors: int
    load: float

    @property
    def is_busy(self) -> bool:
        """Whether something else ran, so that the figures deserve less trust."""
        return self.load > BUSY_LOAD


def look_at_machine(cpu_info: Path = Path("/proc/cpuinfo")) -> Machine:
    """Describes the machine."""
    cpu = platform.processor() or platform.machine()
    if cpu_info.is_file():
        for line in cpu_info.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                cpu = value.strip()
                break
    return Machine(cpu, len(os.sched_getaffinity(0)), os.getloadavg()[0])


def to_record(
    command: str,
    figures: Iterable[Figure],
    left_out: Iterable[LeftOut],
    *,
    version: str,
    machine: Machine,
    setting: Setting,
    options: Mapping[str, object],
) -> dict[str, object]:
    """Gathers everything that the JSON holds.

    A reader may rely on the fields of one `schema`: more can join them, none changes its meaning.
    """
    return {
        "tool": "servecore bench",
        "schema": SCHEMA,
        "command": command,
        "version": version,
        "machine": {**asdict(machine), "is_busy": machine.is_busy},
        "setting": asdict(setting),
        "options": dict(options),
        "figures": [figure.to_record() for figure in figures],
        "left_out": [asdict(item) for item in left_out],
    }


def print_figures(
    figures: Sequence[Figure],
    left_out: Iterable[LeftOut],
    stream: TextIO,
    *,
    machine: Machine,
    setting: Setting,
) -> None:
    """Prints the table, coloured where the stream is a terminal.

    Raises:
        OSError: The stream cannot be written.
    """
    console = Console(
        file=stream,
        highlight=False,
        # A file has no width of its own to fit the table into.
        width=None if stream.isatty() else _FILE_WIDTH,
    )
    with console.capture() as capture:
        pinned = "not pinned"
        if setting.processor is not None:
            pinned = f"pinned to processor {setting.processor}"
        versions = ", ".join(f"{name} {value}" for name, value in setting.versions.items())
        console.print(f"{machine.cpu}; one thread, {pinned}", markup=False)
        console.print(f"Python {setting.python}, {versions}", markup=False)
        console.print(_table(figures))
        console.print(_LEGEND)
        for item in left_out:
            console.print(f"left out: {item.what}: {item.why}", markup=False)
    # Written here, because a rich console ends the program by itself on some errors.
    stream.write(capture.get())
    stream.flush()


def _table(figures: Sequence[Figure]) -> Table:
    table = Table(box=SIMPLE)
    table.add_column("what")
    table.add_column("ours", justify="right", no_wrap=True)
    table.add_column("rival or limit", justify="right")
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("goal", justify="right", no_wrap=True)
    table.add_column("met?")
    for figure in figures:
        style = {None: "", True: "green", False: "red"}[figure.is_met]
        other = ""
        if figure.other:
            sort = "limit: " if figure.is_limit else ""
            other = escape(f"{_shown(spread(figure.other), figure.unit)} {sort}{figure.against}")
        table.add_row(
            Text(figure.name),
            _shown(spread(figure.ours), figure.unit),
            other,
            "" if figure.ratio is None else f"{figure.ratio:.2f}x",
            "" if figure.goal is None else str(figure.goal),
            _VERDICTS[figure.is_met],
            style=style,
        )
    return table


def _shown(value: Spread, unit: str) -> str:
    digits = 0 if value.median >= 1000 else 1
    half = (value.high - value.low) / 2
    return f"{value.median:,.{digits}f} ±{half:,.{digits}f} {unit}"
