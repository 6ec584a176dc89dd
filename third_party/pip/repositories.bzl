# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Python packages, locked by hash, one repository each: @pip_NAME//:pkg.

pip is asked with the user's own configuration, so that a company's index
serves; the hashes in the lock decide what is taken.
"""

load("@rules_python//python:pip.bzl", "package_annotation", "pip_parse")
load("//third_party/linters:annotations.bzl", "CLANG_FORMAT_BUILD", "CLANG_TIDY_BUILD", "RUFF_BUILD")
load("//third_party/ninja:annotation.bzl", "NINJA_BUILD")
load("//third_party/pip:prefer_local_builds.bzl", "prefer_local_builds")
load("//third_party/pybind11:annotation.bzl", "PYBIND11_BUILD")
load("//third_party/setuptools:annotation.bzl", "SETUPTOOLS_DATA")
load("//third_party/torch:annotation.bzl", "TORCH_BUILD")

_INTERPRETER = "@python//:usr/bin/python3.11"

def pip_repositories():
    """Declares @pip (packages) and @pip_cuda (the CUDA compiler's wheels)."""
    prefer_local_builds(
        name = "pip_lock",
        lock = "//third_party/pip:requirements_lock.txt",
        python = _INTERPRETER,
    )
    pip_parse(
        name = "pip",
        annotations = {
            "clang-format": package_annotation(additive_build_content = CLANG_FORMAT_BUILD),
            "clang-tidy": package_annotation(additive_build_content = CLANG_TIDY_BUILD),
            "ninja": package_annotation(additive_build_content = NINJA_BUILD),
            "pybind11": package_annotation(additive_build_content = PYBIND11_BUILD),
            "ruff": package_annotation(additive_build_content = RUFF_BUILD),
            "setuptools": package_annotation(data = SETUPTOOLS_DATA),
            "torch": package_annotation(additive_build_content = TORCH_BUILD),
        },
        download_only = True,
        isolated = False,
        python_interpreter_target = _INTERPRETER,
        quiet = True,
        requirements_lock = "@pip_lock//:requirements_lock.txt",
        timeout = 1800,
    )
    pip_parse(
        name = "pip_cuda",
        download_only = True,
        isolated = False,
        python_interpreter_target = _INTERPRETER,
        quiet = True,
        requirements_lock = "//third_party/pip:cuda_requirements_lock.txt",
        timeout = 1800,
    )
