#!/bin/sh
# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
#
# Rewrites every lock of Debian packages from its spec: NAME.in -> NAME.lock.
#   update_locks.sh [NAME...]
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
[ $# -gt 0 ] || set -- "$here"/*.in
for spec in "$@"; do
  name=$(basename "$spec" .in)
  sh "$here/debs.sh" lock "$here/$name.in" "$here/$name.lock"
done
