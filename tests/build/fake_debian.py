# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""A machine with a false Debian, on which the launcher's scripts run without a network.

apt-get, apt-config and dpkg-deb are small stand-ins that behave as the real ones
do where the scripts depend on it; all other tools are the host's. Every path of
the machine holds a blank.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Not resolved: under Bazel this is the tree of runfiles, which holds the scripts too.
SOURCE_ROOT = Path(__file__).absolute().parents[2]
SCRIPTS = (
    "bazelw",
    "third_party/bazel/install.sh",
    "third_party/debian/debs.sh",
    "third_party/debian/relocate.sh",
    "third_party/debian/update_locks.sh",
)
MIRROR = "http://mirror.example/debian"
PATIENCE_SECONDS = 120

_TOOLS = [
    "awk",
    "basename",
    "cat",
    "cp",
    "cut",
    "dirname",
    "env",
    "find",
    "flock",
    "grep",
    "head",
    "id",
    "ln",
    "mkdir",
    "mktemp",
    "mv",
    "readlink",
    "rm",
    "sed",
    "sh",
    "sha256sum",
    "sleep",
    "sort",
    "tail",
    "tar",
    "tr",
    "uname",
    "wc",
]

_PRELUDE = """#!/bin/sh
set -eu
state='{state}'
log() {{ printf '%s\\n' "$*" >>"$state/log"; }}
# Stops at a step for as long as the test holds it.
step() {{
  [ -e "$state/hold-$1" ] || return 0
  : >"$state/reached-$1"
  while [ -e "$state/hold-$1" ]; do sleep 0.05; done
}}
"""

_APT_GET = """
command='' uris='' names=''
for word in "$@"; do
  case $word in
    --print-uris) uris=1 ;;
    -*) ;;
    *) [ -n "$command" ] && names="$names $word" || command=$word ;;
  esac
done
log "apt-get $command${uris:+ --print-uris}"
sources=$(sed -n 's/^Dir::Etc::SourceList "\\(.*\\)";$/\\1/p' "$APT_CONFIG")
mirror=$(awk '{print $4}' "$sources")
index() { awk -v name="${1%%=*}" '$1 == name' "$state/index"; }
case $command in
  update)
    cp "$APT_CONFIG" "$state/apt.conf"
    cp "$sources" "$state/sources.list"
    log "mirror $mirror"
    step update
    grep -qxF "$mirror" "$state/mirrors" && exit 0
    # The real one takes an unreachable mirror lightly unless it is told not to.
    grep -q '^APT::Update::Error-Mode "any";$' "$APT_CONFIG" || exit 0
    echo "Err:1 $mirror InRelease"
    echo "E: Failed to fetch $mirror/dists/InRelease  Could not connect" >&2
    exit 100
    ;;
  download)
    status=0
    for word in $names; do
      line=$(index "$word")
      version=$(printf '%s\\n' "$line" | cut -d' ' -f2)
      case $word in
        *=*) [ "$version" = "${word#*=}" ] || line='' ;;
      esac
      if [ -z "$line" ]; then
        echo "E: Version '${word#*=}' for '${word%%=*}' was not found" >&2
        status=100
        continue
      fi
      file="${word%%=*}_$(printf '%s' "$version" | sed 's/:/%3a/g')_amd64.deb"
      sum=$(printf '%s\\n' "$line" | cut -d' ' -f3)
      if [ -n "$uris" ]; then
        echo "'$mirror/pool/$file' $file 1 SHA256:$sum"
      elif [ "$status" -eq 0 ]; then
        step download
        [ ! -e "$state/broken-download" ] || exit 100
        cp "$state/pool/$sum" "$file"
        echo "Get: $file"
      fi
    done
    exit "$status"
    ;;
  install)
    for word in $names; do
      [ -n "$(index "$word")" ] || {
        echo "E: Unable to locate package $word" >&2
        exit 100
      }
    done
    cat "$state/plan"
    ;;
esac
"""

_APT_CONFIG = """
printf "list='%s' parts='%s'\\n" "$state/sources/sources.list" "$state/sources/sources.list.d/"
"""

_DPKG_DEB = """
log "dpkg-deb $1"
step unpack
tar -xf "$2" -C "$3"
"""


@dataclass(frozen=True)
class Package:
    """A package as the mirror offers it."""

    name: str
    version: str
    sha256: str

    @property
    def lock_line(self) -> str:
        """The line of a lock that names it."""
        return f"sid {self.name} {self.version} {self.sha256}"


@dataclass(frozen=True)
class Result:
    """What a script said, and how it ended."""

    code: int
    out: str
    err: str


class Running:
    """A script at work, the leader of a process group of its own."""

    def __init__(self, process: subprocess.Popen[bytes], err: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._err = err

    def err(self) -> str:
        """What it has said on standard error so far."""
        return self._err.read_text()

    def wait_for_err(self, text: str) -> None:
        """Waits until standard error holds a text."""
        wait_until(lambda: text in self.err(), f"{text!r} on standard error")

    def kill_group(self, number: signal.Signals) -> None:
        """Sends a signal to it and to all that it started."""
        os.killpg(self.pid, number)

    def finish(self) -> Result:
        """Waits until it, and all that it started, have ended."""
        # The pipe of standard output is closed when the last of them ends.
        out, _ = self._process.communicate(timeout=PATIENCE_SECONDS)
        return Result(self._process.returncode, out.decode(), self.err())


class FakeDebian:
    """A machine made in a folder.

    Attributes:
        folder: where all of it is.
        repository: the copy of the scripts.
        home: the user's home.
        cache: the folder that the scripts keep things in.
        debs: where the packages are kept.
        lock: the lock of the packages that make Bazel.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a machine"
        self.repository = self.folder / "a clone"
        self.home = self.folder / "home"
        self.cache = self.home / ".cache" / "servecore"
        self.debs = self.cache / "debs"
        self.lock = self.repository / "third_party/debian/bazel.lock"
        self.temporary = self.folder / "tmp"
        self._state = self.folder / "state"
        self._programs = self.folder / "programs"
        self._tools = self.folder / "tools"
        self._sources = self._state / "sources"
        self._packages: dict[str, Package] = {}
        for path in (
            self.home,
            self.temporary,
            self._programs,
            self._tools,
            self._state / "pool",
            self._sources / "sources.list.d",
        ):
            path.mkdir(parents=True)
        for script in SCRIPTS:
            target = self.repository / script
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE_ROOT / script, target)
        shutil.copy(SOURCE_ROOT / ".bazelversion", self.repository)
        for tool in _TOOLS:
            found = shutil.which(tool, path="/usr/bin:/bin:/usr/sbin:/sbin")
            assert found is not None, f"the tests need {tool} on this machine"
            (self._tools / tool).symlink_to(found)
        # apt's own sources allow no blank in this one.
        self.keyring = folder / "keyring.gpg"
        self.keyring.touch()
        (self._state / "log").touch()
        self.serve(MIRROR)
        self.write_sources("sources.list", f"deb {MIRROR} bookworm main\n")
        self.program("apt-get", _APT_GET)
        self.program("apt-config", _APT_CONFIG)
        self.program("dpkg-deb", _DPKG_DEB)

    # --- What the machine has -------------------------------------------------

    def program(self, name: str, script: str) -> Path:
        """Puts a program on the PATH, before the host's; it may call `log` and `step`."""
        path = self._programs / name
        path.write_text(self.script(script))
        path.chmod(0o755)
        return path

    def script(self, text: str) -> str:
        """A program's text with `log`, `step` and `$state` at its command."""
        return _PRELUDE.format(state=self._state) + text

    def remove_program(self, name: str) -> None:
        """Takes a program away."""
        for folder in (self._programs, self._tools):
            (folder / name).unlink(missing_ok=True)

    def serve(self, *mirrors: str) -> None:
        """Makes these the mirrors that answer."""
        (self._state / "mirrors").write_text("".join(f"{mirror}\n" for mirror in mirrors))

    def write_sources(self, name: str, text: str) -> None:
        """Writes a file of apt's sources: sources.list, or one of sources.list.d."""
        folder = self._sources if name == "sources.list" else self._sources / "sources.list.d"
        (folder / name).write_text(text)

    def publish(
        self,
        name: str,
        version: str,
        files: Mapping[str, str] | None = None,
        links: Mapping[str, str] | None = None,
    ) -> Package:
        """Makes the mirror offer this version of a package, and no other."""
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            for path, text in (files or {f"usr/share/{name}": version}).items():
                entry = tarfile.TarInfo(path)
                entry.size = len(text.encode())
                entry.mode = 0o755
                tar.addfile(entry, io.BytesIO(text.encode()))
            for path, target in (links or {}).items():
                entry = tarfile.TarInfo(path)
                entry.type = tarfile.SYMTYPE
                entry.linkname = target
                tar.addfile(entry)
        package = Package(name, version, hashlib.sha256(data.getvalue()).hexdigest())
        (self._state / "pool" / package.sha256).write_bytes(data.getvalue())
        self._packages[name] = package
        self._write_index()
        return package

    def withdraw(self, name: str) -> None:
        """Makes the mirror offer no version of a package."""
        del self._packages[name]
        self._write_index()

    def promise(self, name: str) -> None:
        """Makes apt plan to install a package that the mirror does not offer."""
        with (self._state / "plan").open("a") as plan:
            plan.write(f"Inst {name} (1 Debian:unstable [amd64])\n")

    def _write_index(self) -> None:
        lines = [f"{p.name} {p.version} {p.sha256}\n" for p in self._packages.values()]
        (self._state / "index").write_text("".join(lines))
        # apt would install all of them for any request.
        (self._state / "plan").write_text(
            "".join(
                f"Inst {p.name} ({p.version} Debian:unstable [amd64])\n"
                for p in self._packages.values()
            )
        )

    def break_download(self, broken: bool = True) -> None:
        """Makes every fetch of a package fail, or work again."""
        if broken:
            (self._state / "broken-download").touch()
        else:
            (self._state / "broken-download").unlink()

    # --- What happens on it ---------------------------------------------------

    def environment(self, **changes: str | None) -> dict[str, str]:
        """The environment of a user; None takes a variable out."""
        values: dict[str, str | None] = {
            "HOME": str(self.home),
            "PATH": f"{self._programs}:{self._tools}",
            "SERVECORE_DEBIAN_KEYRING": str(self.keyring),
            "TMPDIR": str(self.temporary),
            **changes,
        }
        return {name: value for name, value in values.items() if value is not None}

    def start(self, script: str, *arguments: str | Path, **changes: str | None) -> Running:
        """Starts a script of the repository."""
        number = len(list(self.folder.glob("err-*")))
        err = self.folder / f"err-{number}"
        command: Sequence[str | Path] = [self.repository / script, *arguments]
        with err.open("wb") as stream:
            process = subprocess.Popen(
                command if script == "bazelw" else ["/bin/sh", *command],
                cwd=self.folder,
                env=self.environment(**changes),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                start_new_session=True,
                # A shell that runs the tests in the background ignores it for them.
                preexec_fn=_heed_interrupts,
            )
        return Running(process, err)

    def run(self, script: str, *arguments: str | Path, **changes: str | None) -> Result:
        """Runs a script of the repository to its end."""
        return self.start(script, *arguments, **changes).finish()

    def hold(self, step: str) -> None:
        """Makes whoever comes to a step wait there."""
        (self._state / f"hold-{step}").touch()

    def wait_reached(self, step: str) -> None:
        """Waits until somebody has come to a held step."""
        wait_until((self._state / f"reached-{step}").exists, f"the step {step}")

    def release(self, step: str) -> None:
        """Lets those at a step go on."""
        (self._state / f"hold-{step}").unlink()
        (self._state / f"reached-{step}").unlink(missing_ok=True)

    def log(self) -> list[str]:
        """What the stand-ins were asked to do."""
        return (self._state / "log").read_text().splitlines()

    def clear_log(self) -> None:
        """Forgets what was asked so far."""
        (self._state / "log").write_text("")

    def mirrors_asked(self) -> list[str]:
        """The mirrors whose index was read, in order."""
        return [line.removeprefix("mirror ") for line in self.log() if line.startswith("mirror ")]

    def state(self, name: str) -> str:
        """The text of a file that a stand-in left."""
        return (self._state / name).read_text()

    def kept(self) -> set[str]:
        """Names of the files in the cache of packages, its indices aside."""
        if not self.debs.exists():
            return set()
        return {path.name for path in self.debs.iterdir() if path.is_file()}


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def write_lock(path: Path, packages: Sequence[Package]) -> Path:
    """Writes a lock of packages."""
    lines = ["# Generated by a test.", *(package.lock_line for package in packages)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition.

    Raises:
        TimeoutError: it did not come true in PATIENCE_SECONDS.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.02)


def assert_explained(err: str, *words: str) -> None:
    """Checks that a failure names the step, the cause and what to do next."""
    lines = err.strip().splitlines()
    failures = [i for i, line in enumerate(lines) if " failed: " in line]
    assert failures, err
    line = lines[failures[-1]]
    step, cause = line.split(" failed: ", 1)
    assert step.partition(": ")[2].strip(), err
    assert cause.strip(), err
    following = lines[failures[-1] + 1]
    assert following.startswith("  next: "), err
    assert following.removeprefix("  next: ").strip(), err
    for word in words:
        assert word in f"{line}\n{following}", err
