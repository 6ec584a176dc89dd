# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of third_party/pip/lock.py: what becomes a line of the lock."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture
def lock(tmp_path, monkeypatch):
    """Runs lock.py on two reports, as if pip had resolved here and on the index."""
    spec = importlib.util.spec_from_file_location("lock", "third_party/pip/lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(here, index):
        reports = [here, index]

        def pip(command, **_):
            report = Path(command[command.index("--report") + 1])
            report.write_text(json.dumps({"install": reports.pop(0)}))

        monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=pip))
        out = tmp_path / "lock.txt"
        arguments = ["lock.py", "--source", str(tmp_path / "a.in"), "--lock", str(out)]
        monkeypatch.setattr(module.sys, "argv", arguments)
        return module.main(), out.read_text().splitlines()[1:] if out.exists() else None

    return run


def package(name, version, sha256, *requires):
    return {
        "metadata": {"name": name, "version": version, "requires_dist": list(requires)},
        "download_info": {"archive_info": {"hashes": {"sha256": sha256}}},
    }


def test_both_builds_of_a_version_are_locked_and_the_local_one_is_named(lock):
    code, lines = lock([package("Torch", "2.0+cpu", "bb")], [package("torch", "2.0", "aa")])
    assert code == 0
    assert lines == [
        "# local build: torch==2.0+cpu sha256:bb",
        "torch==2.0 \\",
        "    --hash=sha256:aa \\",
        "    --hash=sha256:bb",
    ]


def test_a_package_is_locked_with_the_extras_that_others_want_of_it(lock):
    torch = package(
        "torch",
        "2.0",
        "aa",
        'cuda_toolkit[nvrtc,cublas]==13; platform_system == "Linux"',
        'cuda-toolkit[unwanted]==13; extra == "more"',
    )
    code, lines = lock([torch], [torch, package("cuda-toolkit", "13", "cc")])
    assert code == 0
    assert lines[:2] == ["cuda-toolkit[cublas,nvrtc]==13 \\", "    --hash=sha256:cc"]


def test_two_versions_are_an_error_and_nothing_is_written(lock):
    code, lines = lock([package("a", "1", "aa")], [package("a", "2", "bb")])
    assert code == 1
    assert lines is None
