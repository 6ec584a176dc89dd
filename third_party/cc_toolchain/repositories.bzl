# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The C++ toolchain's repository: gcc 12 with a sysroot of its own."""

load("//third_party/debian:debian_archive.bzl", "debian_archive")

def cc_toolchain_repositories():
    """Declares @gcc and registers its toolchain for Linux on x86_64."""
    debian_archive(
        name = "gcc",
        build_file = "//third_party/cc_toolchain:gcc.BUILD.bazel",
        lock = "//third_party/debian:gcc.lock",
        relocate = True,
        # Only the compiler, the linker, headers and libraries matter.
        remove = [
            "etc",
            "sbin",
            "usr/lib/compat-ld",
            "usr/lib/gold-ld",
            "usr/lib/ldscripts",
            "usr/sbin",
            "usr/share",
            "var",
        ],
    )
    native.register_toolchains("@gcc//:cc_toolchain_linux_x86_64")
