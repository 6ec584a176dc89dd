# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The program inside the wheel of ninja."""

NINJA_BUILD = """
exports_files(["bin/ninja"])
"""
