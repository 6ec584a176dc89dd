# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of `//py/tools:bench`."""

from servecore_tools.bench.cli import main

if __name__ == "__main__":
    main()
