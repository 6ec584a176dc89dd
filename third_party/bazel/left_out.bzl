# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Repositories that Bazel itself names and Debian's package leaves out.

Nothing in this build uses them, but `bazel query 'deps(...)'` follows every
edge, and would try to download them.
"""

_PROGRAM = """\
#!/bin/sh
echo "{name} is not part of Debian's Bazel: put another Bazel 7 or bazelisk on the PATH for what needs it" >&2
exit 1
"""

def _left_out_repository_impl(ctx):
    ctx.file("left_out.sh", _PROGRAM.format(name = ctx.name), executable = True)
    ctx.file("BUILD.bazel", "\n".join(
        ["package(default_visibility = [\"//visibility:public\"])"] +
        ["sh_binary(name = \"{}\", srcs = [\"left_out.sh\"])".format(target) for target in ctx.attr.programs] +
        ["cc_library(name = \"{}\")".format(target) for target in ctx.attr.libraries],
    ) + "\n")

left_out_repository = repository_rule(
    implementation = _left_out_repository_impl,
    attrs = {
        "libraries": attr.string_list(doc = "Names of empty cc_library targets."),
        "programs": attr.string_list(doc = "Names of programs that say that they are missing."),
    },
    doc = "Stands for a repository that Bazel names and that cannot be had.",
)
