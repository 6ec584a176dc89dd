# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Takes the build of a package that the user's own pip prefers.

The lock admits several builds of one version, such as torch 2.13.0 for CUDA
and 2.13.0+cpu. Left alone, pip would take the higher one, 2.13.0+cpu, wherever
it is offered; but among hashes it puts a file whose index states the hash
before a file in a folder, which has none to state. So the lock is narrowed to
the local build where pip's configuration offers that.
"""

_MARK = "# local build: "

def _prefer_local_builds_impl(ctx):
    lock = ctx.read(ctx.attr.lock)
    pip = ctx.path(Label("@pypi__pip//:BUILD.bazel")).dirname
    drop = []
    for line in lock.split("\n"):
        if not line.startswith(_MARK):
            continue
        requirement, sha256 = line[len(_MARK):].split(" sha256:")
        name, version = requirement.split("==")
        ctx.report_progress("asking pip for " + requirement)
        result = ctx.execute(
            [ctx.path(ctx.attr.python), "-m", "pip", "index", "versions", name],
            environment = {"PYTHONPATH": str(pip)},
        )

        # No answer is no reason to fail: the download will say what is wrong.
        offered = result.stdout.replace("\n", " ").replace(",", " ").split(" ")
        if version in offered:
            public = version.split("+")[0]
            start = lock.find("\n{}=={} ".format(name, public)) + 1
            end = start
            for part in lock[start:].split("\n"):
                end += len(part) + 1
                if not part.endswith("\\"):
                    break
            drop.append((lock[start:end], "{}=={} \\\n    --hash=sha256:{}\n".format(name, public, sha256)))
    for old, new in drop:
        lock = lock.replace(old, new)
    ctx.file("requirements_lock.txt", lock)
    ctx.file("BUILD.bazel", "exports_files([\"requirements_lock.txt\"])\n")

prefer_local_builds = repository_rule(
    implementation = _prefer_local_builds_impl,
    attrs = {
        "lock": attr.label(
            allow_single_file = True,
            doc = "The lock that update_lock.sh wrote.",
            mandatory = True,
        ),
        "python": attr.label(
            allow_single_file = True,
            doc = "The interpreter that runs pip.",
            mandatory = True,
        ),
    },
    doc = "Makes requirements_lock.txt: the lock, narrowed to local builds where pip finds them.",
)
