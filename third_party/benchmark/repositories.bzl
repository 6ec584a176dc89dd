# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Google Benchmark, from Debian's package."""

load("//third_party/debian:debian_archive.bzl", "debian_archive")

def benchmark_repositories():
    """Declares @benchmark."""
    debian_archive(
        name = "benchmark",
        build_file = "//third_party/benchmark:benchmark.BUILD.bazel",
        lock = "//third_party/debian:cc_libraries.lock",
        packages = [
            "libbenchmark-dev",
            "libbenchmark1debian",
        ],
    )
