# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Each linter of lint_test passes what is right and fails what is wrong."""

import os
import subprocess
from pathlib import Path

import pytest

RUNFILES = Path(os.environ["TEST_SRCDIR"])
ROOT = RUNFILES / os.environ["TEST_WORKSPACE"]
HASH_BANNER = "# Copyright 2026 The servecore Authors\n# SPDX-License-Identifier: Apache-2.0\n"
SLASH_BANNER = HASH_BANNER.replace("#", "//")

# The linter's arguments before the files: its program and its configuration.
TOOLS = {
    "banner": [],
    "buildifier": [RUNFILES / "buildifier/buildifier", ROOT / ".buildifier.json"],
    "clang_format": [
        RUNFILES / "pip_clang_format/site-packages/clang_format/data/bin/clang-format",
        ROOT / ".clang-format",
    ],
    "ruff": [RUNFILES / "pip_ruff/bin/ruff", ROOT / "pyproject.toml"],
}


def lint(kind: str, *files: Path) -> subprocess.CompletedProcess[str]:
    command = ["sh", ROOT / "bazel/lint/lint.sh", kind, *TOOLS[kind], *files]
    return subprocess.run(command, check=False, capture_output=True, text=True)


GOOD = {
    "banner": ("a.sh", "#!/bin/sh\n" + HASH_BANNER),
    "buildifier": ("BUILD.bazel", 'filegroup(name = "a")\n'),
    "clang_format": ("a.cc", "int x = 0;\n"),
    "ruff": ("a.py", '"""Says what it is."""\n\nX = 1\n'),
}


@pytest.mark.parametrize("kind", GOOD)
def test_what_is_right_passes(tmp_path: Path, kind: str) -> None:
    name, text = GOOD[kind]
    (tmp_path / name).write_text(text)
    result = lint(kind, tmp_path / name)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("kind", "name", "text", "says"),
    [
        ("banner", "a.cc", "int x;\n", "does not begin with"),
        ("banner", "a.cc", "\n" + SLASH_BANNER, "does not begin with"),
        ("banner", "a.py", HASH_BANNER.replace("2.0", "3.0"), "does not begin with"),
        ("buildifier", "BUILD.bazel", 'filegroup(name="a")\n', '+filegroup(name = "a")'),
        ("buildifier", "x.BUILD.bazel", 'filegroup(name="a")\n', '+filegroup(name = "a")'),
        ("buildifier", "a.bzl", '"""A."""\n\ndef f(x):\n    """F."""\n    return 1\n', "unused"),
        ("buildifier", "BUILD.bazel", "filegroup(\n", "syntax error"),
        ("clang_format", "a.cc", "int  x = 0;\n", "+int x = 0;"),
        ("clang_format", "a.cu", "int  x = 0;\n", "+int x = 0;"),
        ("ruff", "a.py", '"""A."""\n\nX  = 1\n', "+X = 1"),
        ("ruff", "a.py", '"""A."""\n\nimport os\n', "F401"),
        ("ruff", "a.py", '"""A."""\n\n\ndef f(x):\n    """F."""\n', "ANN001"),
        ("ruff", "a.py", "def (\n", "a.py"),
    ],
)
def test_what_is_wrong_fails(tmp_path: Path, kind: str, name: str, text: str, says: str) -> None:
    # Beside a good file on either side: one bad file among several must be seen.
    good_name, good_text = GOOD[kind]
    files = []
    for folder, file_name, content in (
        ("a", good_name, good_text),
        ("b", name, text),
        ("c", good_name, good_text),
    ):
        (tmp_path / folder).mkdir()
        files.append(tmp_path / folder / file_name)
        files[-1].write_text(content)
    result = lint(kind, *files)
    assert result.returncode == 1
    assert says in result.stdout + result.stderr
    assert "To mend it: " in result.stdout


def test_an_unknown_linter_fails() -> None:
    command = ["sh", ROOT / "bazel/lint/lint.sh", "spelling"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 1
    assert "no linter named 'spelling'" in result.stdout
