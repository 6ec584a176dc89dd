# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""CPython 3.11 as the build's only Python."""

load("//third_party/debian:debian_archive.bzl", "debian_archive")

def python_repositories():
    """Declares @python and registers its toolchain."""
    debian_archive(
        name = "python",
        build_file = "//third_party/python:python.BUILD.bazel",
        lock = "//third_party/debian:python.lock",
        # Compiled once here: a sandboxed test cannot keep what it compiles.
        patch_cmds = [
            "usr/bin/python3.11 -I -m compileall -q --invalidation-mode unchecked-hash usr/lib/python3.11 || :",
        ],
        relocate = True,
        remove = [
            "etc",
            "sbin",
            "usr/lib/python3.11/EXTERNALLY-MANAGED",
            "usr/lib/python3.11/sitecustomize.py",
            "usr/lib/valgrind",
            "usr/sbin",
            "usr/share/applications",
            "usr/share/doc",
            "usr/share/lintian",
            "usr/share/man",
            "usr/share/pixmaps",
            "var",
        ],
    )
    native.register_toolchains("//third_party/python:toolchain")
