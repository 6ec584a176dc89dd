# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of bazelw and install.sh: which Bazel is used, and how one is installed."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import pytest

from fake_debian import MIRROR, FakeDebian, assert_explained, write_lock

INSTALL = "third_party/bazel/install.sh"
VERSION = "7.7.1"
LIBS = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBS}/ld-linux-x86-64.so.2"
LIBEXEC = "usr/libexec/x86_64-linux-gnu/bazel"
JVM = "usr/lib/jvm/java-25-openjdk-amd64"
CLASS_PATH = "usr/share/bazel/bazel_classpath_debian_depends.txt"
ELF = "\x7fELF of a test"

# Writes down who it is, its arguments and its environment.
RECORD = """
case ${1:-} in
  --version)
    [ -n "$version" ] || exit 1
    echo "$version"
    exit
    ;;
esac
echo "$name" >"$state/ran"
: >"$state/arguments"
[ $# -eq 0 ] || printf '%s\\0' "$@" >"$state/arguments"
env >"$state/environment"
exit "${FAKE_EXIT:-0}"
"""


def recorder(name: str, version: str = "") -> str:
    return f"name='{name}' version='{version}'\n{RECORD}"


@pytest.fixture
def host(tmp_path):
    """A machine with no Bazel, whose mirror has the packages that make one."""
    host = FakeDebian(tmp_path)
    patchelf = """
        step relocate
        for last; do :; done
        case $last in *"$(cat "$state/unpatchable" 2>/dev/null || echo none)") exit 1 ;; esac
        { printf '%s|' "$@" && echo; } >>"$state/patched"
    """
    openssl = """
        step trust
        while [ $# -gt 0 ]; do
          case $1 in
            -in) cp "$2" "$state/certificates" ;;
            -out) echo trust >"$2" ;;
          esac
          shift
        done
    """
    # unzip -p JAR MANIFEST: a jar of this test is its manifest.
    unzip = '[ "$1 $3" = "-p META-INF/MANIFEST.MF" ] && cat "$2"'
    packages = [
        host.publish(
            "bazel-bootstrap",
            VERSION,
            {
                "usr/bin/bazel": host.script(recorder("installed")),
                f"{LIBEXEC}/linux-sandbox": ELF,
                f"{LIBEXEC}/script": "#!/bin/sh\n",
            },
        ),
        host.publish(
            "bazel-bootstrap-data",
            VERSION,
            {
                CLASS_PATH: "/usr/share/java/first.jar\n/usr/share/java/second.jar\n",
                "usr/share/java/first.jar": (
                    "Manifest-Version: 1.0\r\n"
                    "Class-Path: /usr/share/java/third.jar relative.jar /usr/sha\r\n"
                    " re/java/fourth.jar\r\n"
                ),
                "usr/share/java/second.jar": "Manifest-Version: 1.0\r\n",
                "usr/share/java/third.jar": (
                    "Class-Path: /usr/share/java/fifth.jar /usr/share/java/first.jar\r\n"
                ),
            },
        ),
        host.publish(
            "openjdk-25-jre-headless",
            "25",
            {f"{JVM}/bin/java": ELF, f"{JVM}/lib/server/libjvm.so": ELF, f"{JVM}/lib/data": "x"},
            {f"{JVM}/conf": "/etc/java-25-openjdk"},
        ),
        host.publish("libc6", "2.43", {LOADER: host.script('shift 2; exec "$@"')}),
        host.publish("patchelf", "0.18", {"usr/bin/patchelf": host.script(patchelf)}),
        host.publish("openssl", "3", {"usr/bin/openssl": host.script(openssl)}),
        host.publish("unzip", "6", {"usr/bin/unzip": host.script(unzip)}),
        host.publish(
            "ca-certificates",
            "1",
            {
                "usr/share/ca-certificates/mozilla/a.crt": "packaged a\n",
                "usr/share/ca-certificates/mozilla/b.crt": "packaged b\n",
            },
        ),
    ]
    write_lock(host.lock, packages)
    host.lock.with_suffix(".in").write_text("suite sid\nroot bazel-bootstrap\nkeep .*\n")
    return host


def root_of(host: FakeDebian, cache: Path | None = None, suffix: str = "") -> Path:
    """Where bazelw puts its own Bazel."""
    digest = hashlib.sha256(host.lock.read_bytes()).hexdigest()[:12]
    return (cache or host.cache) / "bazel" / f"{VERSION}-{digest}{suffix}"


def ran(host: FakeDebian) -> str:
    return host.state("ran").strip()


def arguments(host: FakeDebian) -> list[str]:
    return host.state("arguments").split("\0")[:-1]


def installs(host: FakeDebian) -> int:
    """How often the packages were unpacked."""
    count, rest = divmod(host.log().count("dpkg-deb -x"), 8)
    assert rest == 0
    return count


def assert_nothing_installed(host: FakeDebian) -> None:
    assert not list(host.home.rglob("installed"))


# --- Which Bazel --------------------------------------------------------------

# How a machine is made to use one, by the name that the Bazel writes down.
WAYS = ["variable", "bazelisk", "bazel", "installed"]


def provide(host: FakeDebian, way: str) -> dict[str, str]:
    """Gives the machine a Bazel; returns what the environment must hold."""
    if way == "variable":
        path = host.program("my own bazel", recorder("variable"))
        return {"SERVECORE_BAZEL": str(path)}
    if way == "bazelisk":
        host.program("bazelisk", recorder("bazelisk"))
    if way == "bazel":
        host.program("bazel", recorder("bazel", "bazel 7.4.0"))
    return {}


@pytest.mark.parametrize("first", range(len(WAYS)))
def test_the_first_way_that_exists_is_taken(host, first):
    environment: dict[str, str] = {}
    for way in WAYS[first:]:
        environment |= provide(host, way)
    result = host.run("bazelw", "build", "//...", **environment)
    assert result.code == 0, result.err
    assert ran(host) == WAYS[first]
    assert installs(host) == (1 if WAYS[first] == "installed" else 0)


def test_variable_may_name_a_program_on_the_path(host):
    host.program("bazelisk", recorder("bazelisk"))
    host.program("bazel-next", recorder("next"))
    assert host.run("bazelw", SERVECORE_BAZEL="bazel-next").code == 0
    assert ran(host) == "next"


@pytest.mark.parametrize("version", ["bazel 7.0.0", "bazel 7.7.1", "bazel 7.10.0rc1"])
def test_bazel_7_of_the_path_is_taken(host, version):
    host.program("bazel", recorder("bazel", version))
    assert host.run("bazelw", "version").code == 0
    assert ran(host) == "bazel"


@pytest.mark.parametrize(
    "version",
    ["bazel 6.5.0", "bazel 8.4.2", "bazel 70.1.0", "bazel no_version", "Build label: 7.1.0", ""],
)
def test_other_bazel_of_the_path_is_not_taken(host, version):
    host.program("bazel", recorder("bazel", version))
    result = host.run("bazelw", "version")
    assert result.code == 0, result.err
    assert ran(host) == "installed"


def test_installed_copy_is_used_again_without_debian(host):
    assert host.run("bazelw").code == 0
    for tool in ("apt-get", "dpkg-deb"):
        host.remove_program(tool)
    result = host.run("bazelw", "info")
    assert result.code == 0
    assert result.err == ""
    assert arguments(host)[-1] == "info"
    assert installs(host) == 1


def test_another_lock_is_another_installed_copy(host):
    assert host.run("bazelw").code == 0
    host.lock.write_text(host.lock.read_text() + "# another\n")
    assert host.run("bazelw").code == 0
    assert installs(host) == 2


def test_strict_lock_does_not_take_a_copy_that_was_installed_without(host):
    moved = host.publish("unzip", "7", {"usr/bin/unzip": "#!/bin/sh\nexit 0"})
    result = host.run("bazelw")
    assert result.code == 0, result.err
    assert "note: the mirror no longer has" in result.err
    result = host.run("bazelw", SERVECORE_LOCKED="1")
    assert result.code == 1
    assert_explained(result.err, "unzip=6")
    assert not root_of(host, suffix="-locked").exists()
    lines = host.lock.read_text().splitlines()
    lines = [moved.lock_line if " unzip " in line else line for line in lines]
    host.lock.write_text("\n".join(lines) + "\n")
    assert host.run("bazelw", SERVECORE_LOCKED="1").code == 0
    assert (root_of(host, suffix="-locked") / "installed").exists()


# --- What is passed on --------------------------------------------------------

ARGUMENTS = [
    [],
    ["build", "//..."],
    ["run", "//py/tools:replay", "--", "--trace", "a file.jsonl", ""],
    ["", " ", "two  blanks", "a\tb", "line\nbreak"],
    ["*", "$HOME", "`id`", "'single'", '"double"', "back\\slash", "-n", "é"],
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("given", ARGUMENTS)
def test_arguments_are_passed_on_unchanged(host, way, given):
    result = host.run("bazelw", *given, **provide(host, way))
    assert result.code == 0, result.err
    assert ran(host) == way
    received = arguments(host)
    if way == "installed":
        received = received[len(received) - len(given) :]
    assert received == given


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("code", [1, 3, 37])
def test_exit_code_is_passed_on(host, way, code):
    environment = provide(host, way)
    assert host.run("bazelw", "test", FAKE_EXIT=str(code), **environment).code == code


def test_installed_copy_is_told_where_its_parts_are(host):
    assert host.run("bazelw", "info").code == 0
    root = root_of(host)
    assert arguments(host) == [
        f"--install_base={root}/usr/share/bazel",
        "--trust_install_base",
        f"--server_javabase={root}/{JVM}",
        f"--host_jvm_args=-Djavax.net.ssl.trustStore={root}/trust.p12",
        "--host_jvm_args=-Djavax.net.ssl.trustStorePassword=changeit",
        "info",
    ]


def test_installed_copy_does_not_see_what_would_lead_it_astray(host):
    names = ["JAVA_HOME", "CLASSPATH", "LD_LIBRARY_PATH", "LD_PRELOAD"]
    given = {name: "" if name == "LD_PRELOAD" else "/nowhere" for name in names}
    assert host.run("bazelw", KEPT="kept", **given).code == 0
    lines = host.state("environment").splitlines()
    assert "KEPT=kept" in lines
    assert [line for line in lines if line.split("=")[0] in names] == []


# --- The environment ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["missing", "folder", "not executable", "builtin"])
def test_variable_that_names_no_program_is_an_error(host, kind):
    path = host.folder / "something"
    if kind == "folder":
        path.mkdir()
    if kind == "not executable":
        path.touch()
    named = "export" if kind == "builtin" else str(path)
    host.program("bazelisk", recorder("bazelisk"))
    result = host.run("bazelw", SERVECORE_BAZEL=named)
    assert result.code == 1
    assert f"SERVECORE_BAZEL is '{named}', which is no program" in result.err
    assert "unset it" in result.err


def test_empty_variable_counts_as_unset(host):
    host.program("bazelisk", recorder("bazelisk"))
    assert host.run("bazelw", SERVECORE_BAZEL="").code == 0
    assert ran(host) == "bazelisk"


@pytest.mark.parametrize("home", [None, ""])
def test_without_home_and_xdg_cache_home_nothing_is_done(host, home):
    result = host.run("bazelw", HOME=home)
    assert result.code == 1
    assert "HOME" in result.err
    assert "XDG_CACHE_HOME" in result.err
    assert host.log() == []


def test_home_is_not_needed_by_a_bazel_of_the_user(host):
    host.program("bazelisk", recorder("bazelisk"))
    assert host.run("bazelw", HOME=None).code == 0


def test_xdg_cache_home_is_honoured(host, tmp_path):
    cache = tmp_path / "a cache  of blanks"
    result = host.run("bazelw", "info", HOME=None, XDG_CACHE_HOME=str(cache))
    assert result.code == 0, result.err
    assert (root_of(host, cache / "servecore") / "installed").exists()
    assert list(host.home.iterdir()) == []


def test_empty_xdg_cache_home_counts_as_unset(host):
    assert host.run("bazelw", XDG_CACHE_HOME="").code == 0
    assert (root_of(host) / "installed").exists()


def test_relative_cache_is_an_error(host):
    result = host.run("bazelw", XDG_CACHE_HOME="some/cache")
    assert result.code == 1
    assert "'some/cache', which is no absolute path" in result.err
    assert host.log() == []


def test_cache_that_cannot_be_made_is_explained(host, tmp_path):
    (tmp_path / "file").touch()
    result = host.run("bazelw", XDG_CACHE_HOME=str(tmp_path / "file"))
    assert result.code == 1
    assert_explained(result.err, str(tmp_path / "file"), "XDG_CACHE_HOME")


@pytest.mark.parametrize("tool", ["apt-get", "dpkg-deb"])
def test_machine_that_is_no_debian_is_told_what_to_install(host, tool):
    host.remove_program(tool)
    result = host.run("bazelw", "build")
    assert result.code == 1
    assert_explained(
        result.err, tool, "no Debian", f"install Bazel {VERSION} (or bazelisk)", "SERVECORE_BAZEL"
    )
    assert_nothing_installed(host)


@pytest.mark.parametrize(("system", "machine"), [("Linux", "aarch64"), ("Darwin", "x86_64")])
def test_other_machine_is_told_what_to_install(host, system, machine):
    host.program("uname", f'[ "$1" = -s ] && echo {system} || echo {machine}')
    result = host.run("bazelw", "build")
    assert result.code == 1
    assert_explained(result.err, system, machine, f"install Bazel {VERSION} (or bazelisk)")
    assert host.log() == []


# --- The install --------------------------------------------------------------


def test_install_says_what_it_does(host):
    err = host.run("bazelw").err
    said = [line for line in err.splitlines() if line.startswith(("bazelw:", "debs:"))]
    assert said == [
        f"bazelw: installing Bazel {VERSION} into {root_of(host)} (once, about 150 MB to fetch)",
        "debs: reading the index of sid",
        "debs: fetching 8 packages",
        "bazelw: relocating",
        "bazelw: installed",
    ]
    assert host.mirrors_asked() == [MIRROR]


def test_programs_and_libraries_find_those_of_the_root(host):
    assert host.run("bazelw").code == 0
    root = root_of(host)
    patched = [line.rstrip("|").split("|") for line in host.state("patched").splitlines()]
    # The work is done in a folder that then becomes the root.
    found = {line[-1].split("/usr/", 1)[1]: line[:-1] for line in patched}
    interpreter = ["--set-interpreter", f"{root}/{LOADER}"]
    rpath = ["--force-rpath", "--set-rpath"]
    assert found == {
        f"{LIBEXEC}/linux-sandbox".removeprefix("usr/"): [*interpreter, *rpath, f"{root}/{LIBS}"],
        f"{JVM}/bin/java".removeprefix("usr/"): [
            *interpreter,
            *rpath,
            f"$ORIGIN/../lib:$ORIGIN:{root}/{LIBS}",
        ],
        f"{JVM}/lib/server/libjvm.so".removeprefix("usr/"): [
            *rpath,
            f"$ORIGIN:$ORIGIN/..:{root}/{LIBS}",
        ],
    }
    assert (root / JVM / "conf").readlink() == Path("../../../../etc/java-25-openjdk")


def test_class_path_holds_every_jar_that_a_manifest_names(host):
    assert host.run("bazelw").code == 0
    root = root_of(host)
    jars = (root / CLASS_PATH).read_text().splitlines()
    names = ["first", "second", "third", "fourth", "fifth"]
    assert sorted(jars) == sorted(f"{root}/usr/share/java/{name}.jar" for name in names)


def test_certificates_are_those_of_the_variable(host):
    bundle = host.folder / "my certificates.pem"
    bundle.write_text("mine\n")
    assert host.run("bazelw", SSL_CERT_FILE=str(bundle)).code == 0
    assert host.state("certificates") == "mine\n"
    assert (root_of(host) / "trust.p12").read_text() == "trust\n"


def test_certificates_of_the_package_serve_where_the_host_has_none(host):
    assert host.run("bazelw", SSL_CERT_FILE=str(host.folder / "missing.pem")).code == 0
    assert host.state("certificates") == "packaged a\npackaged b\n"


@pytest.mark.parametrize("file", ["linux-sandbox", "java", "libjvm.so"])
def test_file_that_cannot_be_relocated_is_explained(host, file):
    (host.folder / "state/unpatchable").write_text(f"/{file}")
    result = host.run("bazelw")
    assert result.code == 1
    assert_explained(result.err, "relocating", file)
    assert_nothing_installed(host)
    assert list(root_of(host).parent.glob("*.tmp.*")) == []


def test_package_without_a_loader_is_explained(host):
    package = host.publish("libc6", "2.43", {"usr/share/doc/libc6": "x"})
    lines = host.lock.read_text().splitlines()
    lines = [package.lock_line if " libc6 " in line else line for line in lines]
    host.lock.write_text("\n".join(lines) + "\n")
    result = host.run("bazelw")
    assert result.code == 1
    assert_explained(result.err, "relocating", "libc6")
    assert_nothing_installed(host)


def test_trust_store_that_cannot_be_written_is_explained(host):
    folder = host.folder / "a folder"
    folder.mkdir()
    result = host.run("bazelw", SSL_CERT_FILE=str(folder))
    assert result.code == 1
    assert_explained(result.err, "trust store", str(folder), "SSL_CERT_FILE")
    assert_nothing_installed(host)


def test_failure_to_fetch_is_explained_and_can_be_tried_again(host):
    host.break_download()
    result = host.run("bazelw")
    assert result.code == 1
    assert_explained(result.err, "fetching packages", "network")
    assert_nothing_installed(host)
    host.break_download(False)
    assert host.run("bazelw").code == 0


# --- Two at once, and interruptions -------------------------------------------


def test_second_install_waits_for_the_first_and_installs_nothing(host):
    host.hold("download")
    first = host.start("bazelw", "first")
    host.wait_reached("download")
    second = host.start("bazelw", "second", "argument")
    second.wait_for_err("another install is running; waiting for it")
    host.release("download")
    assert first.finish().code == 0
    result = second.finish()
    assert result.code == 0
    assert "installing" not in result.err
    assert installs(host) == 1


def test_second_install_takes_over_when_the_first_fails(host):
    host.hold("download")
    host.break_download()
    first = host.start("bazelw")
    host.wait_reached("download")
    second = host.start("bazelw")
    second.wait_for_err("waiting for it")
    first.kill_group(signal.SIGTERM)
    assert first.finish().code != 0
    host.break_download(False)
    host.release("download")
    result = second.finish()
    assert result.code == 0, result.err
    assert ran(host) == "installed"


@pytest.mark.parametrize("step", ["update", "download", "unpack", "relocate", "trust"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_install_counts_for_nothing(host, step, number):
    host.hold(step)
    running = host.start("bazelw")
    host.wait_reached(step)
    running.kill_group(number)
    assert running.finish().code == -number
    assert_nothing_installed(host)
    assert not root_of(host).exists()
    if number != signal.SIGKILL:
        assert list(root_of(host).parent.glob("*.tmp.*")) == []
        assert list(host.temporary.iterdir()) == []
    host.release(step)
    result = host.run("bazelw", "info")
    assert result.code == 0, result.err
    assert ran(host) == "installed"
    root = root_of(host)
    assert (root / CLASS_PATH).read_text().startswith(f"{root}/usr/share/java/")
    assert sorted(path.name for path in root.parent.iterdir()) == [root.name, f"{root.name}.lock"]


def test_next_install_waits_for_what_a_killed_one_left_running(host):
    host.hold("unpack")
    root = root_of(host)
    orphaned = host.start(INSTALL, host.lock, root, VERSION)
    host.wait_reached("unpack")
    os.kill(orphaned.pid, signal.SIGKILL)
    following = host.start("bazelw")
    following.wait_for_err("waiting for it")
    assert list(root.parent.glob("*.tmp.*")), "the orphan still writes here"
    host.release("unpack")
    result = following.finish()
    assert result.code == 0, result.err
    assert ran(host) == "installed"
    assert sorted(path.name for path in root.parent.iterdir()) == [root.name, f"{root.name}.lock"]
    orphaned.finish()


def test_bazel_does_not_inherit_the_lock(host):
    # Its server lives on, and a lock that it held would block every later install.
    bazel = host.script('ls -l "/proc/$$/fd" >"$state/descriptors"')
    package = host.publish("bazel-bootstrap", VERSION, {"usr/bin/bazel": bazel})
    lines = host.lock.read_text().splitlines()
    lines = [package.lock_line if " bazel-bootstrap " in line else line for line in lines]
    host.lock.write_text("\n".join(lines) + "\n")
    (host.folder / "tools/ls").symlink_to("/bin/ls")
    result = host.run("bazelw")
    assert result.code == 0, result.err
    assert "installed" in result.err
    assert ".lock" not in host.state("descriptors")
    assert "/" in host.state("descriptors")
