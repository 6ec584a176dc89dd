# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The programs inside the wheels of the linters."""

CLANG_FORMAT_BUILD = """
exports_files(["site-packages/clang_format/data/bin/clang-format"])
"""

CLANG_TIDY_BUILD = """
exports_files(["site-packages/clang_tidy/data/bin/clang-tidy"])

# clang's own stddef.h, immintrin.h and the like.
filegroup(
    name = "builtin_headers",
    srcs = glob(["site-packages/clang_tidy/data/lib/clang/*/include/**"]),
)
"""

RUFF_BUILD = """
exports_files(["bin/ruff"])
"""
