# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Command-line tools of servecore: replaying serving traces through the KV core."""
