#!/bin/sh
# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
#
# Shows that the linker reads nothing of the host: links a program and a library
# anew, has the linker name every file that it opens, and fails on one that lies
# outside the build.
#   tests/build/link_trace.sh
# It runs Bazel, so it is no Bazel test.
set -eu
cd "$(dirname "$0")/../.."

# A symbol of this run's own: a link that was done before would print nothing.
trace=$(./bazelw build --linkopt=-Wl,--trace "--linkopt=-Wl,--defsym=servecore_link_trace_$$=0" \
  --experimental_ui_max_stdouterr_bytes=-1 \
  //cc/kv:block_pool_benchmark //py/servecore:_core.so 2>&1) || {
  echo "$trace" >&2
  exit 1
}
files=$(echo "$trace" | grep -E '^[^ ]+\.(o|a|so|so\.[0-9]+)$' | sort -u)
host=$(echo "$files" | grep '^/' || :)
if [ -n "$host" ]; then
  echo "link_trace: the linker read files of the host:" "$host" >&2
  exit 1
fi
echo "$files" | grep -q '/libc_nonshared\.a$' || {
  echo "link_trace: the linker named no libc_nonshared.a, so its trace was not seen" >&2
  exit 1
}
echo "link_trace: $(echo "$files" | wc -l) files, all of the build's own"
