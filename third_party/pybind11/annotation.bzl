# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The headers inside the pybind11 wheel."""

PYBIND11_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "headers",
    hdrs = glob(["site-packages/pybind11/include/**/*.h"]),
    includes = ["site-packages/pybind11/include"],
    deps = ["@python//:headers"],
)
"""
