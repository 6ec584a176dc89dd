# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Formatting and static analysis of a package, as tests."""

load("@bazel_skylib//rules:write_file.bzl", "write_file")
load("@rules_python//python:defs.bzl", "py_test")
load("//bazel/lint:clang_tidy.bzl", "clang_tidy_test")
load("//bazel/lint:py_sources.bzl", "py_sources")

_CC_KINDS = [
    "cc_binary",
    "cc_library",
    "cc_test",
]
_PY_KINDS = [
    "py_binary",
    "py_library",
]

# A sanitizer has nothing to say of a linter.
_TAGS = [
    "lint",
    "no-asan",
    "no-tsan",
    "no-ubsan",
]

_MYPY_MAIN = Label("//bazel/lint:mypy_main.py")

def lint_test(name, exclude = []):
    """Tests that lint every file of the package that this is called in.

    Nothing is listed by hand: files are found by their names, C++ and Python
    targets among those declared so far. So this call must be the last of its
    BUILD file; a C++ source that no target holds is an error. A failed test
    prints what it found and the command that mends it.

    ```
    load("//bazel:lint_test.bzl", "lint_test")

    lint_test(name = "lint")
    ```

    It makes those of the following that the package has files for, and NAME, a
    test_suite of them:

    - NAME_banner: each file begins with the licence banner;
    - NAME_buildifier: format and warnings of BUILD files and .bzl files;
    - NAME_clang_format: format of C++ and CUDA files;
    - NAME_clang_tidy_TARGET: clang-tidy on a target's C++ files, with the flags,
      definitions and headers of the toolchain; CUDA files are left out;
    - NAME_mypy: `mypy --strict` on Python files, where the package has a
      py_library or py_binary that is not testonly;
    - NAME_ruff: format and rules of Python files and stubs.

    and NAME_arrows, a file with what each rule of the package names in its
    attributes, for the test in tests/build that compares it with the design.

    Args:
      name: the test_suite's name; tests/build expects "lint".
      exclude: glob patterns of files to leave out, such as generated ones.
    """

    # The root's folders belong to no package, among them Bazel's own outputs.
    depth = "**/*" if native.package_name() else "*"

    rules = native.existing_rules()
    tests = []

    build_files = _files(depth, [".bzl", "BUILD.bazel", "WORKSPACE"], exclude)
    cc_files = _files(depth, [".h", ".cc", ".cu", ".cuh"], exclude)
    py_files = _files(depth, [".py", ".pyi"], exclude)
    sh_files = _files(depth, [".sh"], exclude)

    tests.append(_lint(name, "banner", build_files + cc_files + py_files + sh_files))
    tests.append(_lint(
        name,
        "buildifier",
        build_files,
        tool = "//third_party/buildifier",
        config = "//bazel/lint:buildifier_config",
    ))
    if cc_files:
        tests.append(_lint(
            name,
            "clang_format",
            cc_files,
            tool = "//third_party/linters:clang_format",
            config = "//bazel/lint:clang_format_config",
        ))
    if py_files:
        tests.append(_lint(
            name,
            "ruff",
            py_files,
            tool = "//third_party/linters:ruff",
            config = "//bazel/lint:python_config",
        ))
    tests += _clang_tidy(name, rules, cc_files)
    tests += _mypy(name, rules, py_files)

    write_file(
        name = name + "_arrows",
        out = name + "_arrows.txt",
        content = _arrows(rules) + [""],
        visibility = ["//tests/build:__pkg__"],
    )
    native.test_suite(
        name = name,
        tests = tests,
    )

# Attributes that hold labels, or what looks like labels, of no dependency.
_NO_ARROWS = [
    "compatible_with",
    "generator_location",
    "tags",
    "visibility",
]

def _arrows(rules):
    """Lines of a rule's label and one that it names, the untaken select()s' too."""
    package = "//" + native.package_name()
    lines = {}
    for rule, attributes in rules.items():
        lines["{}:{}".format(package, rule)] = None
        for attribute, value in attributes.items():
            if attribute in _NO_ARROWS:
                continue

            # A select() cannot be looked into, but it prints all its branches.
            for text in repr(value).split("\"")[1::2]:
                if text.startswith(":"):
                    text = package + text
                if text.startswith("//") or text.startswith("@"):
                    lines["{}:{} {}".format(package, rule, text)] = None
    return sorted(lines)

def _files(depth, endings, exclude):
    return native.glob(
        [depth + ending for ending in endings],
        allow_empty = True,
        exclude = exclude,
    )

def _lint(name, kind, files, tool = None, config = None):
    helpers = [label for label in [tool, config] if label]
    native.sh_test(
        name = "{}_{}".format(name, kind),
        size = "small",
        srcs = [Label("//bazel/lint:lint.sh")],
        args = [kind] +
               ["$(rootpath {})".format(Label(label)) for label in helpers] +
               ["$(rootpath {})".format(file) for file in files],
        data = [Label(label) for label in helpers] + files,
        tags = _TAGS,
    )
    return "{}_{}".format(name, kind)

def _clang_tidy(name, rules, files):
    targets = {
        rule: str([attributes.get("srcs"), attributes.get("hdrs")])
        for rule, attributes in rules.items()
        if attributes["kind"] in _CC_KINDS
    }
    for file in files:
        if file.endswith(".cc") and not any(['"%s"' % file in held or ':%s"' % file in held for held in targets.values()]):
            fail(("//{}: {} is in no C++ target that lint_test has seen: add it to one, " +
                  "and call lint_test last").format(native.package_name(), file))

    # One test a target: where the build's flags make one incompatible, only
    # that one is left out.
    tests = []
    for target, held in targets.items():
        if ".cc\"" in held or ".h\"" in held:
            tests.append("{}_clang_tidy_{}".format(name, target))
            clang_tidy_test(
                name = tests[-1],
                size = "small",
                tags = _TAGS,
                target = ":" + target,
            )
    return tests

def _mypy(name, rules, files):
    targets = [
        ":" + rule
        for rule, attributes in rules.items()
        if attributes["kind"] in _PY_KINDS and not attributes.get("testonly")
    ]
    if not files or not targets:
        return []
    py_sources(
        name = name + "_py_sources",
        testonly = True,
        tags = ["manual"],
        visibility = ["//visibility:private"],
        deps = targets,
    )
    py_test(
        name = name + "_mypy",
        size = "medium",
        srcs = [_MYPY_MAIN],
        args = ["$(rootpath {})".format(label) for label in [
            Label("//bazel/lint:python_config"),
        ] + files],
        data = [Label("//bazel/lint:python_config")] + files,
        main = _MYPY_MAIN,
        tags = _TAGS,
        deps = [
            ":" + name + "_py_sources",
            Label("//third_party/linters:mypy"),
        ],
    )
    return [name + "_mypy"]
