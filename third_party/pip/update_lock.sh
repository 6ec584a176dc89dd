#!/bin/sh
# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
#
# Rewrites the hash-locked requirement files from their .in files:
#   update_lock.sh
# Needs a Python 3.11 with venv on the PATH, or $PYTHON.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
work=$(mktemp -d "${TMPDIR:-/tmp}/pip-lock.XXXXXX")
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --upgrade pip
"$work/venv/bin/python" "$here/lock.py" --source "$here/requirements.in" --lock "$here/requirements_lock.txt"
"$work/venv/bin/python" "$here/lock.py" --source "$here/cuda_requirements.in" --lock "$here/cuda_requirements_lock.txt"
