# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What lies in the source tree, for tests that must miss no package.

A BUILD file cannot see which other packages there are. This repository can: it
walks the tree and is made anew when a file comes or goes, or a BUILD file
changes.
"""

_BUILD = "BUILD.bazel"
_LINT = "lint_test("

# The last call of a BUILD file starts in its last line without indentation that
# is no closing bracket.
def _last_call(text):
    calls = [line for line in text.split("\n") if line and line[0].isalpha()]
    return calls[-1] if calls else ""

def _source_tree_impl(ctx):
    root = ctx.path(Label("//:WORKSPACE")).dirname
    prefix = len(str(root)) + 1
    packages = {}

    # Starlark knows no recursion: each round reads the folders one level down.
    folders = [(root, None)]
    for _ in range(64):
        deeper = []
        for folder, package in folders:
            entries = folder.readdir(watch = "yes")
            build = [entry for entry in entries if entry.basename == _BUILD]
            if build:
                package = str(folder)[prefix:]
                packages[package] = {
                    "files": [],
                    "lint": _last_call(ctx.read(build[0], watch = "yes")).startswith(_LINT),
                }
            for entry in entries:
                name = entry.basename
                if name.startswith(".") or name.startswith("bazel-") or name == "__pycache__":
                    continue
                if entry.is_dir:
                    deeper.append((entry, package))
                elif package != None:
                    inside = len(package) + 1 if package else 0
                    packages[package]["files"].append(str(entry)[prefix + inside:])
        folders = deeper
        if not folders:
            break

    ctx.file("packages.json", json.encode_indent(packages) + "\n", executable = False)
    ctx.file("packages.bzl", "\"\"\"Generated.\"\"\"\n\nLINTED_PACKAGES = {}\n".format(
        repr(sorted([name for name, package in packages.items() if package["lint"]])),
    ), executable = False)
    ctx.file("WORKSPACE", "workspace(name = \"{}\")\n".format(ctx.name), executable = False)
    ctx.file(_BUILD, "exports_files([\"packages.json\"])\n", executable = False)

source_tree = repository_rule(
    implementation = _source_tree_impl,
    doc = """Declares @NAME with the packages of the main repository.

    packages.json: package -> {files: paths within it, lint: whether its BUILD
    file ends with a call of lint_test}.
    packages.bzl: LINTED_PACKAGES, those whose BUILD file does.""",
)
