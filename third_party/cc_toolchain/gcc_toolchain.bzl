# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""gcc 12 out of an unpacked root, as a toolchain that reads nothing of the host.

Used inside the BUILD file of that root, because tool paths must lie below it.
The features opt, dbg, asan, tsan, ubsan and coverage are those of Bazel's own
configuration for unix compilers.
"""

load("@bazel_tools//tools/cpp:unix_cc_toolchain_config.bzl", "cc_toolchain_config")
load("@rules_cc//cc:defs.bzl", "cc_toolchain")

_MULTIARCH = "x86_64-linux-gnu"
_GCC_LIB = "usr/lib/gcc/x86_64-linux-gnu/12"

# The order is gcc's own: each C++ header that wraps a C header finds the
# latter in a later folder.
_C_INCLUDES = [
    _GCC_LIB + "/include",
    "usr/include/" + _MULTIARCH,
    "usr/include",
]
_CXX_INCLUDES = [
    "usr/include/c++/12",
    "usr/include/x86_64-linux-gnu/c++/12",
    "usr/include/c++/12/backward",
] + _C_INCLUDES

def gcc_toolchain(name):
    """Declares the toolchain of the root that this BUILD file lies in.

    Args:
      name: name of the toolchain() to register.
    """
    root = "external/" + native.repository_name().lstrip("@")

    native.filegroup(
        name = "compiler_files",
        srcs = native.glob(
            [
                "usr/bin/*",
                "usr/include/**",
                _GCC_LIB + "/**",
                "usr/lib/x86_64-linux-gnu/*.so*",
            ],
            exclude = [_GCC_LIB + "/*.a"],
        ),
    )
    native.filegroup(
        name = "linker_files",
        srcs = native.glob([
            "lib/**",
            "lib64/**",
            "usr/bin/*",
            _GCC_LIB + "/**",
            "usr/lib/x86_64-linux-gnu/**",
        ]),
    )
    native.filegroup(
        name = "binutils_files",
        srcs = native.glob([
            "usr/bin/*",
            "usr/lib/x86_64-linux-gnu/*.so*",
        ]),
    )
    native.filegroup(
        name = "all_files",
        srcs = [
            ":compiler_files",
            ":linker_files",
        ],
    )

    cc_toolchain_config(
        name = name + "_config",
        abi_libc_version = "glibc_2.36",
        abi_version = "gcc",
        compile_flags = [
            "--sysroot=" + root,
            "-B" + root + "/usr/bin",
            "-no-canonical-prefixes",
            "-fno-canonical-system-headers",
            "-nostdinc",
            "-fstack-protector-strong",
            "-fno-omit-frame-pointer",
        ],
        compiler = "gcc",
        conly_flags = _isystem(root, _C_INCLUDES),
        coverage_compile_flags = ["--coverage"],
        coverage_link_flags = ["--coverage"],
        cpu = "k8",
        cxx_builtin_include_directories = [
            "%package(@@{}//)%/{}".format(root[len("external/"):], folder)
            for folder in ["usr/include", _GCC_LIB + "/include"]
        ],
        cxx_flags = [
            "-std=c++20",
            "-nostdinc++",
        ] + _isystem(root, _CXX_INCLUDES),
        dbg_compile_flags = ["-g"],
        host_system_name = "local",
        link_flags = [
            "--sysroot=" + root,
            "-B" + root + "/usr/bin",
            "-no-canonical-prefixes",
            "-Wl,--as-needed",
            "-Wl,-z,relro,-z,now",
            "-Wl,--build-id=none",
            "-pass-exit-codes",
        ],
        link_libs = [
            "-lstdc++",
            "-lm",
        ],
        opt_compile_flags = [
            "-O2",
            "-DNDEBUG",
            "-ffunction-sections",
            "-fdata-sections",
        ],
        opt_link_flags = ["-Wl,--gc-sections"],
        supports_start_end_lib = False,
        target_libc = "glibc_2.36",
        target_system_name = "local",
        tool_paths = {
            "ar": "usr/bin/x86_64-linux-gnu-ar",
            "cpp": "usr/bin/x86_64-linux-gnu-cpp-12",
            "dwp": "usr/bin/x86_64-linux-gnu-dwp",
            "gcc": "usr/bin/x86_64-linux-gnu-gcc-12",
            "gcov": "usr/bin/x86_64-linux-gnu-gcov-12",
            "ld": "usr/bin/x86_64-linux-gnu-ld",
            "llvm-cov": "/bin/false",
            "nm": "usr/bin/x86_64-linux-gnu-nm",
            "objcopy": "usr/bin/x86_64-linux-gnu-objcopy",
            "objdump": "usr/bin/x86_64-linux-gnu-objdump",
            "strip": "usr/bin/x86_64-linux-gnu-strip",
        },
        toolchain_identifier = "gcc_12_linux_x86_64",
        unfiltered_compile_flags = [
            # The time of a build must not show in its outputs.
            "-Wno-builtin-macro-redefined",
            "-D__DATE__=\"redacted\"",
            "-D__TIMESTAMP__=\"redacted\"",
            "-D__TIME__=\"redacted\"",
        ],
    )

    cc_toolchain(
        name = name + "_cc",
        all_files = ":all_files",
        ar_files = ":binutils_files",
        as_files = ":compiler_files",
        compiler_files = ":compiler_files",
        coverage_files = ":all_files",
        dwp_files = ":binutils_files",
        linker_files = ":linker_files",
        objcopy_files = ":binutils_files",
        strip_files = ":binutils_files",
        supports_header_parsing = True,
        supports_param_files = True,
        toolchain_config = ":" + name + "_config",
        toolchain_identifier = "gcc_12_linux_x86_64",
    )

    native.toolchain(
        name = name,
        exec_compatible_with = [
            "@platforms//os:linux",
            "@platforms//cpu:x86_64",
        ],
        target_compatible_with = [
            "@platforms//os:linux",
            "@platforms//cpu:x86_64",
        ],
        toolchain = ":" + name + "_cc",
        toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
    )

def _isystem(root, folders):
    flags = []
    for folder in folders:
        flags += ["-isystem", root + "/" + folder]
    return flags
