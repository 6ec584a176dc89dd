#!/bin/sh
# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs Bazel from Debian's packages into a root of its own:
#   install.sh LOCK ROOT VERSION
# The packages are built for Debian unstable. Here they run from ROOT on any
# Debian, on ROOT's own C library: nothing of ROOT is seen by the host, and the
# host needs neither Java nor a compiler. ROOT appears whole or not at all.
set -eu

lock=$1 root=$2 version=$3
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)

say() { printf 'bazelw: %s\n' "$*" >&2; }
die() {
  printf 'bazelw: %s failed: %s\n  next: %s\n' "$1" "$2" "$3" >&2
  exit 1
}

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "looking at this machine" \
  "it is $(uname -s) on $(uname -m), and the packages are for Linux on x86_64" \
  "install Bazel $version (or bazelisk), or set SERVECORE_BAZEL"
for tool in apt-get dpkg-deb; do
  command -v "$tool" >/dev/null 2>&1 || die "looking for $tool" \
    "this machine has none, so it is no Debian" \
    "install Bazel $version (or bazelisk) and put it on the PATH, or set SERVECORE_BAZEL"
done

parent=$(dirname "$root")
mkdir -p "$parent" || die "making $parent" "it cannot be written" "set XDG_CACHE_HOME to a folder that can"
[ -w "$parent" ] || die "locking $root" "$parent cannot be written" "set XDG_CACHE_HOME to a folder that can"
# What this script starts inherits the lock: should this script alone be killed,
# the next one waits until nothing writes any more.
exec 9>"$root.lock"
if ! flock -n 9; then
  say "another install is running; waiting for it"
  flock 9
fi
[ ! -e "$root/installed" ] || exit 0

say "installing Bazel $version into $root (once, about 150 MB to fetch)"
rm -rf "$root" "$root".tmp.*
tmp="$root.tmp.$$"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
sh "$here/../debian/debs.sh" unpack "$lock" "$tmp"

say "relocating"
multiarch=x86_64-linux-gnu
libs=usr/lib/$multiarch
jvm=usr/lib/jvm/java-25-openjdk-amd64
loader=usr/lib/$multiarch/ld-linux-x86-64.so.2
[ -e "$tmp/$loader" ] || loader=usr/lib64/ld-linux-x86-64.so.2
[ -e "$tmp/$loader" ] || die "relocating" "the package libc6 holds no $loader" \
  "use the locked versions: SERVECORE_LOCKED=1"

# Every program of the root runs through the root's own loader and libraries.
in_root() {
  program=$1
  shift
  "$tmp/$loader" --library-path "$tmp/$libs" "$tmp/$program" "$@"
}
# RPATH, not RUNPATH: it also holds for the libraries that a library needs.
# patch_elf FILE INTERPRETER RPATH: an empty INTERPRETER leaves it as it is.
patch_elf() {
  in_root usr/bin/patchelf ${2:+--set-interpreter "$2"} --force-rpath --set-rpath "$3" "$1" ||
    die "relocating" "patchelf could not change $1" "use the locked versions: SERVECORE_LOCKED=1"
}
is_elf() { [ -f "$1" ] && [ ! -L "$1" ] && [ "$(head -c 4 "$1" | tail -c 3)" = ELF ]; }

for file in "$tmp"/usr/bin/bazel "$tmp"/usr/libexec/"$multiarch"/bazel/* "$tmp"/usr/bin/openssl; do
  is_elf "$file" || continue
  patch_elf "$file" "$root/$loader" "$root/$libs"
done
for file in "$tmp/$jvm"/bin/* "$tmp/$jvm"/lib/jexec "$tmp/$jvm"/lib/jspawnhelper; do
  is_elf "$file" || continue
  patch_elf "$file" "$root/$loader" "\$ORIGIN/../lib:\$ORIGIN:$root/$libs"
done
find "$tmp/$jvm/lib" -name '*.so' -type f | while IFS= read -r file; do
  patch_elf "$file" "" "\$ORIGIN:\$ORIGIN/..:$root/$libs"
done

# The server's class path names jars of the host, and the manifests of some of
# those name more, also by the host's paths: follow them all.
classpath="$tmp/usr/share/bazel/bazel_classpath_debian_depends.txt"
manifest_jars() {
  [ -f "$tmp$1" ] || return 0
  # A long header is folded: a line that begins with a blank continues the last.
  in_root usr/bin/unzip -p "$tmp$1" META-INF/MANIFEST.MF 2>/dev/null | tr -d '\r' |
    awk '/^ / {line = line substr($0, 2); next} {print line; line = $0} END {print line}' |
    sed -n 's/^Class-Path: *//p' | tr ' ' '\n' | grep '^/' || :
}
cp "$classpath" "$tmp/jars"
todo=$(cat "$tmp/jars")
while [ -n "$todo" ]; do
  more=$(for jar in $todo; do manifest_jars "$jar"; done | LC_ALL=C sort -u)
  todo=
  for jar in $more; do
    grep -qxF "$jar" "$tmp/jars" || todo="$todo $jar"
  done
  for jar in $todo; do echo "$jar" >>"$tmp/jars"; done
done
awk -v root="$root" 'NF {print root $0}' "$tmp/jars" >"$classpath"
rm "$tmp/jars"

certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
if [ ! -r "$certificates" ]; then
  certificates="$tmp/ca-certificates.crt"
  cat "$tmp"/usr/share/ca-certificates/mozilla/*.crt >"$certificates"
fi
OPENSSL_CONF=/dev/null in_root usr/bin/openssl pkcs12 -export -nokeys -jdktrust anyExtendedKeyUsage \
  -in "$certificates" -out "$tmp/trust.p12" -passout pass:changeit ||
  die "writing the trust store" "openssl could not read $certificates" \
    "set SSL_CERT_FILE to a bundle of certificates in PEM form"

: >"$tmp/installed"
mv "$tmp" "$root"
trap - EXIT
say "installed"
