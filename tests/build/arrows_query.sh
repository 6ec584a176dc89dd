#!/bin/sh
# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
#
# The arrows between packages, as `bazel query` sees them, in the design's words:
#   tests/build/arrows_query.sh
# It runs Bazel, so it is no Bazel test. test_arrows checks the same from what
# the packages themselves declare, with every branch of a select().
set -eu
cd "$(dirname "$0")/../.."

status=0
# only LAYER ALLOWED...: LAYER's libraries name nothing of ours but these packages.
only() {
  layer=$1
  shift
  allowed="//$layer:all"
  for package in "$@"; do allowed="$allowed + //$package:all"; done
  libraries="kind('(cc|_cuda|py)_library rule|cc_binary rule', //$layer:all) except attr(testonly, 1, //$layer:all)"
  found=$(./bazelw query "$flags" --noimplicit_deps --notool_deps --output=label "
    let seen = deps($libraries, 1) in
    (\$seen intersect (//cc/... + //cuda/... + //py/... + //third_party/torch:all + //third_party/pybind11:all))
    except ($allowed)" 2>/dev/null) || {
    echo "arrows: the query for //$layer failed" >&2
    status=1
    return 0
  }
  if [ -n "$found" ]; then
    echo "arrows: //$layer may see ${*:-nothing} of ours, and sees:" "$found" >&2
    status=1
  else
    echo "//$layer: sees ${*:-nothing}"
  fi
}

flags=--ui_event_filters=-info
only cc/base
only cc/kv cc/base
only cc/ops cc/base
only cuda cc/base third_party/cuda
only cc/pybind cc/base cc/kv cc/ops third_party/pybind11
only cc/torch cc/base cc/ops cuda third_party/torch
only py/tools py/servecore third_party/torch
exit $status
