# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The build's own compiler and ninja, for tests that compile while they run."""

from __future__ import annotations

import os
from pathlib import Path

_RUNFILES = Path(os.environ["TEST_SRCDIR"])

CXX = _RUNFILES / os.environ["TEST_WORKSPACE"] / "third_party/cc_toolchain/test_cxx"
NINJA = _RUNFILES / "pip_ninja/bin/ninja"


def environment() -> dict[str, str]:
    """What makes torch use them, in whatever it compiles."""
    return {"CXX": str(CXX), "PATH": f"{NINJA.parent}:/usr/bin:/bin"}
