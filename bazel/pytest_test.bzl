# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""pytest under Bazel."""

load("@rules_python//python:defs.bzl", "py_test")

_RUNNER = Label("//bazel:pytest_runner.py")

def pytest_test(name, srcs, deps = [], args = [], tags = [], **kwargs):
    """A py_test that runs pytest on its sources.

    It writes Bazel's XML report test by test, honours --test_filter (as pytest's
    -k) and fails when not a single test was collected.

    ```
    pytest_test(
        name = "test_block_pool",
        srcs = ["test_block_pool.py"],
        deps = ["//py/servecore"],
    )
    ```

    Args:
      name: the target's name.
      srcs: the test files; a helper module goes into a py_library in deps.
      deps: what the tests import. pytest itself is added.
      args: more arguments of pytest.
      tags: as in py_test.
      **kwargs: as in py_test.
    """
    py_test(
        name = name,
        srcs = srcs + [_RUNNER],
        main = _RUNNER,
        args = ["$(rootpath {})".format(src) for src in srcs] + args,
        tags = tags,
        deps = deps + ["@pip_pytest//:pkg"],
        **kwargs
    )
