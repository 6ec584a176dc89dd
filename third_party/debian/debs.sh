#!/bin/sh
# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
#
# Fetches, checks and unpacks locked Debian packages, without root rights and
# without touching the host's apt. Used by bazelw and by the repository rule
# debian_archive, so that there is one way to get a package.
#
#   debs.sh unpack LOCK DEST [PACKAGE...]  unpack a lock's packages (all, or these) into DEST
#   debs.sh lock SPEC LOCK                 resolve SPEC against the mirror and rewrite LOCK
#
# A spec (NAME.in) says what to resolve, a line each:
#   suite NAME       the Debian suite
#   root PACKAGE     a package to resolve with its dependencies
#   keep REGEX       dependencies to keep (whole name); all others are dropped
# A lock (NAME.lock beside it) holds a line a package: SUITE PACKAGE VERSION SHA256.
#
# Environment:
#   SERVECORE_DEBIAN_MIRROR  the mirror; default: the one the host's own sources name
#   SERVECORE_DEBIAN_KEYRING the keys that sign its index; default: those of debian-archive-keyring
#   SERVECORE_LOCKED=1       a locked version that the mirror no longer has is an error
#   XDG_CACHE_HOME           the packages are kept under it, by their sha256
set -eu

readonly KEYRING="${SERVECORE_DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}"
readonly UPDATE=third_party/debian/update_locks.sh

say() { printf 'debs: %s\n' "$*" >&2; }

# die STEP CAUSE NEXT
die() {
  printf 'debs: %s failed: %s\n  next: %s\n' "$1" "$2" "$3" >&2
  exit 1
}

one_line() { tr '\n' ' ' | sed 's/ *$//'; }

need_debian() {
  for tool in apt-get dpkg-deb; do
    command -v "$tool" >/dev/null 2>&1 || die "looking for $tool" \
      "this machine has no $tool, so it is no Debian" \
      "install Bazel 7.x (or bazelisk) yourself and build with --config=host"
  done
  case $KEYRING in
    *[[:space:]]*) die "looking for Debian's signing keys" \
      "apt takes no blank in '$KEYRING'" "set SERVECORE_DEBIAN_KEYRING to a path without" ;;
  esac
  [ -r "$KEYRING" ] || die "looking for Debian's signing keys" \
    "$KEYRING is missing" \
    "install the package debian-archive-keyring, or set SERVECORE_DEBIAN_KEYRING to its file"
}

# Prints the mirrors that may hold Debian itself, the likeliest first.
find_mirrors() {
  if [ -n "${SERVECORE_DEBIAN_MIRROR:-}" ]; then
    printf '%s\n' "$SERVECORE_DEBIAN_MIRROR"
    return
  fi
  # apt would answer this itself, but only once it has read an index. Debian's
  # own suites are named like a release and have the component main, as do those
  # of a few others: open_suite tells these apart.
  list=/etc/apt/sources.list parts=/etc/apt/sources.list.d/
  eval "$(apt-config shell list Dir::Etc::SourceList/f parts Dir::Etc::SourceParts/d 2>/dev/null)" || :
  for file in "$list" "$parts"*.list "$parts"*.sources; do
    [ -r "$file" ] || continue
    awk '
      function print_uris(uris, suites, components,   i, n, word) {
        if ((" " components " ") !~ / main /) return
        n = split(suites, word)
        for (i = 1; i <= n; i++)
          if (word[i] ~ /^(bookworm|trixie|forky|duke|sid|oldstable|stable|testing|unstable)$/) break
        if (i > n) return
        n = split(uris, word)
        for (i = 1; i <= n; i++) print word[i]
      }
      function stanza() {
        if ((" " field["types:"] " ") ~ / deb / &&
            tolower(field["enabled:"]) !~ /^ (no|false|0|off|without|disable)$/)
          print_uris(field["uris:"], field["suites:"], field["components:"])
        split("", field)
      }
      /^[ \t]*#/ { next }
      $1 == "deb" {
        sub(/\[[^]]*\]/, "")
        uri = $2; suite = $3
        $1 = $2 = $3 = ""
        print_uris(uri, suite, $0)
        next
      }
      NF == 0 { stanza(); next }
      match($0, /^[A-Za-z-]+:/) {
        name = tolower(substr($0, 1, RLENGTH))
        $0 = substr($0, RLENGTH + 1)
      }
      # A line that begins with a blank continues the field before.
      { for (i = 1; i <= NF; i++) field[name] = field[name] " " $i }
      END { stanza() }' "$file"
  done | awk '!/^cdrom:/ && !seen[$0]++'
}

# open_mirror SUITE MIRROR: sets up a private apt state in $WORK and reads the
# mirror's index of the suite.
open_mirror() {
  # The index is kept, so that asking again costs one small request.
  lists="$CACHE/index-$1-$(printf %s "$2" | sha256sum | cut -c1-8)"
  mkdir -p "$lists/partial" "$WORK/cache/archives/partial" || return 1
  : >"$WORK/status"
  printf 'deb [arch=amd64 signed-by=%s] %s %s main\n' "$KEYRING" "$2" "$1" >"$WORK/sources.list"
  cat >"$WORK/apt.conf" <<CONF
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "$(id -un)";
// What the host says of its own releases and caches does not hold here.
#clear APT::Default-Release;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
// Without this, an unreachable mirror passes for one that has no packages.
APT::Update::Error-Mode "any";
// A company's mirror is often a snapshot whose index has expired. What is taken
// is locked by its sha256, so an old index can do no harm.
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State::Lists "$lists";
Dir::State::status "$WORK/status";
Dir::Cache "$WORK/cache";
Dir::Etc::SourceList "$WORK/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
CONF
  APT_CONFIG="$WORK/apt.conf" flock "$lists" apt-get -q update >>"$WORK/update.log" 2>&1
}

# Opens the first of the host's mirrors that has the suite, signed by Debian.
open_suite() {
  mirrors=$(find_mirrors)
  [ -n "$mirrors" ] || die "looking for a Debian mirror" \
    "apt's sources name none" "set SERVECORE_DEBIAN_MIRROR to the URL of one"
  say "reading the index of $1"
  for mirror in $mirrors; do
    open_mirror "$1" "$mirror" || continue
    export APT_CONFIG="$WORK/apt.conf"
    return 0
  done
  die "reading the index of $1" "$(grep '^E:' "$WORK/update.log" | head -n 3 | one_line)" \
    "check the network and the mirror ($(printf '%s\n' "$mirrors" | one_line)), or set SERVECORE_DEBIAN_MIRROR"
}

# offered PACKAGE[=VERSION]...: prints "package version sha256" of each that the index has.
offered() {
  apt-get -q download --print-uris "$@" 2>/dev/null |
    awk '{ split($2, part, "_"); sub(/^SHA256:/, "", $4)
           gsub(/%3a/, ":", part[2]); print part[1], part[2], $4 }'
}

# resolve SPEC: prints the lock's lines.
resolve() {
  suite=$(awk '$1 == "suite" {print $2}' "$1")
  roots=$(awk '$1 == "root" {print $2}' "$1")
  keep=$(awk '$1 == "keep" {printf "%s%s", sep, $2; sep = "|"}' "$1")
  # shellcheck disable=SC2086  # roots is a list of words
  apt-get -q -s install $roots >"$WORK/plan" 2>"$WORK/plan.err" || die \
    "resolving $(basename "$1")" "$(grep '^E:' "$WORK/plan.err" | head -n 1)" \
    "a package may have been renamed: mend its name in $1"
  # shellcheck disable=SC2086
  chosen=$({
    printf '%s\n' $roots
    awk '$1 == "Inst" {print $2}' "$WORK/plan" | grep -E -x "(${keep:-none})" || :
  } | LC_ALL=C sort -u)
  # shellcheck disable=SC2086
  offered $chosen | LC_ALL=C sort >"$WORK/resolved"
  for package in $chosen; do
    grep -q "^$package " "$WORK/resolved" || die "resolving $(basename "$1")" \
      "the index offers no $package" "mend $1"
  done
  sed "s/^/$suite /" "$WORK/resolved"
}

# fetch LOCKLINES: brings every package of the file into $CACHE, by its sha256.
# Returns 3, with their names and versions in $gone, when the mirror lacks some.
# Ends by die or return alone: the shell ignores -e in what a condition calls.
fetch() {
  missing=$(awk -v cache="$CACHE" '{
    file = cache "/" $4 ".deb"
    if ((getline line < file) < 0) print $2 "=" $3
    close(file) }' "$1")
  [ -n "$missing" ] || return 0
  [ -f "$WORK/apt.conf" ] || open_suite "$(awk 'NR == 1 {print $1}' "$1")"
  # shellcheck disable=SC2086
  offered $missing | awk '{print $1 "=" $2}' >"$WORK/offered"
  gone=$(printf '%s\n' "$missing" | grep -vxF -f "$WORK/offered" | one_line)
  [ -z "$gone" ] || return 3
  say "fetching $(printf '%s\n' "$missing" | wc -l) packages"
  rm -rf "$WORK/in"
  mkdir -p "$WORK/in"
  quiet=-q
  [ -t 2 ] && quiet=
  # shellcheck disable=SC2086
  (cd "$WORK/in" && apt-get $quiet download $missing >&2) || die "fetching packages" \
    "apt-get download did not finish" "check the network and free space, then run again"
  for deb in "$WORK/in"/*.deb; do
    file=$(basename "$deb")
    sum=$(sha256sum <"$deb" | cut -d' ' -f1)
    locked=$(awk -v p="${file%%_*}" '$2 == p {print $4}' "$1")
    [ "$sum" = "$locked" ] || die "checking $file" \
      "its sha256 is $sum, and the lock has $locked" "rewrite the lock: $UPDATE"
    # The cache may lie on another file system: the last step alone is atomic.
    { mv "$deb" "$CACHE/$sum.deb.$$" && mv "$CACHE/$sum.deb.$$" "$CACHE/$sum.deb"; } ||
      die "keeping $file" "it could not be moved to $CACHE" "check free space there, then run again"
  done
}

# Absolute links inside an unpacked root would lead into the host.
relativize_links() {
  find "$1" -type l -lname '/*' | while IFS= read -r link; do
    target=$(readlink "$link")
    up=$(dirname "${link#"$1"/}" | sed 's|[^/][^/]*|..|g')
    [ "$(dirname "${link#"$1"/}")" = . ] && up=.
    ln -sfn "$up$target" "$link"
  done
}

# pick SOURCE PACKAGE...: prints the lines of $WORK/all, which came from SOURCE,
# that are of the packages; all without any.
pick() {
  source=$1
  shift
  [ $# -gt 0 ] || cat "$WORK/all"
  for package in "$@"; do
    awk -v p="$package" '$2 == p' "$WORK/all" | grep . || die "looking for $package" \
      "$source has no such package" "add it to ${lock%.lock}.in and rewrite the lock: $UPDATE"
  done
}

unpack() {
  lock=$1 dest=$2
  shift 2
  [ -r "$lock" ] || die "reading $lock" "it cannot be read" "name a lock, or make it: $UPDATE"
  broken=$(awk '!/^#/ && (NF != 4 || length($4) != 64 || $4 ~ /[^0-9a-f]/) {
    print NR ": " $0; exit }' "$lock")
  [ -z "$broken" ] || die "reading $lock" \
    "it is not SUITE PACKAGE VERSION SHA256 in line $broken" "rewrite the lock: $UPDATE"
  grep -v '^#' "$lock" >"$WORK/all" || die "reading $lock" \
    "it names no package" "rewrite the lock: $UPDATE"
  pick "$lock" "$@" >"$WORK/wanted"
  status=0
  fetch "$WORK/wanted" || status=$?
  if [ "$status" -eq 3 ]; then
    [ "${SERVECORE_LOCKED:-0}" != 1 ] || die "fetching locked packages" \
      "the mirror no longer has $gone" \
      "rewrite the lock ($UPDATE) or unset SERVECORE_LOCKED"
    say "note: the mirror no longer has some locked versions; taking what its signed index offers instead of: $gone"
    resolve "${lock%.lock}.in" >"$WORK/all"
    pick "the mirror's index" "$@" >"$WORK/wanted"
    fetch "$WORK/wanted" || die "fetching packages" \
      "the mirror's index changed meanwhile" "run again"
  elif [ "$status" -ne 0 ]; then
    exit "$status"
  fi
  mkdir -p "$dest"
  while read -r _ package _ sum; do
    printf '%s  %s\n' "$sum" "$CACHE/$sum.deb" | sha256sum --check --quiet >&2 || {
      rm -f "$CACHE/$sum.deb"
      die "checking $package" "the kept copy was damaged, and is removed" "run again"
    }
    dpkg-deb -x "$CACHE/$sum.deb" "$dest" || die "unpacking $package" \
      "dpkg-deb did not finish" "check free space under $dest, then run again"
  done <"$WORK/wanted"
  relativize_links "$dest"
}

lock() {
  open_suite "$(awk '$1 == "suite" {print $2}' "$1")"
  resolve "$1" >"$WORK/lock"
  [ -s "$WORK/lock" ] || die "resolving $1" "no package was resolved" "mend $1"
  {
    echo "# Generated by third_party/debian/update_locks.sh from $(basename "$1"). Do not edit."
    cat "$WORK/lock"
  } >"$2.tmp"
  mv "$2.tmp" "$2"
  say "$(basename "$2"): $(wc -l <"$WORK/lock") packages"
}

need_debian
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
case $cache in
  /*) ;;
  *) die "looking for a folder to keep packages in" \
    "XDG_CACHE_HOME is '${XDG_CACHE_HOME:-}' and HOME is '${HOME:-}'" "set one to an absolute path" ;;
esac
readonly CACHE="$cache/servecore/debs"
mkdir -p "$CACHE" || die "making $CACHE" "it cannot be written" "set XDG_CACHE_HOME to a folder that can"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/debs.XXXXXX") || die "making a folder to work in" \
  "${TMPDIR:-/tmp} cannot be written" "set TMPDIR to a folder that can"
trap 'rm -rf "$WORK" "$CACHE"/*.deb.$$' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
command=${1:-}
[ $# -ge 3 ] || die "reading the command line" "got '$*'" \
  "use: debs.sh unpack LOCK DEST [PACKAGE...] | debs.sh lock SPEC LOCK"
shift
case $command in
  unpack) unpack "$@" ;;
  lock) lock "$@" ;;
  *) die "reading the command line" "unknown command '$command'" "use unpack or lock" ;;
esac
