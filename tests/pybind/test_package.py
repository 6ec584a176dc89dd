# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: what importing it does, and what it says about itself."""

from __future__ import annotations

import doctest
import importlib.resources
import inspect
import json
import re
import subprocess
import sys
from typing import Any

import pytest

import servecore
import servecore.kv
from servecore import _core

ARRAY_METHODS = [
    "allocate_many",
    "allocate_many_array",
    "retain_array",
    "release_array",
    "match",
    "insert",
    "common_prefix",
    "count_eos",
    "vector_add",
]


def callables() -> list[tuple[str, Any]]:
    """Every function and public method of the extension, by name."""
    found: list[tuple[str, Any]] = []
    for name, thing in vars(_core).items():
        if inspect.isclass(thing):
            found += [
                (f"{name}.{method}", getattr(thing, method))
                for method in vars(thing)
                if not method.startswith("_") and callable(getattr(thing, method))
            ]
        elif callable(thing):
            found.append((name, thing))
    return found


def test_import_needs_neither_numpy_nor_torch() -> None:
    code = """
import json, sys
import servecore, servecore.kv
servecore.BlockPool(2).allocate(1)
print(json.dumps(sorted({"numpy", "torch"} & set(sys.modules))))
"""
    # The path goes along, since Bazel gives it to this process alone.
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert json.loads(output) == []


def test_what_is_exported_is_there() -> None:
    for module in (servecore, servecore.kv):
        assert module.__all__ == sorted(module.__all__)
        for name in module.__all__:
            assert hasattr(module, name)


def test_everything_of_the_extension_is_exported() -> None:
    public = {name for name in vars(_core) if not name.startswith("_")}
    assert public == set(servecore.__all__) - {"__version__"}


def test_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|(a|b|rc)\d+)?", servecore.__version__)


def test_the_package_is_typed() -> None:
    files = importlib.resources.files("servecore")
    assert files.joinpath("py.typed").is_file()
    assert files.joinpath("_core.pyi").is_file()


@pytest.mark.parametrize("module", [servecore, servecore.kv])
def test_examples_in_docstrings(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(("name", "function"), callables())
def test_docstrings_answer_what_crosses_the_boundary(name: str, function: Any) -> None:
    doc = function.__doc__
    words = ["GIL:", "Thread safety:"]
    if name.split(".")[-1] in ARRAY_METHODS:
        words += ["Lifetime:", "Copies:"]
    if "allocate" in name or "retain" in name or name.endswith(("insert", "match")):
        words.append("Ownership:")
    assert [word for word in words if f"\n{word} " not in doc] == []


@pytest.mark.parametrize(("name", "function"), callables())
def test_docstrings_say_what_is_raised_and_fit_a_terminal(name: str, function: Any) -> None:
    signature, _, rest = function.__doc__.partition("\n")
    assert signature.startswith(name.split(".")[-1] + "(")
    if "IntArray" in signature or ": int" in signature.partition("->")[0]:
        assert "\nRaises:\n" in rest
    assert max(map(len, rest.splitlines())) <= 80
