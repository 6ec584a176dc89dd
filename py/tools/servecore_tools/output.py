# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What the tools share: exit codes, paths as the user means them, and how results are written."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import typer

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


def run_app(app: typer.Typer, name: str) -> None:
    """Runs a tool on `sys.argv`, and exits.

    Args:
        app: The tool.
        name: What its help calls it.
    """
    # A reader that goes away ends this program as it ends any other in a pipeline: silently.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        # A file name need not be text, nor the terminal able to show it.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name=name)


def user_path(path: str) -> Path:
    """The path as meant by the user: from where they stand, also under `bazel run`."""
    return Path(os.environ.get("BUILD_WORKING_DIRECTORY", "")) / path


def unwritable_reason(path: Path) -> str | None:
    """Why no file can be written at the path; None where one can."""
    folder = path.resolve().parent
    if path.is_dir():
        return "it is a folder"
    if not folder.is_dir():
        return f"there is no folder {folder}"
    if not os.access(path if path.exists() else folder, os.W_OK):
        return "no permission"
    return None


def to_json(record: Mapping[str, object]) -> str:
    """Renders the record as indented ASCII JSON that ends in a newline."""
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def write_atomically(path: Path, text: str) -> None:
    """Writes a file so that a reader finds the old content or the new one, never a part.

    A link is followed. A pipe or a device is written directly: it has no content to protect.

    Raises:
        OSError: The file cannot be written; what was there before is untouched.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_mode_for(path))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _mode_for(path: Path) -> int:
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
