# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks: each figure beside a rival or a limit that was measured in the same run."""
