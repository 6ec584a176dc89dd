#!/bin/sh
# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
#
# The toolchain's g++ as one program, for tests that compile while they run.
set -eu
runfiles=$(CDPATH='' cd -- "$(dirname -- "$0")/../../.." && pwd -P)
# The runfiles are links, and ld reads absolute paths in its scripts as the
# host's unless the script truly lies below the root.
gxx=$(readlink -f "$runfiles/gcc/usr/bin/x86_64-linux-gnu-g++-12")
root=${gxx%/usr/bin/*}
exec "$gxx" --sysroot="$root" -B"$root/usr/bin" -no-canonical-prefixes "$@"
