# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs mypy on the files given, inside a test's runfiles."""

import os
import sys
from pathlib import Path

from mypy import api


def main() -> int:
    """Checks the files named on the command line.

    Returns:
        mypy's exit status.
    """
    config, *files = sys.argv[1:]
    here = str(Path.cwd())
    # Roots of the main repository are ours to check; what other entries of
    # sys.path hold is only looked up.
    roots = [entry for entry in sys.path if entry.startswith(here + os.sep)]
    os.environ["MYPYPATH"] = os.pathsep.join(dict.fromkeys(roots))
    output, errors, status = api.run(
        [
            "--config-file",
            config,
            "--explicit-package-bases",
            "--cache-dir",
            os.devnull,
            *files,
        ]
    )
    sys.stdout.write(output)
    sys.stderr.write(errors)
    return status


if __name__ == "__main__":
    sys.exit(main())
