# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Drop-ins for the KV-cache interfaces of serving engines; each module needs its engine only."""
