# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The rule sets that the build uses, from Debian's packages of them."""

load("//third_party/bazel:left_out.bzl", "left_out_repository")
load("//third_party/debian:debian_archive.bzl", "debian_archive")

_RULE_SETS = {
    "bazel_features": ("bazel-features", "tools/features"),
    "bazel_skylib": ("bazel-skylib", "tools/skylib"),
    "platforms": ("bazel-platforms", "tools/platforms"),
    "rules_cc": ("bazel-rules-cc", "rules/cc"),
    "rules_java": ("bazel-rules-java", "rules/java"),
    "rules_license": ("bazel-rules-license", "rules/license"),
    "rules_pkg": ("bazel-rules-pkg", "rules/pkg"),
    "rules_proto": ("bazel-rules-proto", "rules/proto"),
    "rules_python": ("bazel-rules-python", "rules/python"),
}

def rule_set_repositories():
    """Declares the rule sets, each under its usual name unless it exists already."""
    for name, (package, folder) in _RULE_SETS.items():
        if not native.existing_rule(name):
            debian_archive(
                name = name,
                lock = "//third_party/debian:bazel.lock",
                packages = [package],
                strip_prefix = "usr/share/bazel/" + folder,
            )

    # Debian's Bazel has no release number. Any other downloads these itself.
    if not native.bazel_version:
        left_out_repository(
            name = "remote_coverage_tools",
            programs = [
                "coverage_report_generator",
                "lcov_merger",
            ],
        )
        left_out_repository(
            name = "zlib",
            libraries = ["zlib"],
        )
