# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""A library's headers as files, for tests that compile while they run."""

load("@rules_cc//cc:defs.bzl", "CcInfo")

def _header_files_impl(ctx):
    headers = ctx.attr.library[CcInfo].compilation_context.headers
    return [DefaultInfo(
        files = headers,
        runfiles = ctx.runfiles(transitive_files = headers),
    )]

header_files = rule(
    implementation = _header_files_impl,
    attrs = {
        "library": attr.label(
            doc = "The cc_library of the headers.",
            mandatory = True,
            providers = [CcInfo],
        ),
    },
    doc = "The headers of a cc_library, laid out at run time where the wheel has them.",
)
