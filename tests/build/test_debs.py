# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of debs.sh: how locked Debian packages are found, fetched, checked and unpacked."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fake_debian import MIRROR, FakeDebian, assert_explained, write_lock

DEBS = "third_party/debian/debs.sh"
UPDATE_LOCKS = "third_party/debian/update_locks.sh"

SPEC = "suite sid\nroot alpha\nroot beta\nkeep lib[a-z]+\n"


@pytest.fixture
def host(tmp_path):
    """A machine whose lock names alpha, beta and libgamma, all of which the mirror has."""
    host = FakeDebian(tmp_path)
    packages = [
        host.publish("alpha", "1.0-1", {"usr/bin/alpha": "first alpha"}),
        host.publish("beta", "2:3.4~rc1+ds-5"),
        host.publish("libgamma", "7"),
    ]
    write_lock(host.lock, packages)
    host.lock.with_suffix(".in").write_text(SPEC)
    return host


@pytest.fixture
def dest(tmp_path):
    return tmp_path / "a machine" / "unpacked here"


def unpack(host: FakeDebian, dest: Path, *packages: str, **changes: str | None):
    return host.run(DEBS, "unpack", host.lock, dest, *packages, **changes)


def edit_lock(host: FakeDebian, old: str, new: str) -> None:
    text = host.lock.read_text()
    assert old in text
    host.lock.write_text(text.replace(old, new))


def locked_sum(host: FakeDebian, package: str) -> str:
    lines = [line.split() for line in host.lock.read_text().splitlines()]
    return next(line[3] for line in lines if line[1] == package)


# --- Fetching and unpacking ---------------------------------------------------


def test_unpack_takes_every_package_of_the_lock(host, dest):
    result = unpack(host, dest)
    assert result.code == 0, result.err
    assert (dest / "usr/bin/alpha").read_text() == "first alpha"
    assert (dest / "usr/bin/alpha").stat().st_mode & 0o111
    assert (dest / "usr/share/beta").read_text() == "2:3.4~rc1+ds-5"
    assert (dest / "usr/share/libgamma").exists()
    assert "fetching 3 packages" in result.err
    assert host.kept() == {
        f"{locked_sum(host, name)}.deb" for name in ("alpha", "beta", "libgamma")
    }
    assert list(host.temporary.iterdir()) == []


def test_unpack_takes_the_named_packages_only(host, dest):
    assert unpack(host, dest, "libgamma", "alpha").code == 0
    assert sorted(p.name for p in dest.rglob("*") if p.is_file()) == ["alpha", "libgamma"]


def test_kept_packages_need_no_mirror(host, dest):
    assert unpack(host, dest).code == 0
    host.clear_log()
    host.serve()
    result = unpack(host, dest.with_name("again"))
    assert result.code == 0, result.err
    assert host.log() == ["dpkg-deb -x"] * 3
    assert (dest.with_name("again") / "usr/bin/alpha").exists()


def test_only_what_is_not_kept_is_fetched(host, dest):
    assert unpack(host, dest, "alpha").code == 0
    result = unpack(host, dest)
    assert result.code == 0
    assert "fetching 2 packages" in result.err


def test_cache_follows_xdg_cache_home(host, dest, tmp_path):
    cache = tmp_path / "another cache"
    result = unpack(host, dest, XDG_CACHE_HOME=str(cache), HOME=None)
    assert result.code == 0, result.err
    assert len(list((cache / "servecore/debs").glob("*.deb"))) == 3
    assert not host.cache.exists()


def test_absolute_links_stay_inside(host, dest):
    package = host.publish(
        "linked",
        "1",
        {"usr/share/data/file": "x", "etc/conf": "y"},
        {
            "top": "/usr/share/data",
            "usr/lib/deep/down": "/etc/conf",
            "usr/share/near": "data/file",
        },
    )
    write_lock(host.lock, [package])
    assert unpack(host, dest).code == 0
    assert (dest / "top").readlink() == Path("usr/share/data")
    assert (dest / "usr/lib/deep/down").readlink() == Path("../../../etc/conf")
    assert (dest / "usr/lib/deep/down").read_text() == "y"
    assert (dest / "usr/share/near").readlink() == Path("data/file")


def test_two_at_once_both_unpack(host, dest):
    host.hold("download")
    first = host.start(DEBS, "unpack", host.lock, dest)
    host.wait_reached("download")
    second = host.start(DEBS, "unpack", host.lock, dest.with_name("other"))
    second.wait_for_err("fetching")
    host.release("download")
    assert [first.finish().code, second.finish().code] == [0, 0]
    for root in (dest, dest.with_name("other")):
        assert (root / "usr/bin/alpha").read_text() == "first alpha"
    assert len(host.kept()) == 3


def test_apt_state_of_the_host_is_not_touched(host, dest):
    assert unpack(host, dest).code == 0
    conf = host.state("apt.conf")
    assert f'Dir::State::Lists "{host.debs}/index-sid-' in conf
    work = conf.split('Dir::Cache "')[1].split('"')[0]
    assert work.startswith(str(host.temporary))
    for line in (
        'Dir::Etc::SourceParts "/dev/null";',
        'Dir::Etc::PreferencesParts "/dev/null";',
        "#clear APT::Default-Release;",
        "#clear APT::Update::Post-Invoke;",
        "#clear APT::Update::Post-Invoke-Success;",
    ):
        assert line in conf.splitlines()
    assert f"signed-by={host.keyring}" in host.state("sources.list")
    assert host.state("sources.list").endswith(f"{MIRROR} sid main\n")


# --- What the lock promises ---------------------------------------------------


def test_wrong_sha256_names_the_file_and_both_values(host, dest):
    real = locked_sum(host, "beta")
    edit_lock(host, real, "0" * 64)
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(
        result.err, "beta_2%3a3.4~rc1+ds-5_amd64.deb", real, "0" * 64, "update_locks.sh"
    )
    assert not dest.exists()
    assert f"{real}.deb" not in host.kept()
    assert list(host.temporary.iterdir()) == []


def test_sha256_of_another_package_is_wrong(host, dest):
    alpha, beta = locked_sum(host, "alpha"), locked_sum(host, "beta")
    edit_lock(host, alpha, "swapped")
    edit_lock(host, beta, alpha)
    edit_lock(host, "swapped", beta)
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(result.err, "alpha_1.0-1_amd64.deb", alpha, beta)
    assert not dest.exists()


def test_vanished_version_is_replaced_with_one_line_of_notice(host, dest):
    host.publish("alpha", "1.1-1", {"usr/bin/alpha": "second alpha"})
    result = unpack(host, dest)
    assert result.code == 0, result.err
    assert (dest / "usr/bin/alpha").read_text() == "second alpha"
    assert (dest / "usr/share/beta").exists()
    notes = [line for line in result.err.splitlines() if "no longer has" in line]
    assert len(notes) == 1
    assert notes[0].endswith("instead of: alpha=1.0-1")


def test_vanished_package_is_dropped_when_nothing_needs_it(host, dest):
    host.withdraw("libgamma")
    host.publish("libdelta", "1")
    result = unpack(host, dest)
    assert result.code == 0, result.err
    assert "instead of: libgamma=7" in result.err
    assert (dest / "usr/share/libdelta").exists()
    assert not (dest / "usr/share/libgamma").exists()


def test_replacements_keep_to_the_spec(host, dest):
    host.publish("alpha", "1.1-1")
    host.publish("perl", "5")
    host.publish("libgamma2", "8")
    result = unpack(host, dest)
    assert result.code == 0, result.err
    assert sorted(p.name for p in (dest / "usr/share").iterdir()) == ["alpha", "beta", "libgamma"]


def test_replacement_of_a_named_package(host, dest):
    host.publish("alpha", "1.1-1", {"usr/bin/alpha": "second alpha"})
    assert unpack(host, dest, "alpha").code == 0
    assert [p.name for p in dest.rglob("*") if p.is_file()] == ["alpha"]
    assert (dest / "usr/bin/alpha").read_text() == "second alpha"


def test_named_package_that_nothing_offers_is_an_error(host, dest):
    host.withdraw("libgamma")
    result = unpack(host, dest, "libgamma")
    assert result.code == 1
    assert_explained(result.err, "libgamma", "index")
    assert not dest.exists()


def test_vanished_root_is_an_error(host, dest):
    host.withdraw("alpha")
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(result.err, "bazel.in", "Unable to locate package alpha")
    assert not dest.exists()


def test_package_that_is_planned_but_not_offered_is_an_error(host, dest):
    host.publish("alpha", "1.1-1")
    host.promise("libghost")
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(result.err, "libghost")
    assert not dest.exists()


def test_strict_lock_names_exactly_what_vanished(host, dest):
    assert unpack(host, dest.with_name("before"), "beta").code == 0
    host.publish("alpha", "1.1-1")
    result = unpack(host, dest, SERVECORE_LOCKED="1")
    assert result.code == 1
    assert_explained(result.err, "no longer has alpha=1.0-1\n", "update_locks.sh")
    assert not dest.exists()


def test_strict_lock_names_all_that_vanished(host, dest):
    for name in ("alpha", "beta", "libgamma"):
        host.publish(name, "99")
    result = unpack(host, dest, SERVECORE_LOCKED="1")
    assert result.code == 1
    assert_explained(result.err, "alpha=1.0-1 beta=2:3.4~rc1+ds-5 libgamma=7")


def test_strict_lock_is_content_with_kept_packages(host, dest):
    assert unpack(host, dest).code == 0
    host.publish("alpha", "1.1-1")
    result = unpack(host, dest.with_name("again"), SERVECORE_LOCKED="1")
    assert result.code == 0, result.err
    assert (dest.with_name("again") / "usr/bin/alpha").read_text() == "first alpha"


def test_lock_is_not_strict_when_the_variable_is_zero(host, dest):
    host.publish("alpha", "1.1-1")
    assert unpack(host, dest, SERVECORE_LOCKED="0").code == 0


def test_package_unknown_to_the_lock_is_an_error(host, dest):
    result = unpack(host, dest, "alpha", "nothing")
    assert result.code == 1
    assert_explained(result.err, "nothing", "bazel.lock", "bazel.in")
    assert not dest.exists()
    assert host.log() == []


@pytest.mark.parametrize(
    "line",
    [
        "<<<<<<< HEAD",
        "sid alpha 1.0-1",
        f"sid alpha {'0' * 64}",
        "sid alpha 1.0-1 " + "0" * 63,
        "sid alpha 1.0-1 " + "G" * 64,
    ],
)
def test_broken_line_of_the_lock_is_named(host, dest, line):
    host.lock.write_text(host.lock.read_text() + line + "\n")
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(result.err, "bazel.lock", f"line 5: {line}")
    assert not dest.exists()


def test_lock_that_is_missing_or_empty_is_an_error(host, dest):
    host.lock.write_text("# Nothing but this.\n")
    assert_explained(unpack(host, dest).err, "bazel.lock", "names no package")
    host.lock.unlink()
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(result.err, "bazel.lock", "cannot be read")
    assert not dest.exists()


@pytest.mark.parametrize("damage", [b"", b"damaged", None])
def test_damaged_kept_copy_is_noticed_and_mended(host, dest, damage):
    assert unpack(host, dest).code == 0
    kept = host.debs / f"{locked_sum(host, 'beta')}.deb"
    kept.write_bytes(kept.read_bytes()[:-1] if damage is None else damage)
    result = unpack(host, dest.with_name("again"))
    assert result.code == 1
    assert_explained(result.err, "beta", "damaged", "run again")
    assert not kept.exists()
    result = unpack(host, dest.with_name("again"))
    assert result.code == 0, result.err
    assert (dest.with_name("again") / "usr/share/beta").exists()


# --- The mirror ---------------------------------------------------------------

ONE_LINE = {
    "plain": f"deb {MIRROR} bookworm main\n",
    "no newline": f"deb {MIRROR} trixie main",
    "options": f"deb [ arch=amd64 signed-by=/usr/share/keyrings/x.gpg ] {MIRROR} stable main\n",
    "tabs": f"deb\t{MIRROR}\tbookworm\tmain contrib\n",
    "comments": f"# deb http://old.example/debian bookworm main\n  deb {MIRROR} sid main\n",
    "disc": f"deb cdrom:[Debian 12 _Bookworm_]/ bookworm main\ndeb {MIRROR} bookworm main\n",
    "sources": f"deb-src http://src.example/d bookworm main\ndeb {MIRROR} bookworm main\n",
    "security": (
        "deb http://security.example/debian-security bookworm-security main\n"
        "deb http://updates.example/debian bookworm-updates main\n"
        f"deb {MIRROR} bookworm contrib main\n"
    ),
    "another's": (
        f"deb https://other.example/linux/debian bookworm stable\ndeb {MIRROR} bookworm main\n"
    ),
}
DEB822 = {
    "plain": f"Types: deb\nURIs: {MIRROR}\nSuites: bookworm bookworm-updates\nComponents: main\n",
    "any case": f"types: deb deb-src\nuris:{MIRROR}\nSUITES: trixie\ncomponents: contrib main\n",
    "folded": f"Types: deb\nURIs:\n {MIRROR}\nSuites:\n bookworm\n sid\nComponents:\n main\n",
    "order": f"Components: main\nSuites: bookworm-updates bookworm\nURIs: {MIRROR}\nTypes: deb\n",
    "comments": (
        f"# A mirror\nTypes: deb\n# http://old.example/debian\nURIs: {MIRROR}\n"
        "Suites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN\n .\n xyz: 1\n"
    ),
    "disabled": (
        "Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: sid\nComponents: main\n"
        f"\n\nEnabled: yes\nTypes: deb\nURIs: {MIRROR}\nSuites: sid\nComponents: main\n"
    ),
    "sources": (
        "Types: deb-src\nURIs: http://src.example/debian\nSuites: sid\nComponents: main\n"
        f"\nTypes: deb\nURIs: {MIRROR}\nSuites: sid\nComponents: main\n"
    ),
    "security first": (
        "Types: deb\nURIs: http://security.example/debian-security\nSuites: bookworm-security\n"
        f"Components: main\n \t\nTypes: deb\nURIs: {MIRROR}\nSuites: bookworm\nComponents: main"
    ),
    "another's": (
        "Types: deb\nURIs: https://other.example/linux/debian\nSuites: bookworm\n"
        "Components: stable\n"
        f"\nTypes: deb\nURIs: {MIRROR}\nSuites: bookworm\nComponents: main\n"
    ),
}


@pytest.mark.parametrize("name", ONE_LINE)
@pytest.mark.parametrize("file", ["sources.list", "debian.list"])
def test_mirror_of_a_one_line_source(host, dest, name, file):
    host.write_sources("sources.list", "")
    host.write_sources(file, ONE_LINE[name])
    result = unpack(host, dest)
    assert result.code == 0, result.err
    assert host.mirrors_asked() == [MIRROR]


@pytest.mark.parametrize("name", DEB822)
def test_mirror_of_a_deb822_source(host, dest, name):
    host.write_sources("sources.list", "# See debian.sources\n")
    host.write_sources("debian.sources", DEB822[name])
    result = unpack(host, dest)
    assert result.code == 0, result.err
    assert host.mirrors_asked() == [MIRROR]


@pytest.mark.parametrize(
    "mirror", ["mirror+file:/etc/apt/mirrors/debian.list", "file:/srv/debian", "ftp://a.example/d"]
)
def test_mirror_by_any_method_of_apt(host, dest, mirror):
    host.write_sources("sources.list", f"deb {mirror} bookworm main\n")
    host.serve(mirror)
    assert unpack(host, dest).code == 0
    assert host.mirrors_asked() == [mirror]


def test_source_of_another_that_looks_like_debian_is_passed_over(host, dest):
    host.write_sources("sources.list", "")
    host.write_sources("another.list", "deb https://other.example bookworm main\n")
    host.write_sources("debian.sources", DEB822["plain"])
    result = unpack(host, dest)
    assert result.code == 0, result.err
    assert host.mirrors_asked() == ["https://other.example", MIRROR]


def test_mirror_of_the_environment_comes_before_the_host(host, dest):
    host.serve("http://mine.example/debian")
    result = unpack(host, dest, SERVECORE_DEBIAN_MIRROR="http://mine.example/debian")
    assert result.code == 0, result.err
    assert host.mirrors_asked() == ["http://mine.example/debian"]


def test_mirror_of_the_environment_is_the_only_one(host, dest):
    result = unpack(host, dest, SERVECORE_DEBIAN_MIRROR="http://down.example/debian")
    assert result.code == 1
    assert host.mirrors_asked() == ["http://down.example/debian"]


def test_host_without_a_mirror_is_an_error(host, dest):
    host.write_sources("sources.list", "deb http://archive.example/ubuntu noble main\n")
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(result.err, "mirror", "SERVECORE_DEBIAN_MIRROR")


@pytest.mark.parametrize("strict", ["0", "1"])
def test_unreachable_mirror_is_not_taken_for_an_empty_one(host, dest, strict):
    host.serve()
    result = unpack(host, dest, SERVECORE_LOCKED=strict)
    assert result.code == 1
    assert_explained(result.err, "reading the index of sid", "Could not connect", MIRROR, "network")
    assert "no longer has" not in result.err
    assert not dest.exists()


# --- Failures -----------------------------------------------------------------


def test_download_that_fails_is_explained(host, dest):
    host.break_download()
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(result.err, "fetching packages", "network")
    assert not dest.exists()
    assert host.kept() == set()
    host.break_download(False)
    assert unpack(host, dest).code == 0


def test_package_that_cannot_be_kept_is_explained(host, dest):
    host.program("mv", "exit 1")
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(result.err, "keeping alpha_1.0-1_amd64.deb", "free space")
    assert not dest.exists()


def test_package_that_cannot_be_unpacked_is_explained(host, dest):
    host.program("dpkg-deb", "exit 2")
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(result.err, "unpacking alpha", "free space")


@pytest.mark.parametrize("tool", ["apt-get", "dpkg-deb"])
def test_machine_that_is_no_debian_is_told_what_to_install(host, dest, tool):
    host.remove_program(tool)
    result = unpack(host, dest)
    assert result.code == 1
    assert_explained(result.err, tool, "no Debian", "install Bazel")


def test_missing_keyring_is_explained(host, dest, tmp_path):
    missing = str(tmp_path / "missing.gpg")
    result = unpack(host, dest, SERVECORE_DEBIAN_KEYRING=missing)
    assert result.code == 1
    assert_explained(result.err, missing, "debian-archive-keyring")


def test_blank_that_apt_cannot_take_is_explained(host, dest, tmp_path):
    keyring = tmp_path / "a keyring.gpg"
    keyring.touch()
    result = unpack(host, dest, SERVECORE_DEBIAN_KEYRING=str(keyring))
    assert result.code == 1
    assert_explained(result.err, str(keyring), "blank", "SERVECORE_DEBIAN_KEYRING")


@pytest.mark.parametrize(
    "changes", [{"HOME": None}, {"HOME": ""}, {"XDG_CACHE_HOME": "relative/cache"}]
)
def test_without_a_cache_folder_nothing_is_done(host, dest, changes):
    result = unpack(host, dest, **changes)
    assert result.code == 1
    assert_explained(result.err, "HOME", "absolute path")
    assert not dest.exists()


def test_cache_that_cannot_be_written_is_explained(host, dest, tmp_path):
    (tmp_path / "file").touch()
    result = unpack(host, dest, XDG_CACHE_HOME=str(tmp_path / "file"))
    assert result.code == 1
    assert_explained(result.err, str(tmp_path / "file"), "XDG_CACHE_HOME")


def test_temporary_folder_that_is_missing_is_explained(host, dest):
    result = unpack(host, dest, TMPDIR="/nowhere/at all")
    assert result.code == 1
    assert_explained(result.err, "/nowhere/at all", "TMPDIR")


@pytest.mark.parametrize("arguments", [(), ("unpack",), ("unpack", "x"), ("fetch", "x", "y")])
def test_wrong_command_line_is_explained(host, arguments):
    result = host.run(DEBS, *arguments)
    assert result.code == 1
    assert_explained(result.err, "command line", "unpack")


@pytest.mark.parametrize("step", ["update", "download", "unpack"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interruption_leaves_nothing_behind(host, dest, step, number):
    host.hold(step)
    running = host.start(DEBS, "unpack", host.lock, dest)
    host.wait_reached(step)
    running.kill_group(number)
    assert running.finish().code != 0
    assert list(host.temporary.iterdir()) == []
    assert all(len(name) == len("x" * 64 + ".deb") for name in host.kept())
    host.release(step)
    result = unpack(host, dest.with_name("again"))
    assert result.code == 0, result.err
    assert (dest.with_name("again") / "usr/bin/alpha").read_text() == "first alpha"


# --- The lock's own command ---------------------------------------------------


def test_lock_is_rewritten_from_the_spec(host):
    host.publish("alpha", "1.1-1")
    host.publish("libzeta", "3")
    host.publish("perl", "5")
    host.publish("xlib", "6")
    result = host.run(UPDATE_LOCKS)
    assert result.code == 0, result.err
    lines = host.lock.read_text().splitlines()
    assert lines[0].startswith("# Generated by third_party/debian/update_locks.sh from bazel.in")
    assert [line.split()[:3] for line in lines[1:]] == [
        ["sid", "alpha", "1.1-1"],
        ["sid", "beta", "2:3.4~rc1+ds-5"],
        ["sid", "libgamma", "7"],
        ["sid", "libzeta", "3"],
    ]
    assert not list(host.lock.parent.glob("*.tmp"))


def test_rewritten_lock_is_one_that_unpack_takes(host, dest):
    host.publish("alpha", "1.1-1")
    assert host.run(UPDATE_LOCKS).code == 0
    assert unpack(host, dest, SERVECORE_LOCKED="1").code == 0


def test_only_named_locks_are_rewritten(host):
    before = host.lock.read_text()
    host.publish("alpha", "1.1-1")
    (host.lock.parent / "other.in").write_text("suite trixie\nroot beta\n")
    result = host.run(UPDATE_LOCKS, "other")
    assert result.code == 0, result.err
    assert host.lock.read_text() == before
    other = (host.lock.parent / "other.lock").read_text().splitlines()
    assert [line.split()[:2] for line in other[1:]] == [["trixie", "beta"]]
    assert host.run(UPDATE_LOCKS).code == 0
    assert "1.1-1" in host.lock.read_text()


def test_lock_stays_as_it_was_when_rewriting_fails(host):
    before = host.lock.read_text()
    host.withdraw("alpha")
    result = host.run(UPDATE_LOCKS)
    assert result.code == 1
    assert_explained(result.err, "bazel.in", "Unable to locate package alpha")
    assert host.lock.read_text() == before
