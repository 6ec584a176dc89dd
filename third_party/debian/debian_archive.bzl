# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""A repository made of locked Debian packages.

The packages come through debs.sh, like those of bazelw: from the host's own
mirror, checked against the lock and Debian's signature, kept in one cache.
"""

def _debian_archive_impl(ctx):
    # Resolved first, so that a change of any of them fetches the repository anew.
    script = ctx.path(ctx.attr._debs)
    relocate = ctx.path(ctx.attr._relocate)
    lock = ctx.path(ctx.attr.lock)
    build_file = ctx.path(ctx.attr.build_file) if ctx.attr.build_file else None

    # dpkg-deb writes the whole tree; a prefix is then lifted out of it.
    root = ctx.path("unpacked" if ctx.attr.strip_prefix else ".")
    ctx.report_progress("unpacking Debian packages of " + ctx.attr.lock.name)
    result = ctx.execute(
        ["sh", script, "unpack", lock, root] + ctx.attr.packages,
        timeout = 1800,
        quiet = False,
    )
    if result.return_code != 0:
        fail("{}: {}".format(ctx.name, result.stderr))
    for path in ctx.attr.remove:
        ctx.delete(root.get_child(*path.split("/")))
    if ctx.attr.relocate:
        ctx.report_progress("relocating")
        result = ctx.execute(["sh", relocate, root], timeout = 600)
        if result.return_code != 0:
            fail("{}: {}".format(ctx.name, result.stderr))
    for command in ctx.attr.patch_cmds:
        result = ctx.execute(["sh", "-c", command], working_directory = str(root))
        if result.return_code != 0:
            fail("{}: {}: {}".format(ctx.name, command, result.stderr))
    if ctx.attr.strip_prefix:
        prefix = root
        for part in ctx.attr.strip_prefix.split("/"):
            prefix = prefix.get_child(part)
        for child in prefix.readdir():
            result = ctx.execute(["mv", child, ctx.path(".")])
            if result.return_code != 0:
                fail("{}: {}".format(ctx.name, result.stderr))
        ctx.delete(root)
    if build_file:
        for name in ["BUILD", "BUILD.bazel"]:
            ctx.delete(name)
        ctx.file("BUILD.bazel", ctx.read(build_file))
    if not ctx.path("WORKSPACE").exists:
        ctx.file("WORKSPACE", "workspace(name = \"{}\")\n".format(ctx.name))

debian_archive = repository_rule(
    implementation = _debian_archive_impl,
    attrs = {
        "build_file": attr.label(
            allow_single_file = True,
            doc = "Becomes the repository's BUILD.bazel; without it, the package's own is used.",
        ),
        "lock": attr.label(
            allow_single_file = [".lock"],
            mandatory = True,
            doc = "The lock that names the packages.",
        ),
        "packages": attr.string_list(
            doc = "Which packages of the lock; all when empty.",
        ),
        "patch_cmds": attr.string_list(
            doc = "Shell commands to run in the unpacked root.",
        ),
        "relocate": attr.bool(
            doc = "Whether programs are made to load this root's libraries (see relocate.sh).",
        ),
        "remove": attr.string_list(
            doc = "Paths to drop after unpacking.",
        ),
        "strip_prefix": attr.string(
            doc = "The folder inside the packages that becomes the repository's root.",
        ),
        "_debs": attr.label(default = "//third_party/debian:debs.sh"),
        "_relocate": attr.label(default = "//third_party/debian:relocate.sh"),
    },
    environ = [
        "SERVECORE_DEBIAN_MIRROR",
        "SERVECORE_LOCKED",
    ],
    doc = "Unpacks locked Debian packages into a repository.",
)
