# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Splits the torch wheel by use: a build that needs headers gets headers only.

The wheel holds 12,000 files, 9,000 of them headers; an action that were given
all of them would spend seconds in laying out its sandbox.
"""

TORCH_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

_TORCH = "site-packages/torch/"

# Headers of the stable ABI and what they include.
cc_library(
    name = "stable_headers",
    hdrs = glob(
        [
            _TORCH + "include/torch/csrc/stable/**",
            _TORCH + "include/torch/csrc/inductor/aoti_torch/**",
            _TORCH + "include/torch/headeronly/**",
        ],
    ),
    includes = [_TORCH + "include"],
)

# Every header, for code that wants the full C++ API.
cc_library(
    name = "headers",
    hdrs = glob([_TORCH + "include/**"], exclude = [_TORCH + "include/pybind11/**"]),
    includes = [
        _TORCH + "include",
        _TORCH + "include/torch/csrc/api/include",
    ],
)

# To link against. At run time the interpreter has loaded it already.
filegroup(
    name = "libtorch_cpu",
    srcs = [_TORCH + "lib/libtorch_cpu.so"],
)
"""
