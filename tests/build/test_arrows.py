# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrows between packages point down only, as the map in README.md draws them.

Each package's lint_test writes down what its rules name in their attributes, in
every branch of a select(): what `bazel query --noimplicit_deps` says of them.
A genquery would load all that they reach, the CUDA compiler among it.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest


class Layer(NamedTuple):
    """What the rules of one layer may name.

    Attributes:
        layers: other layers, beside the layer itself.
        outside: third-party code.
    """

    layers: frozenset[str]
    outside: frozenset[str]


def layer(*layers: str, outside: str = "") -> Layer:
    return Layer(frozenset(layers), frozenset(outside.split()))


# The floors, from the ground up.
LAYERS = {
    "cc/base": layer(),
    "cc/kv": layer("cc/base"),
    "cc/ops": layer("cc/base", outside="highway"),
    "cuda": layer("cc/base", outside="cuda"),
    "cc/capi": layer("cc/base", "cc/kv"),
    "cc/pybind": layer("cc/base", "cc/kv", "cc/ops", outside="pybind11"),
    "cc/torch": layer("cc/base", "cc/ops", "cuda", outside="torch"),
    "py/servecore": layer(
        "cc/capi", "cc/pybind", "cc/torch", outside="pip_numpy pip_torch torch pybind11"
    ),
    "py/tools": layer("py/servecore", outside="pip_numpy pip_rich pip_typer torch"),
    "py/wheel": layer("py/servecore", outside="pip_setuptools"),
}
# These build and test the layers, so no layer may need them.
AROUND = ("bazel", "tests", "third_party")

# Only a shared object reaches from Python into C++, each into its own bridge.
BRIDGES = {
    "//py/servecore:_capi.so": "cc/capi",
    "//py/servecore:_core.so": "cc/pybind",
    "//py/servecore:_ops.so": "cc/torch",
}
# What any rule may name: settings, and benchmarks the library they run on.
SETTINGS = ("//bazel:", "//conditions:", "@platforms//", "@bazel_tools//", "@rules_cc//")


class Edge(NamedTuple):
    """A rule that names a label in one of its attributes."""

    rule: str
    label: str


def normal(label: str) -> str:
    """'//cc/kv:x' for '@@//cc/kv:x', '@platforms//:x' for '@@platforms//:x'."""
    repository, slashes, rest = label.replace("@@", "@").partition("//")
    return ("" if repository in {"@", "@servecore"} else repository) + slashes + rest


def read_edges(text: str) -> list[Edge]:
    """Reads lines of a rule and a label that it names; a rule alone names none."""
    return [
        Edge(rule, normal(label))
        for rule, _, label in (line.partition(" ") for line in text.splitlines())
    ]


def package_of(label: str) -> str:
    return label.removeprefix("//").split(":")[0]


def layer_of(package: str) -> str | None:
    for name in (*LAYERS, *AROUND):
        if package == name or package.startswith(name + "/"):
            return name
    return None


def outside_name(label: str) -> str:
    """'torch' for //third_party/torch:py, 'pip_numpy' for @pip_numpy//:pkg."""
    if label.startswith("@"):
        return label.lstrip("@").split("//")[0]
    return package_of(label).split("/")[1]


def wrong(edge: Edge) -> str | None:
    """What is wrong with an edge; None when nothing is."""
    rule, label = edge
    if not rule.startswith("//"):
        return None
    own = layer_of(package_of(rule))
    if own is None or own in AROUND:
        return None
    if not label or label.startswith(SETTINGS):
        return None
    if label.startswith(("@", "//third_party/")):
        name = outside_name(label)
        if name == "benchmark" and rule.endswith("_benchmark"):
            return None
        if name in LAYERS[own].outside:
            return None
        return f"{rule} names {label}: {own} may use {sorted(LAYERS[own].outside) or 'nothing'}"
    other = layer_of(package_of(label))
    if other == own:
        return None
    if other not in LAYERS[own].layers:
        allowed = sorted(LAYERS[own].layers) or "no other layer"
        return f"{rule} names {label}: {own} may see {allowed}"
    if own == "py/servecore" and BRIDGES.get(rule) != other:
        return f"{rule} names {label}: only {sorted(BRIDGES)} may, each its own bridge"
    return None


RUNFILES = Path(os.environ["TEST_SRCDIR"])


@pytest.fixture(scope="module")
def edges() -> list[Edge]:
    tree = RUNFILES / os.environ["TEST_WORKSPACE"]
    return [edge for path in tree.rglob("lint_arrows.txt") for edge in read_edges(path.read_text())]


@pytest.fixture(scope="module")
def packages() -> dict[str, dict[str, object]]:
    return json.loads((RUNFILES / "source_tree/packages.json").read_text())


def test_arrows_point_down(edges: list[Edge]) -> None:
    messages = [message for edge in edges if (message := wrong(edge))]
    assert not messages, "\n".join(messages)


def test_every_package_is_looked_at(edges: list[Edge], packages: dict[str, object]) -> None:
    looked_at = {package_of(edge.rule) for edge in edges}
    layered = {package for package in packages if layer_of(package) in LAYERS}
    assert layered - looked_at == set()


def test_every_package_has_a_layer(packages: dict[str, object]) -> None:
    assert [package for package in packages if package and layer_of(package) is None] == []


def test_the_graph_shows_known_arrows(edges: list[Edge]) -> None:
    # An empty graph would pass every test above but this one.
    assert Edge("//py/servecore:_core.so", "//cc/pybind:module") in edges
    assert Edge("//py/servecore:_ops.so", "//cc/torch:ops") in edges
    assert Edge("//cc/kv:block_pool", "//cc/kv:block_pool.cc") in edges
    # A branch of a select() that this build does not take.
    assert any(layer_of(package_of(label)) == "cuda" for rule, label in edges if "/torch:" in rule)


@pytest.mark.parametrize(
    ("rule", "label"),
    [
        ("//cc/base:buffer", "//cc/kv:block_pool"),
        ("//cc/base:buffer", "@googletest//:gtest"),
        ("//cc/kv:block_pool", "//cc/ops:rmsnorm"),
        ("//cc/kv:block_pool", "//cc/pybind:module"),
        ("//cc/kv:block_pool", "//third_party/pybind11:pybind11"),
        ("//cc/kv:block_pool", "@python//:headers"),
        ("//cc/kv:block_pool", "//third_party/benchmark:benchmark"),
        ("//cc/kv/policies:lru", "//cuda:rmsnorm"),
        ("//cc/ops:rmsnorm", "//cc/kv:block_pool"),
        ("//cc/ops:rmsnorm", "//cuda:rmsnorm"),
        ("//cc/ops:rmsnorm", "//third_party/torch:stable_headers"),
        ("//cc/ops:rmsnorm", "@pip_torch//:headers"),
        ("//cuda:rmsnorm", "//cc/ops:rmsnorm"),
        ("//cuda:rmsnorm", "//third_party/torch:headers"),
        ("//cc/capi:kv", "//cc/ops:rmsnorm"),
        ("//cc/pybind:module", "//cc/torch:ops"),
        ("//cc/pybind:module", "//third_party/torch:headers"),
        ("//cc/torch:ops", "//cc/kv:block_pool"),
        ("//cc/torch:ops", "//third_party/pybind11:pybind11"),
        ("//py/servecore:servecore", "//cc/pybind:module"),
        ("//py/servecore:_core.so", "//cc/torch:ops"),
        ("//py/servecore:_ops.so", "//cc/pybind:module"),
        ("//py/servecore:_core.so", "//cc/kv:block_pool"),
        ("//py/servecore:servecore", "//py/tools:replay"),
        ("//py/tools:replay", "//cc/kv:block_pool"),
        ("//cc/kv:block_pool", "//tests/cc:helpers"),
    ],
)
def test_a_wrong_arrow_is_seen(rule: str, label: str) -> None:
    assert wrong(Edge(rule, label)) is not None


@pytest.mark.parametrize(
    ("rule", "label"),
    [
        ("//cc/kv:block_pool", "//cc/kv:block_pool.h"),
        ("//cc/kv:block_pool", "//cc/base:mutex"),
        ("//cc/kv:block_pool_benchmark", "//third_party/benchmark:benchmark_main"),
        ("//cuda:rmsnorm", "@platforms//:incompatible"),
        ("//py/servecore:_core.so", "//cc/pybind:module"),
        ("//py/tools:replay", "@pip_rich//:pkg"),
        ("//tests/cc:block_pool_test", "//cc/kv:block_pool"),
    ],
)
def test_a_right_arrow_passes(rule: str, label: str) -> None:
    assert wrong(Edge(rule, label)) is None


def test_edges_are_read() -> None:
    text = "//a:b //c:d\n//a:b @@e//:f\n//a:b @@//g:h\n//a:i\n"
    assert read_edges(text) == [
        Edge("//a:b", "//c:d"),
        Edge("//a:b", "@e//:f"),
        Edge("//a:b", "//g:h"),
        Edge("//a:i", ""),
    ]
