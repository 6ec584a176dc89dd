# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Torch op libraries on LibTorch's stable ABI."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

# The oldest torch that a library built here runs under: 2.13.
TORCH_TARGET_DEFINES = ["TORCH_TARGET_VERSION=0x020d000000000000ULL"]

def torch_op_library(name, srcs = [], deps = [], linkopts = [], visibility = None, **kwargs):
    """A library `NAME.so` for torch.ops.load_library, for every torch from 2.13 on.

    It is linked against libtorch_cpu alone, with every undefined symbol an
    error, and exports nothing: its registrations run when it is loaded.

    ```
    torch_op_library(
        name = "_ops",
        deps = ["//cc/torch:ops"],
    )
    ```

    Args:
      name: the library's name.
      srcs: sources, if the ops are not wholly in deps.
      deps: libraries; those that hold registrations must be alwayslink.
      linkopts: more linker options.
      visibility: as usual.
      **kwargs: as in cc_binary.
    """
    exports = "{}_exports.lds".format(name)
    native.genrule(
        name = name + "_exports",
        outs = [exports],
        cmd = "echo '{ local: *; };' > $@",
        visibility = ["//visibility:private"],
    )
    libtorch = Label("//third_party/torch:libtorch_cpu")
    cc_binary(
        name = name + ".so",
        srcs = srcs,
        additional_linker_inputs = [
            exports,
            libtorch,
        ],
        linkopts = [
            "-Wl,--version-script=$(location {})".format(exports),
            "$(location {})".format(libtorch),
            "-Wl,-z,defs",
            # libtorch_cpu finds what it needs in the process that loads us.
            "-Wl,--unresolved-symbols=ignore-in-shared-libs",
        ] + linkopts,
        linkshared = True,
        linkstatic = True,
        local_defines = TORCH_TARGET_DEFINES,
        visibility = visibility,
        deps = deps + [Label("//third_party/torch:stable_headers")],
        **kwargs
    )
