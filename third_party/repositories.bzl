# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that the build takes from elsewhere, one folder each."""

load("//third_party/benchmark:repositories.bzl", "benchmark_repositories")
load("//third_party/buildifier:repositories.bzl", "buildifier_repositories")
load("//third_party/cc_toolchain:repositories.bzl", "cc_toolchain_repositories")
load("//third_party/cuda:repositories.bzl", "cuda_repositories")
load("//third_party/googletest:repositories.bzl", "googletest_repositories")
load("//third_party/highway:repositories.bzl", "highway_repositories")
load("//third_party/pip:repositories.bzl", "pip_repositories")
load("//third_party/python:repositories.bzl", "python_repositories")

def servecore_repositories():
    """Declares toolchains and libraries. The rule sets must be declared before."""
    cc_toolchain_repositories()
    python_repositories()
    pip_repositories()
    googletest_repositories()
    benchmark_repositories()
    highway_repositories()
    buildifier_repositories()
    cuda_repositories()
