# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of relocate.sh: how an unpacked root is made to load its own libraries."""

from __future__ import annotations

import pytest

from fake_debian import FakeDebian

RELOCATE = "third_party/debian/relocate.sh"


@pytest.fixture
def host(tmp_path):
    return FakeDebian(tmp_path)


@pytest.fixture
def root(host):
    """An unpacked root whose patchelf writes down what it is asked."""
    root = host.folder / "a root"
    libs = "x86_64-linux-gnu"
    files = {
        f"lib/{libs}/ld-linux-x86-64.so.2": host.script('shift 2; exec "$@"'),
        f"lib/{libs}/libz.so.1": "\x7fELF",
        f"lib/{libs}/libc.so.6": "\x7fELF",
        f"usr/lib/{libs}/libexpat.so.1": "\x7fELF",
        f"usr/lib/{libs}/crt1.o": "\x7fELF",
        "usr/bin/patchelf": host.script("""log "$*" """),
        "usr/bin/a program": "\x7fELF",
        "usr/bin/script": "#!/bin/sh",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    (root / f"usr/lib/{libs}").mkdir(exist_ok=True)
    return root


def test_relocate_points_every_program_and_library_at_the_root(host, root):
    result = host.run(RELOCATE, root)
    assert result.code == 0, result.err
    assert sorted(host.log()) == sorted(
        [
            "--version",
            *(
                f"--force-rpath --set-rpath $ORIGIN/{up}/usr/lib/x86_64-linux-gnu {root}/{path}"
                for up, path in (
                    ("../..", "usr/bin/a program"),
                    ("../../..", "usr/lib/x86_64-linux-gnu/libexpat.so.1"),
                    ("../../..", "usr/lib/x86_64-linux-gnu/libz.so.1"),
                )
            ),
        ]
    )


def test_relocate_notices_a_patchelf_that_does_not_run(host, root):
    (root / "usr/bin/patchelf").unlink()
    result = host.run(RELOCATE, root)
    assert result.code == 1
    assert "patchelf" in result.err


def test_relocate_makes_linker_scripts_name_files_of_the_root(host, root):
    libs = root / "usr/lib/x86_64-linux-gnu"
    script = (
        "/* GNU ld script\n   Use the shared library.  */\nOUTPUT_FORMAT(elf64-x86-64)\n"
        "GROUP ( {}libc.so.6 {}libc_nonshared.a AS_NEEDED ( {}ld-linux-x86-64.so.2 ) )\n"
    )
    absolute = script.format("/lib/x86_64-linux-gnu/", "/usr/lib/x86_64-linux-gnu/", "/lib64/")
    (libs / "libc.so").write_text(absolute)
    (libs / "notes.so").write_text("/usr/lib/no/linker/script")
    result = host.run(RELOCATE, root)
    assert result.code == 0, result.err
    assert (libs / "libc.so").read_text() == script.format("", "", "")
    assert (libs / "notes.so").read_text() == "/usr/lib/no/linker/script"
