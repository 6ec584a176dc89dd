# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Extension modules written with pybind11."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

PYBIND_COPTS = [
    # pybind11's own types are hidden; a visible type that holds one would warn.
    "-fvisibility=hidden",
]

def pybind_extension(name, srcs = [], deps = [], copts = [], linkopts = [], visibility = None, **kwargs):
    """A Python extension module `NAME.so` that exports PyInit_NAME and nothing else.

    Symbols are hidden twice: by -fvisibility=hidden while compiling and by a
    version script while linking, so that no C++ library inside the module can
    clash with one that another module of the process holds.

    ```
    pybind_extension(
        name = "_core",
        deps = ["//cc/pybind:module"],
    )
    ```

    Args:
      name: the module's name, as in PYBIND11_MODULE(NAME, m).
      srcs: sources, if the module is not wholly in deps.
      deps: libraries; one that holds PYBIND11_MODULE must be alwayslink.
      copts: more compiler options for srcs.
      linkopts: more linker options.
      visibility: as usual.
      **kwargs: as in cc_binary.
    """
    exports = "{}_exports.lds".format(name)
    native.genrule(
        name = name + "_exports",
        outs = [exports],
        cmd = "echo '{{ global: PyInit_{}; local: *; }};' > $@".format(name),
        visibility = ["//visibility:private"],
    )
    cc_binary(
        name = name + ".so",
        srcs = srcs,
        additional_linker_inputs = [exports],
        copts = PYBIND_COPTS + copts,
        linkopts = ["-Wl,--version-script=$(location {})".format(exports)] + linkopts,
        linkshared = True,
        # Everything of ours is inside: one file to ship.
        linkstatic = True,
        visibility = visibility,
        deps = deps + [Label("//third_party/pybind11")],
        **kwargs
    )
