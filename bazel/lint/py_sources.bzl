# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What a type checker reads of Python targets: sources and stubs, nothing built."""

_READ = ["py", "pyi", "typed"]

# Far too much to read for the sake of a few types; mypy takes it for Any.
_UNREAD_REPOSITORIES = ["pip_torch"]

def _py_sources_impl(ctx):
    files = depset(transitive = [
        depset(transitive = [
            dep[DefaultInfo].default_runfiles.files,
            dep[PyInfo].transitive_sources,
        ])
        for dep in ctx.attr.deps
    ])
    read = [
        file
        for file in files.to_list()
        if file.extension in _READ and file.owner.workspace_name not in _UNREAD_REPOSITORIES
    ]
    return [
        DefaultInfo(runfiles = ctx.runfiles(files = read)),
        PyInfo(
            imports = depset(transitive = [dep[PyInfo].imports for dep in ctx.attr.deps]),
            transitive_sources = depset([file for file in read if file.extension == "py"]),
        ),
    ]

py_sources = rule(
    implementation = _py_sources_impl,
    attrs = {
        "deps": attr.label_list(
            doc = "Python targets.",
            providers = [PyInfo],
        ),
    },
    doc = """The deps without their extension modules and other data.

A test that only reads sources then waits for no compiler, and is not run again
when a C++ file has changed.""",
    provides = [PyInfo],
)
