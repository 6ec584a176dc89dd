# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of the tools share: trace files made on the spot, and the tool as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).parent
TOOLS = HERE.parents[1] / "py" / "tools"
MOONCAKE_HEAD = HERE / "testdata" / "mooncake_head.jsonl"
AZURE_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def mooncake_line(hash_ids: Sequence[int], input_length: int | None = None) -> str:
    """One line of a Mooncake trace; by default every block is full."""
    return json.dumps(
        {
            "timestamp": 27,
            "input_length": len(hash_ids) * 512 if input_length is None else input_length,
            "output_length": 5,
            "hash_ids": list(hash_ids),
        }
    )


def azure_line(context: int, generated: int = 5) -> str:
    """One row of an Azure trace."""
    return f"2023-11-16 18:17:03.9799600,{context},{generated}"


def write_lines(path: Path, lines: Iterable[str], end: str = "\n") -> Path:
    """Writes the lines to the file, and gives its path back."""
    path.write_bytes("".join(line + end for line in lines).encode())
    return path


def replay_command() -> list[str]:
    """The tool as a user starts it: Bazel's binary where there is one, else the source."""
    if "TEST_SRCDIR" in os.environ:
        return [str(TOOLS / "replay")]
    return [sys.executable, str(TOOLS / "replay_main.py")]


def run_replay(
    *arguments: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the tool to its end and gives its exit code and both its outputs."""
    return subprocess.run(
        [*replay_command(), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
