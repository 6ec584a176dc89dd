# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The version of servecore: written here, read by everything else."""

__version__ = "0.1.0"
