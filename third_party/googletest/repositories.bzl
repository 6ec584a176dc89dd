# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""googletest, from Debian's package of its sources."""

load("//third_party/debian:debian_archive.bzl", "debian_archive")

def googletest_repositories():
    """Declares @googletest."""
    debian_archive(
        name = "googletest",
        build_file = "//third_party/googletest:googletest.BUILD.bazel",
        lock = "//third_party/debian:cc_libraries.lock",
        packages = ["googletest"],
        strip_prefix = "usr/src/googletest",
    )
