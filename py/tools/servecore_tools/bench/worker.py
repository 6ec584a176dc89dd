# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Where the measuring runs: in this process, or in a child with the rivals' interpreter.

The child is this module as a program: one JSON object as its argument, one JSON object a line as
its output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import servecore
from servecore_tools.bench import kv, ops
from servecore_tools.bench.peers import PeerError, peers_python
from servecore_tools.bench.timing import Figure, LeftOut, pin_thread


class MeasureError(Exception):
    """A failure to measure."""


@dataclass(frozen=True)
class Setting:
    """What the measuring ran in.

    Attributes:
        python: Version of the interpreter.
        processor: The processor that the thread is pinned to; None: it is not.
        versions: Versions of what was measured beside ours.
    """

    python: str
    processor: int | None
    versions: dict[str, str]


Event = str | Figure | LeftOut | Setting


def run(plan: kv.Plan, *, pin: bool) -> Iterator[Event]:
    """Measures in this process.

    Args:
        plan: What to measure.
        pin: Whether to pin this thread to one processor meanwhile.

    Yields:
        First the setting, then what `kv.measure` yields.

    Raises:
        MeasureError: A rival cannot be loaded, or does not do what is asked of it.
    """
    try:
        yield from _run(lambda: kv.peer_versions(plan.peers), lambda: kv.measure(plan), pin=pin)
    except PeerError as error:
        raise MeasureError(str(error)) from error


def run_ops(plan: ops.Plan, *, pin: bool) -> Iterator[Event]:
    """Measures the tensor ops in this process, as `run` does the KV core.

    Raises:
        MeasureError: torch or the op library cannot be loaded.
    """
    try:
        yield from _run(ops.versions, lambda: ops.measure(plan), pin=pin)
    except ImportError as error:
        raise MeasureError(str(error)) from error


def _run(
    versions: Callable[[], dict[str, str]],
    measure: Callable[[], Iterator[str | Figure | LeftOut]],
    *,
    pin: bool,
) -> Iterator[Event]:
    before = os.sched_getaffinity(0)
    try:
        processor = pin_thread() if pin else None
        yield Setting(sys.version.split()[0], processor, versions())
        yield from measure()
    finally:
        os.sched_setaffinity(0, before)


def run_beside_peers(plan: kv.Plan, *, pin: bool) -> Iterator[Event]:
    """Measures as `run` does, in a child process with the interpreter of the rivals.

    Raises:
        MeasureError: The child cannot be started, or fails.
    """
    assert plan.peers is not None
    job = {
        "sections": plan.sections,
        "quick": plan.quick,
        "repeats": plan.repeats,
        "peers": str(plan.peers.resolve()),
        "trace": None if plan.trace is None else str(plan.trace.resolve()),
        "pin": pin,
    }
    # Ours and nothing else of this interpreter: its numpy is not built for the other.
    roots = [Path(servecore.__file__).parents[1], Path(__file__).parents[2]]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    environment["PYTHONPATH"] = os.pathsep.join(str(root.absolute()) for root in roots)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        try:
            child = subprocess.Popen(
                [str(peers_python(plan.peers).absolute()), "-m", __name__, json.dumps(job)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
            )
        except OSError as error:
            raise MeasureError(f"cannot start {peers_python(plan.peers)}: {error}") from error
        with child:
            try:
                assert child.stdout is not None
                for line in child.stdout:
                    yield from_line(line)
            except BaseException:
                child.kill()
                raise
        if child.returncode:
            errors.seek(0)
            last = [line for line in errors.read().splitlines() if line.strip()][-1:]
            told = last[0] if last else "it said nothing"
            raise MeasureError(f"the measuring process ended with {child.returncode}: {told}")


def to_line(event: Event) -> str:
    """The event as a line of the child's output."""
    content = event if isinstance(event, str) else asdict(event)
    return json.dumps({type(event).__name__: content}) + "\n"


def from_line(line: str) -> Event:
    """The event of a line.

    Raises:
        MeasureError: The line is of another kind.
    """
    try:
        ((kind, content),) = json.loads(line).items()
        return _READERS[kind](content)
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise MeasureError(f"the measuring process wrote {line[:80]!r}, not an event") from error


def _read_text(content: Any) -> Event:
    return str(content)


def _read_left_out(content: Mapping[str, Any]) -> Event:
    return LeftOut(**content)


def _read_setting(content: Mapping[str, Any]) -> Event:
    return Setting(**content)


_READERS = {
    "str": _read_text,
    "Figure": Figure.from_fields,
    "LeftOut": _read_left_out,
    "Setting": _read_setting,
}


def _main() -> None:
    job = json.loads(sys.argv[1])
    pin = job.pop("pin")
    plan = kv.Plan(
        tuple(job["sections"]),
        job["quick"],
        job["repeats"],
        Path(job["peers"]),
        None if job["trace"] is None else Path(job["trace"]),
    )
    try:
        for event in run(plan, pin=pin):
            sys.stdout.write(to_line(event))
            sys.stdout.flush()
    except MeasureError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(1)


if __name__ == "__main__":
    _main()
