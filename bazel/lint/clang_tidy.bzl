# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy on the sources of C++ targets, one cached action a source.

It sees what the compiler sees: the toolchain's own flags, headers and
definitions, less the flags that only gcc knows; clang's own headers stand
where gcc's own stood.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain", "use_cpp_toolchain")

_ClangTidyInfo = provider(
    "What clang-tidy said of one target.",
    fields = {
        "reports": "list of File: one a source, empty where there is nothing to say",
    },
)

_SOURCES = ["cc"]
_HEADERS = ["h"]

# Of gcc alone; clang would stop at them.
_GCC_FLAGS = [
    "-fno-canonical-system-headers",
    "-pass-exit-codes",
]

# A tenth of the default: it finds what it finds early, and costs a quarter.
_ANALYZER_FLAGS = [
    "-Xclang",
    "-analyzer-config",
    "-Xclang",
    "max-nodes=20000",
]

# A header without a source of its own name is read by itself: none else would.
def _files_to_read(rule):
    files = []
    for attribute in ["srcs", "hdrs"]:
        for target in getattr(rule.attr, attribute, []):
            files += [file for file in target.files.to_list() if file.is_source]
    sources = [file for file in files if file.extension in _SOURCES]
    stems = [file.path[:-len(file.extension)] for file in sources]
    return sources + [
        file
        for file in files
        if file.extension in _HEADERS and file.path[:-len(file.extension)] not in stems
    ]

def _compilation_context(target, ctx):
    infos = [target[CcInfo]] if CcInfo in target else []
    for attribute in ["deps", "implementation_deps"]:
        infos += [
            dep[CcInfo]
            for dep in getattr(ctx.rule.attr, attribute, None) or []
            if CcInfo in dep
        ]
    return cc_common.merge_cc_infos(cc_infos = infos).compilation_context

def _flags(ctx, toolchain, context, builtin_headers):
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    rule = ctx.rule.attr
    defines = getattr(rule, "defines", []) + getattr(rule, "local_defines", [])
    variables = cc_common.create_compile_variables(
        cc_toolchain = toolchain,
        feature_configuration = features,
        include_directories = context.includes,
        preprocessor_defines = depset(defines, transitive = [context.defines]),
        quote_include_directories = context.quote_includes,
        system_include_directories = depset(
            transitive = [context.system_includes, context.external_includes],
        ),
        use_pic = True,
        user_compile_flags = ctx.fragments.cpp.cxxopts + getattr(rule, "copts", []),
    )
    flags = cc_common.get_memory_inefficient_command_line(
        action_name = CPP_COMPILE_ACTION_NAME,
        feature_configuration = features,
        variables = variables,
    )
    kept = []
    for flag in flags:
        if flag in _GCC_FLAGS:
            continue
        if "/lib/gcc/" in flag and flag.endswith("/include"):
            flag = builtin_headers
        kept.append(flag)
    return kept + [
        "--target=x86_64-linux-gnu",
        "-Wall",
        "-Wextra",
        # What is meant for gcc.
        "-Wno-unknown-pragmas",
        "-Wno-unknown-warning-option",
    ]

def _clang_tidy_aspect_impl(target, ctx):
    files = _files_to_read(ctx.rule)
    if not files:
        return [_ClangTidyInfo(reports = [])]
    toolchain = find_cpp_toolchain(ctx)
    context = _compilation_context(target, ctx)
    builtin_headers = ctx.files._builtin_headers
    stddef = [file for file in builtin_headers if file.basename == "stddef.h"][0]
    flags = _flags(ctx, toolchain, context, stddef.dirname)
    own_headers = [
        file
        for attribute in ["srcs", "hdrs", "textual_hdrs"]
        for dep in getattr(ctx.rule.attr, attribute, [])
        for file in dep.files.to_list()
    ]
    reports = []
    for file in files:
        report = ctx.actions.declare_file("_lint/{}/{}.clang_tidy".format(
            ctx.rule.attr.name,
            file.path.replace("/", "_"),
        ))
        args = ctx.actions.args()
        args.add(report)
        args.add(ctx.executable._clang_tidy)
        args.add(ctx.file._config, format = "--config-file=%s")
        if getattr(ctx.rule.attr, "testonly", False):
            # googletest's macros cost the path-sensitive analysis a minute a
            # file, and no test is in need of speed.
            args.add("--checks=-clang-analyzer-*,-performance-inefficient-vector-operation")
        args.add("--quiet")
        args.add(file)
        args.add("--")
        args.add("-xc++")
        args.add_all(flags)
        args.add_all(_ANALYZER_FLAGS)

        # A finding fails the test, not the build; so does a file that clang
        # cannot read.
        ctx.actions.run_shell(
            arguments = [args],
            command = """
report=$1; shift
if "$@" >"$report.out" 2>"$report.err"; then
  : >"$report"
else
  # Paths of the sandbox would differ at every run.
  cat "$report.out" "$report.err" | sed -e "s|$PWD/||g" -e 's|^[.]/||' >"$report"
fi
rm "$report.out" "$report.err"
""",
            inputs = depset(
                [file, ctx.file._config] + own_headers + builtin_headers,
                transitive = [context.headers, toolchain.all_files],
            ),
            mnemonic = "ClangTidy",
            outputs = [report],
            progress_message = "Linting " + file.short_path,
            tools = [ctx.executable._clang_tidy],
        )
        reports.append(report)
    return [_ClangTidyInfo(reports = reports)]

_clang_tidy_aspect = aspect(
    implementation = _clang_tidy_aspect_impl,
    attrs = {
        "_builtin_headers": attr.label(default = "//third_party/linters:clang_tidy_builtin_headers"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_clang_tidy": attr.label(
            allow_single_file = True,
            cfg = "exec",
            default = "//third_party/linters:clang_tidy",
            executable = True,
        ),
        "_config": attr.label(
            allow_single_file = True,
            default = "//bazel/lint:clang_tidy_config",
        ),
    },
    fragments = ["cpp"],
    toolchains = use_cpp_toolchain(),
)

def _clang_tidy_test_impl(ctx):
    reports = ctx.attr.target[_ClangTidyInfo].reports
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(
        script,
        """#!/bin/sh
status=0
for report in {reports}; do
  [ ! -s "$report" ] || {{ cat "$report"; status=1; }}
done
[ $status -eq 0 ] || echo 'To mend it: change these lines; .clang-tidy has the checks and their options'
exit $status
""".format(reports = " ".join(["'%s'" % report.short_path for report in reports])),
        is_executable = True,
    )
    return [DefaultInfo(
        executable = script,
        runfiles = ctx.runfiles(files = reports),
    )]

clang_tidy_test = rule(
    implementation = _clang_tidy_test_impl,
    attrs = {
        "target": attr.label(
            aspects = [_clang_tidy_aspect],
            doc = "A C++ target.",
            mandatory = True,
        ),
    },
    doc = "Passes when clang-tidy has nothing to say of the target's own sources.",
    test = True,
)
