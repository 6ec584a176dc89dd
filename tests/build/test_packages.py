# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Every package of the tree is linted, and every source lies in a package."""

import json
import os
from pathlib import Path

import pytest

SOURCES = (".bzl", ".cc", ".cu", ".cuh", ".h", ".py", ".pyi", ".sh", "BUILD.bazel")
CODE_FOLDERS = ("cc", "cuda", "py", "tests", "bazel", "third_party")


@pytest.fixture(scope="module")
def packages() -> dict[str, dict[str, object]]:
    tree = Path(os.environ["TEST_SRCDIR"]) / "source_tree/packages.json"
    return json.loads(tree.read_text())


def test_the_tree_is_seen(packages: dict[str, dict[str, object]]) -> None:
    assert {"", "cc/kv", "py/servecore", "tests/build"} <= packages.keys()
    assert "test_packages.py" in packages["tests/build"]["files"]


def test_every_package_is_linted(packages: dict[str, dict[str, object]]) -> None:
    # To mend it: end that package's BUILD.bazel with lint_test(name = "lint").
    unlinted = [
        name
        for name, package in packages.items()
        if not package["lint"] and any(file.endswith(SOURCES) for file in package["files"])
    ]
    assert unlinted == []


def test_every_source_lies_in_a_package(packages: dict[str, dict[str, object]]) -> None:
    # The root package's lint test does not look into folders.
    lost = [
        file
        for file in packages[""]["files"]
        if file.startswith(tuple(f"{folder}/" for folder in CODE_FOLDERS))
        and file.endswith(SOURCES)
    ]
    assert lost == []
