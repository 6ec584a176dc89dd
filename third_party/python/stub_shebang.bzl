# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The first lines of every py_binary: start the toolchain's own Python.

Bazel's launcher of a py_binary is itself a Python program, whose usual first
line takes any python3 of the host, and fails on a host without one. These
lines are a shell script that finds the toolchain's interpreter in the runfiles
and runs the launcher with it. To Python they are one string literal.
"""

STUB_SHEBANG = """#!/bin/sh
'''exec' /bin/sh -c '
stub=$0
while [ -L "$stub" ]; do
  link=$(readlink "$stub")
  for tree in "${stub%.runfiles/*}.runfiles" "$stub.runfiles"; do
    [ ! -x "$tree/python/usr/bin/python3.11" ] || break 2
  done
  case $link in /*) stub=$link ;; *) stub=$(dirname "$stub")/$link ;; esac
done
unset PYTHONHOME PYTHONPATH
export PYTHONNOUSERSITE=1 PYTHONSAFEPATH=1
for tree in "$stub.runfiles" "${stub%.runfiles/*}.runfiles" "${RUNFILES_DIR:-}" "${TEST_SRCDIR:-}"; do
  python="$tree/python/usr/bin/python3.11"
  [ ! -x "$python" ] || exec "$python" "$0" "$@"
done
echo "$0: its Python is missing: no python/usr/bin/python3.11 in its runfiles" >&2
exit 1
' "$0" "$@"
'''
"""
