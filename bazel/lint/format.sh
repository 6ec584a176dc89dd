#!/bin/sh
# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
#
# Formats every C++, Python and BUILD file of the source tree in place:
#   bazel run //bazel:format [-- PATH...]
# A PATH is taken from where the caller stands; without one, all of the tree.
set -eu

clang_format=$PWD/$1
ruff=$PWD/$2
buildifier=$PWD/$3
shift 3
root=${BUILD_WORKSPACE_DIRECTORY:?run this through bazel run //bazel:format}
cd "${BUILD_WORKING_DIRECTORY:-$root}"
[ "$#" -gt 0 ] || set -- "$root"

list=$(mktemp "${TMPDIR:-/tmp}/format.XXXXXX")
trap 'rm -f "$list"' EXIT

# Every file that is no output and not hidden.
find "$@" \( -name '.?*' ! -name .. -o -name 'bazel-*' -o -name __pycache__ \) -prune \
  -o -type f -print >"$list"

# on PATTERN COMMAND...: runs the command with the files whose paths match.
on() {
  pattern=$1
  shift
  grep -E "$pattern" "$list" | tr '\n' '\0' | xargs -0 -r "$@"
}

on '\.(h|cc|cu|cuh)$' "$clang_format" -i --style=file:"$root/.clang-format"
# What cannot be mended is for the lint tests to say.
on '\.pyi?$' "$ruff" check --silent --no-cache --config "$root/pyproject.toml" --fix --exit-zero
on '\.pyi?$' "$ruff" format --quiet --no-cache --config "$root/pyproject.toml"
on '(^|/)(BUILD\.bazel|WORKSPACE)$|\.bzl$' "$buildifier" -config="$root/.buildifier.json" -mode=fix -lint=off
on '[^/]\.BUILD\.bazel$' "$buildifier" -config="$root/.buildifier.json" -type=build -mode=fix -lint=off
