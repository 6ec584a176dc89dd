# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Google Highway, from Debian's package of its headers."""

load("//third_party/debian:debian_archive.bzl", "debian_archive")

def highway_repositories():
    """Declares @highway."""
    debian_archive(
        name = "highway",
        build_file = "//third_party/highway:highway.BUILD.bazel",
        lock = "//third_party/debian:highway.lock",
    )
