#!/bin/sh
# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
#
# One linter over the files of one package, as a test:
#   lint.sh banner FILE...
#   lint.sh buildifier TOOL CONFIG FILE...
#   lint.sh clang_format TOOL CONFIG FILE...
#   lint.sh ruff TOOL CONFIG FILE...
# Prints what is wrong and how to mend it. See //bazel:lint_test.bzl.
set -u

kind=$1
shift
status=0
mend='./bazelw run //bazel:format'

complain() {
  echo "$*"
  status=1
}

case $kind in
banner)
  mend="begin each named file with the two lines, in its language's comment form"
  for file; do
    # A script's first line may name its interpreter.
    head -n 3 "$file" | grep -v '^#!' | head -n 2 | tr '\n' '~' |
      grep -Eq '^(#|//) Copyright [0-9]{4} The servecore Authors~(#|//) SPDX-License-Identifier: Apache-2\.0~$' ||
      complain "$file: does not begin with 'Copyright YEAR The servecore Authors' and 'SPDX-License-Identifier: Apache-2.0'"
  done
  ;;
buildifier)
  tool=$1 config=$2
  shift 2
  for file; do
    # Of a name like gcc.BUILD.bazel buildifier does not know the kind.
    case $file in
    *.BUILD.bazel) type=build ;;
    *) type=auto ;;
    esac
    "$tool" -config="$config" -type="$type" -mode=diff -diff_command='diff -u' "$file" 2>&1 || status=1
  done
  ;;
clang_format)
  tool=$1 config=$2
  shift 2
  formatted=$(mktemp "${TEST_TMPDIR:-/tmp}/formatted.XXXXXX")
  trap 'rm -f "$formatted"' EXIT
  for file; do
    "$tool" --style=file:"$config" --assume-filename="$file" <"$file" >"$formatted" || status=1
    diff -u --label "$file" --label "$file (formatted)" "$file" "$formatted" || status=1
  done
  ;;
ruff)
  tool=$1 config=$2
  shift 2
  "$tool" format --no-cache --config "$config" --diff "$@" || status=1
  "$tool" check --no-cache --config "$config" --output-format concise "$@" || status=1
  ;;
*)
  complain "lint.sh: no linter named '$kind'; there are banner, buildifier, clang_format and ruff"
  ;;
esac

[ "$status" -eq 0 ] || echo "To mend it: $mend"
exit "$status"
