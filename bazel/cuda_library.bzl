# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""CUDA code, compiled by the locked nvcc with the toolchain's own gcc."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain", "use_cpp_toolchain")

# Ampere, Hopper and Blackwell as machine code, and the newest as PTX too, for
# devices that come later.
_ARCHITECTURES = [
    "80",
    "90",
    "100",
]

def _compile(ctx, toolkit, source, headers, compilation_context):
    obj = ctx.actions.declare_file("_objs/{}/{}.o".format(ctx.label.name, source.basename))
    gcc_root = ctx.file._host_compiler.dirname[:-len("/usr/bin")]

    args = ctx.actions.args()
    args.add("-std=c++20")
    args.add("-O3")
    args.add("-ccbin", ctx.file._host_compiler)
    args.add("-Xcompiler", "--sysroot={root},-B{root}/usr/bin,-no-canonical-prefixes".format(root = gcc_root))
    args.add("-Xcompiler", "-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror")
    args.add("-Werror", "all-warnings")
    args.add("-lineinfo")

    # nvcc names its temporary files by chance, and the names reach the object.
    args.add("--objdir-as-tempdir")
    args.add("-Xcompiler", "-frandom-seed=1")
    args.add("-frandom-seed=1")
    for arch in _ARCHITECTURES:
        args.add("-gencode", "arch=compute_{arch},code=sm_{arch}".format(arch = arch))
    args.add("-gencode", "arch=compute_{arch},code=compute_{arch}".format(arch = _ARCHITECTURES[-1]))
    args.add_all(compilation_context.defines, before_each = "-D")
    args.add("-I.")
    args.add_all(compilation_context.quote_includes, before_each = "-I")
    args.add_all(compilation_context.includes, before_each = "-I")
    args.add_all(compilation_context.system_includes, before_each = "-isystem")
    args.add("-c", source)
    args.add("-o", obj)

    ctx.actions.run(
        executable = ctx.executable._nvcc,
        arguments = [args],
        inputs = depset(
            [source] + headers,
            transitive = [compilation_context.headers],
        ),
        tools = [toolkit, ctx.attr._host_toolchain.files],
        outputs = [obj],
        env = {"PATH": "/usr/bin:/bin"},
        mnemonic = "CudaCompile",
        progress_message = "Compiling %{input} for sm_" + ", sm_".join(_ARCHITECTURES),
    )
    return obj

def _cuda_library_impl(ctx):
    cc_toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    own = CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
    ))
    merged = cc_common.merge_cc_infos(
        direct_cc_infos = [own],
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps + [ctx.attr._cudart]],
    )
    objects = [
        _compile(ctx, ctx.attr._toolkit.files, source, ctx.files.hdrs, merged.compilation_context)
        for source in ctx.files.srcs
    ]
    outputs = cc_common.create_compilation_outputs(
        objects = depset(objects),
        pic_objects = depset(objects),
    )
    linking_context, linking_outputs = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        cc_toolchain = cc_toolchain,
        compilation_outputs = outputs,
        feature_configuration = features,
        disallow_dynamic_library = True,
        linking_contexts = [merged.linking_context],
    )
    library = linking_outputs.library_to_link
    archives = [
        archive
        for archive in [library.static_library, library.pic_static_library]
        if archive
    ]
    return [
        DefaultInfo(files = depset(archives)),
        OutputGroupInfo(objects = depset(objects)),
        CcInfo(
            compilation_context = merged.compilation_context,
            linking_context = linking_context,
        ),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_cudart": attr.label(
            default = "//third_party/cuda:cudart_static",
            providers = [CcInfo],
        ),
        "_host_compiler": attr.label(
            allow_single_file = True,
            default = "@gcc//:usr/bin/x86_64-linux-gnu-g++-12",
        ),
        "_host_toolchain": attr.label(default = "@gcc//:all_files"),
        "_nvcc": attr.label(
            allow_single_file = True,
            cfg = "exec",
            default = "@cuda//:bin/nvcc",
            executable = True,
        ),
        "_toolkit": attr.label(
            cfg = "exec",
            default = "@cuda//:compiler_files",
        ),
    },
    fragments = ["cpp"],
    toolchains = use_cpp_toolchain(),
    provides = [CcInfo],
)

def cuda_library(name, srcs = [], hdrs = [], deps = [], **kwargs):
    """A library of CUDA code that cc_library targets can depend on.

    Each source is compiled for sm_80, sm_90 and sm_100, and to PTX of the last,
    with line information, into an object that is the same at every run. The
    CUDA runtime is linked statically. Without --config=cuda the target is
    incompatible: `//...` leaves it out.

    ```
    cuda_library(
        name = "rmsnorm",
        srcs = ["rmsnorm.cu"],
        hdrs = ["rmsnorm.h"],
    )
    ```

    Args:
      name: the target's name.
      srcs: .cu files.
      hdrs: headers for whoever depends on it.
      deps: cc_library or cuda_library targets.
      **kwargs: as in any rule: visibility, tags, testonly.
    """
    _cuda_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        target_compatible_with = select({
            Label("//bazel:cuda_enabled"): [],
            "//conditions:default": ["@platforms//:incompatible"],
        }),
        deps = deps,
        **kwargs
    )
