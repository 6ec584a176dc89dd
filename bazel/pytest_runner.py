# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs pytest on the files named on the command line, as a Bazel test.

Exit codes are pytest's own: 1 when a test failed, 5 when none was collected.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


def main(arguments: list[str]) -> int:
    """Translates Bazel's test environment into pytest's options.

    Args:
        arguments: test files relative to the runfiles root, and pytest options.

    Returns:
        pytest's exit code.
    """
    options = [
        "--import-mode=importlib",
        "--color=yes",
        "-ra",
        # The source tree is read-only, and nothing is kept between runs.
        "-p",
        "no:cacheprovider",
    ]
    if report := os.environ.get("XML_OUTPUT_FILE"):
        options += [f"--junitxml={report}", "-o", "junit_family=xunit1"]
    if scratch := os.environ.get("TEST_TMPDIR"):
        options += [f"--basetemp={scratch}/pytest", f"--rootdir={Path.cwd()}"]
        options += ["-o", "tmp_path_retention_policy=none"]
        # Libraries that keep state under HOME (hypothesis, torch) get a fresh one.
        os.environ["HOME"] = scratch
    if pattern := os.environ.get("TESTBRIDGE_TEST_ONLY"):
        options += ["-k", pattern]
    return int(pytest.main([*options, *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
