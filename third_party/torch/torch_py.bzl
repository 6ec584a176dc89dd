# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What `import torch` needs of the torch wheel."""

load("@rules_python//python:defs.bzl", "PyInfo")

# Headers, CMake files, static libraries and stubs: no program imports them,
# and there are 9,500.
_UNUSED_FOLDERS = [
    "/site-packages/torch/include/",
    "/site-packages/torch/share/",
]
_UNUSED_ENDINGS = (
    ".a",
    ".pyi",
)

def _is_used(file):
    if file.path.endswith(_UNUSED_ENDINGS):
        return False
    for folder in _UNUSED_FOLDERS:
        if folder in file.path:
            return False
    return True

def _torch_py_impl(ctx):
    wheel = ctx.attr.wheel
    return [
        wheel[PyInfo],
        DefaultInfo(
            runfiles = ctx.runfiles(files = [
                file
                for file in wheel[DefaultInfo].default_runfiles.files.to_list()
                if _is_used(file)
            ]),
        ),
    ]

torch_py = rule(
    implementation = _torch_py_impl,
    attrs = {
        "wheel": attr.label(
            doc = "The py_library of the whole wheel.",
            mandatory = True,
            providers = [PyInfo],
        ),
    },
    doc = "A py_library's importable part: a test's sandbox is laid out in half the time.",
    provides = [PyInfo],
)
