#!/bin/sh
# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes every program and library of an unpacked Debian root load the libraries
# of that root, found relative to itself, and the host's C library only; and
# makes its linker find what is in the root:
#   relocate.sh ROOT
# The root may then be moved, and runs on any Debian whose glibc is as new.
set -eu
root=$1
multiarch=x86_64-linux-gnu
libs="$root/usr/lib/$multiarch"

# glibc belongs to the loader that started the program, so the root's own must
# never be found by a program that the host's loader started.
is_glibc() {
  case $(basename "$1") in
    ld-linux* | libc.so* | libm.so* | libmvec.so* | libpthread.so* | libdl.so* | librt.so* | libutil.so* | \
      libanl.so* | libresolv.so* | libnss_* | libnsl.so.1 | libthread_db* | libBrokenLocale* | \
      libc_malloc_debug* | libmemusage* | libpcprofile*) return 0 ;;
  esac
  return 1
}

# Debian 12 still keeps some libraries in /lib: bring them to the others.
for file in "$root/lib/$multiarch"/*.so*; do
  [ -e "$file" ] || continue
  is_glibc "$file" || cp -a "$file" "$libs/"
done

loader="$root/lib/$multiarch/ld-linux-x86-64.so.2"
patch_elf() {
  "$loader" --library-path "$root/lib/$multiarch:$libs" "$root/usr/bin/patchelf" "$@"
}
patch_elf --version >/dev/null || {
  echo "relocate: running the root's patchelf failed; add patchelf and libc6 to the lock's packages" >&2
  exit 1
}
find "$root/usr/bin" "$root/usr/lib" -type f | while IFS= read -r file; do
  [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
  case $file in *.o | *.a) continue ;; esac
  is_glibc "$file" && continue
  [ "$file" != "$root/usr/bin/patchelf" ] || continue
  up=$(dirname "${file#"$root"/}" | sed 's|[^/][^/]*|..|g')
  # A static program has no dynamic section, and nothing to change.
  patch_elf --force-rpath --set-rpath "\$ORIGIN/$up/usr/lib/$multiarch" "$file" 2>/dev/null || :
done

# libc.so and its like are scripts for the linker that name files by absolute
# paths. Those lead into the host where the linker does not see that the script
# lies below --sysroot, as when a sandbox links to it. A bare name is looked for
# beside the script and in the linker's own folders.
find "$root/usr/lib" -type f \( -name '*.so' -o -name '*.a' \) -size -2 | while IFS= read -r file; do
  grep -q 'GNU ld script' "$file" || continue
  sed -i 's#/[^ ()]*/\([^/ ()]*\)#\1#g' "$file"
done
