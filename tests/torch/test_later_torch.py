# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The op library that was built for torch 2.13, as it is, under a later torch.

Tagged manual, because it installs that torch, some gigabytes, by the pip of $PYTHON or `python3`:

    bazelw test --test_output=all //tests/torch:test_later_torch

LATER_TORCH_SITE names a folder where it is installed already, by `pip install --target`, with
pytest, setuptools and ninja beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LATER_TORCH = "2.14.1"

HERE = Path(__file__).absolute().parent
PACKAGE = HERE.parents[1] / "py"
TESTS = sorted(HERE.glob("test_*.py"))
# They compile while they run, with the headers of the torch that is locked.
EXCLUDED = {"test_inductor", "test_jit", Path(__file__).stem}


@pytest.fixture(scope="module")
def site() -> Path:
    """A folder with that torch and what the tests import."""
    if installed := os.environ.get("LATER_TORCH_SITE"):
        return Path(installed)
    folder = Path(os.environ["TEST_TMPDIR"]) / "site"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    subprocess.run(
        [
            *(os.environ.get("PYTHON", "python3"), "-m", "pip", "install", "--quiet"),
            *("--target", str(folder), "--python-version", version, "--only-binary", ":all:"),
            *(f"torch=={LATER_TORCH}", "numpy", "pytest", "setuptools", "ninja"),
        ],
        check=True,
    )
    return folder


def run(site: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (site, PACKAGE, HERE)))}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_that_torch_and_this_library(site: Path) -> None:
    told = run(
        site,
        "-c",
        "import torch, servecore.ops\n"
        "print(torch.__version__)\n"
        "print(*(library for library in torch.ops.loaded_libraries if '_ops.so' in library))",
    )
    version, library = told.splitlines()
    assert version.split("+")[0] == LATER_TORCH
    assert Path(library).samefile(PACKAGE / "servecore/_ops.so")


@pytest.mark.parametrize(
    "test", [test for test in TESTS if test.stem not in EXCLUDED], ids=lambda test: test.stem
)
def test_what_passes_under_the_locked_torch(site: Path, test: Path) -> None:
    told = run(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test))
    print(told.splitlines()[-1])
    assert " passed" in told
