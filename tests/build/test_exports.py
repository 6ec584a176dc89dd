# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The shared objects that ship show no more and need no more than they must."""

import os
import re
import subprocess
from pathlib import Path

import pytest

RUNFILES = Path(os.environ["TEST_SRCDIR"])
READELF = RUNFILES / "gcc/usr/bin/x86_64-linux-gnu-readelf"
PACKAGE = RUNFILES / os.environ["TEST_WORKSPACE"] / "py/servecore"

# What every Linux host has, and what torch has loaded before _ops.so.
SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}


def readelf(*options: str) -> str:
    result = subprocess.run([READELF, "--wide", *options], check=True, capture_output=True)
    return result.stdout.decode()


def exported(library: str) -> set[str]:
    symbols = set()
    for line in readelf("--dyn-syms", str(PACKAGE / library)).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        binding, visibility, section, name = fields[4:8]
        if binding != "LOCAL" and visibility == "DEFAULT" and section != "UND":
            symbols.add(name.split("@")[0])
    return symbols


def undefined(library: str) -> set[str]:
    lines = readelf("--dyn-syms", str(PACKAGE / library)).splitlines()
    return {line.split()[7].split("@")[0] for line in lines if re.search(r" UND \S", line)}


def dynamic(library: str, tag: str) -> list[str]:
    text = readelf("--dynamic", str(PACKAGE / library))
    return re.findall(rf"\({tag}\)[^\[]*\[([^\]]*)\]", text)


def test_core_exports_its_entry_point_only() -> None:
    assert exported("_core.so") == {"PyInit__core"}


def test_ops_exports_nothing() -> None:
    assert exported("_ops.so") == set()


def test_core_needs_only_the_system() -> None:
    assert set(dynamic("_core.so", "NEEDED")) - SYSTEM == set()


def test_ops_needs_only_the_system_and_libtorch_cpu() -> None:
    # One _ops.so serves builds of torch with and without CUDA and Python.
    needed = set(dynamic("_ops.so", "NEEDED"))
    assert needed - SYSTEM <= {"libtorch_cpu.so"}


def test_ops_uses_no_python() -> None:
    assert [name for name in undefined("_ops.so") if name.startswith(("Py", "_Py"))] == []


@pytest.mark.parametrize("library", ["_core.so", "_ops.so"])
def test_no_absolute_search_path(library: str) -> None:
    paths = [
        path
        for tag in ("RPATH", "RUNPATH")
        for entry in dynamic(library, tag)
        for path in entry.split(":")
    ]
    assert [path for path in paths if not path.startswith("$ORIGIN")] == []


@pytest.mark.parametrize("library", ["_core.so", "_ops.so"])
def test_no_path_of_the_build_machine(library: str) -> None:
    text = (PACKAGE / library).read_bytes()
    assert b"/execroot/" not in text
    assert b"/sandbox/" not in text


@pytest.mark.parametrize("library", ["_core.so", "_ops.so"])
def test_hardened(library: str) -> None:
    # Read-only relocations, all bound at load; no executable stack.
    dynamic_section = readelf("--dynamic", str(PACKAGE / library))
    segments = readelf("--segments", str(PACKAGE / library))
    assert "BIND_NOW" in dynamic_section or re.search(r"FLAGS.*NOW", dynamic_section)
    assert "GNU_RELRO" in segments
    assert re.search(r"GNU_STACK.* RW +0x", segments)
