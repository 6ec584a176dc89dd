# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops compiled at run time: what is built when, and what every failure says."""

from __future__ import annotations

import ctypes
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import build_tools
from servecore import _jit_errors, jit

HEADERS = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
using torch::stable::Tensor;
"""

OP = (
    HEADERS
    + """
#include "value.h"
Tensor Filled(const Tensor& x) {
  Tensor y = torch::stable::empty_like(x);
  return torch::stable::fill_(y, VALUE);
}
STABLE_TORCH_LIBRARY(NAMESPACE, m) { m.def("filled(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(NAMESPACE, CPU, m) {
  m.impl("filled", TORCH_BOX(&Filled));
}
"""
)

# Loads the op of `project` in a process of its own and prints what it computes.
CHILD = """
import sys, torch
from servecore import jit
path = jit.load("filled", "op.cc", extra_cflags=["-DNAMESPACE=child"])
print(path, torch.ops.child.filled(torch.zeros(1)).item())
"""


@pytest.fixture(autouse=True)
def tools(tmp_path, monkeypatch):
    """The build's own tools; the compiler notes what it compiles in compiled()."""
    for key, value in build_tools.environment().items():
        monkeypatch.setenv(key, value)
    wrapper = tmp_path / "tools/g++"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f"""#!/bin/sh
case " $* " in *" -c "*)
  echo "$LC_ALL $*" >> '{tmp_path}/compiled'
  while [ -e '{tmp_path}/wait' ]; do sleep 0.02; done;;
esac
exec '{build_tools.CXX}' "$@"
"""
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrapper))
    monkeypatch.setenv("SERVECORE_JIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def no_ninja(tmp_path, monkeypatch):
    """A PATH of what the compiler's wrapper calls, and a Python that has no scripts."""
    bare = tmp_path / "bare"
    bare.mkdir()
    for tool in ("dirname", "readlink"):
        (bare / tool).symlink_to(shutil.which(tool))
    monkeypatch.setenv("PATH", str(bare))
    monkeypatch.setattr(jit, "sysconfig", SimpleNamespace(get_path=lambda name: "/nowhere"))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with an op that fills with 1."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "op.cc").write_text(OP)
    (folder / "value.h").write_text("#define VALUE 1\n")
    monkeypatch.chdir(folder)
    return folder


def compiled(tmp_path) -> list[str]:
    """The sources compiled since it was last asked."""
    notes = tmp_path / "compiled"
    if not notes.exists():
        return []
    lines = notes.read_text().splitlines()
    notes.unlink()
    return sorted(line.split(" -c ")[1].split(" ")[0].rpartition("/")[2] for line in lines)


def start(code: str) -> subprocess.Popen[str]:
    """Runs code in a fresh interpreter, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(child: subprocess.Popen[str]) -> str:
    out, err = child.communicate(timeout=240)
    assert child.returncode == 0, err
    return out


def failure(*arguments, **keywords) -> jit.JitError:
    with pytest.raises(jit.JitError) as caught:
        jit.load(*arguments, **keywords)
    error = caught.value
    message = str(error)
    assert error.first_error in message
    assert error.remedy in message
    assert f"{error.layer!r}" in message
    assert message.count("\n") <= 4
    return error


def line_of(text: str, needle: str) -> int:
    return text[: text.index(needle)].count("\n") + 1


# --- What is built when -------------------------------------------------------


def test_an_op_is_compiled_and_called(project, tmp_path):
    path = jit.load("called", ["op.cc"], extra_cflags=["-DNAMESPACE=called"])
    assert path.is_file()
    assert path.parent.parent == tmp_path / "cache"
    x = torch.rand(3, 2)
    assert torch.equal(torch.ops.called.filled(x), torch.ones(3, 2))
    torch.library.opcheck(
        torch.ops.called.filled.default,
        (x,),
        test_utils=("test_schema", "test_autograd_registration"),
    )
    assert compiled(tmp_path) == ["_jit_guard.cc", "op.cc"]

    assert jit.load("called", "op.cc", extra_cflags=["-DNAMESPACE=called"]) == path
    assert compiled(tmp_path) == []


def test_a_library_exports_only_its_own_report(project):
    path = jit.load("exports", "op.cc", extra_cflags=["-DNAMESPACE=exports"])
    library = ctypes.CDLL(str(path))
    assert library.servecore_jit_refusal
    # With the compiler's defaults this is how other libraries would reach it.
    with pytest.raises(AttributeError):
        library.__getattr__("_Z6FilledRKN5torch6stable6TensorE")


def test_several_sources_headers_and_flags(project, tmp_path):
    (project / "include dir").mkdir()
    (project / "include dir/value.h").write_text("double Value();\n#define VALUE Value()\n")
    (project / "value.h").unlink()
    (project / "value.cpp").write_text("double Value() { return sizeof(TEXT); }\n")
    path = jit.load(
        "several",
        [project / "op.cc", "value.cpp"],
        include_dirs=["include dir"],
        extra_cflags=["-DNAMESPACE=several", '-DTEXT="$HOME \'"'],
        extra_ldflags=["-Wl,-rpath,$ORIGIN/$x y"],
        build_dir=tmp_path / "own folder",
    )
    assert path.parent.parent == tmp_path / "own folder"
    assert torch.ops.several.filled(torch.zeros(1)).item() == len("$HOME '") + 1
    assert b"$ORIGIN/$x y" in path.read_bytes()


def test_another_process_builds_only_what_changed(project, tmp_path):
    first = output(start(CHILD))
    path, value = first.rsplit(maxsplit=1)
    assert value == "1.0"
    files = [Path(path), Path(path).with_name("op.o")]
    built = [file.stat().st_mtime_ns for file in files]
    assert compiled(tmp_path) == ["_jit_guard.cc", "op.cc"]

    assert output(start(CHILD)) == first
    assert [file.stat().st_mtime_ns for file in files] == built
    assert compiled(tmp_path) == []

    (project / "value.h").write_text("#define VALUE 2\n")
    assert output(start(CHILD)) == f"{path} 2.0\n"
    assert compiled(tmp_path) == ["op.cc"]


def test_two_processes_build_once(project, tmp_path):
    children = [start(CHILD), start(CHILD)]
    first, second = map(output, children)
    assert first == second
    assert compiled(tmp_path) == ["_jit_guard.cc", "op.cc"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_ended_process_leaves_nothing_to_wait_for(project, tmp_path, number):
    wait = tmp_path / "wait"
    wait.touch()
    child = start(CHILD)
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "compiled").exists():
            assert child.poll() is None, child.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        # Its compilers go on, and wait.
        child.send_signal(number)
        child.communicate()
        (lock,) = (tmp_path / "cache").glob("*.lock")
        folder = lock.with_suffix("")
        # torch waits for ever for this one; an interrupted build is cleared away at once.
        assert (folder / "lock").exists() == (number == signal.SIGKILL)
        assert folder.exists() == (number == signal.SIGKILL)
    finally:
        wait.unlink()

    assert output(start(CHILD)) == f"{folder}/filled.so 1.0\n"
    assert not (folder / "lock").exists()
    assert sorted((tmp_path / "cache").iterdir()) == [folder, lock]


def test_loading_a_changed_op_again_is_an_error_before_anything_is_built(project, tmp_path):
    flags = {"extra_cflags": ["-DNAMESPACE=changed"]}
    path = jit.load("changed", "op.cc", **flags)
    compiled(tmp_path)
    for file, text in [("value.h", "#define VALUE 3\n"), ("op.cc", OP + "// More.\n")]:
        before = (project / file).read_text()
        (project / file).write_text(text)
        error = failure("changed", "op.cc", **flags)
        assert error.layer == "load"
        assert f"{project / file} has changed" in error.first_error
        assert "restart the process" in error.remedy
        (project / file).write_text(before)
    error = failure("changed", "op.cc", extra_cflags=["-DNAMESPACE=other"])
    assert "cflags were" in error.first_error
    assert compiled(tmp_path) == []
    # Written anew, with what it held.
    assert jit.load("changed", "op.cc", **flags) == path
    assert torch.ops.changed.filled(torch.zeros(1)).item() == 1


# --- Setup --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "a-b", "1a", "a.b", "../a", "ä"])
def test_a_name_that_is_no_identifier(project, name):
    with pytest.raises(ValueError, match="must be an identifier"):
        jit.load(name, "op.cc")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([], "sources is empty"),
        (["op.cu"], r"op\.cu is no C\+\+ source"),
        (["op.cc", "a/op.cpp"], r"would both become op\.o"),
        (["_jit_guard.cc"], r"would both become _jit_guard\.o"),
        (["a$b.cc"], r"holds '\$', which ninja cannot take"),
    ],
)
def test_sources_that_cannot_be_taken(project, sources, message):
    (project / "a").mkdir()
    for source in sources:
        (project / source).touch()
    with pytest.raises(ValueError, match=message):
        jit.load("a", sources)


def test_a_source_that_is_not_there(project):
    with pytest.raises(FileNotFoundError, match=r"no source file .*/project/opp\.cc"):
        jit.load("a", ["op.cc", "opp.cc"])


def test_no_compiler(project, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-g++")
    error = failure("a", "op.cc")
    assert error.layer == "setup"
    assert "there is no C++ compiler 'no-such-g++'" in error.first_error
    assert "set CXX" in error.remedy
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(build_tools.NINJA.parent))
    assert "there is no C++ compiler 'c++'" in failure("a", "op.cc").first_error


def test_a_compiler_that_does_not_run(project, tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'cannot find cc1plus' >&2; exit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    error = failure("a", "op.cc")
    assert (error.layer, error.log) == ("setup", "cannot find cc1plus\n")
    assert f"the C++ compiler {broken} does not run" in error.first_error


def test_no_ninja(project, no_ninja):
    error = failure("a", "op.cc")
    assert (error.layer, error.first_error) == ("setup", "there is no program ninja on the PATH")
    assert "pip install ninja" in error.remedy


def test_ninja_beside_python_is_found_off_the_path(project, no_ninja, tmp_path, monkeypatch):
    scripts = SimpleNamespace(get_path=lambda name: str(build_tools.NINJA.parent))
    monkeypatch.setattr(jit, "sysconfig", scripts)
    monkeypatch.setenv("LC_ALL", "POSIX")
    before = dict(os.environ)
    jit.load("beside", "op.cc", extra_cflags=["-DNAMESPACE=beside"])
    assert dict(os.environ) == before
    # The errors of another language could not be read.
    assert (tmp_path / "compiled").read_text().startswith("C ")


def test_no_setuptools(project):
    told = output(
        start(
            "sys.modules['setuptools'] = None\nfrom servecore import jit\n"
            "try:\n    jit.load('a', 'op.cc')\n"
            "except jit.JitError as error:\n    print(error.layer, error)\n"
        )
    )
    assert told.startswith("setup ")
    assert "setuptools" in told
    assert "pip install setuptools" in told


@pytest.mark.parametrize("version", ["2.12.1", None])
def test_no_torch_that_is_new_enough(project, tmp_path, version):
    package = tmp_path / "old/torch"
    package.mkdir(parents=True)
    source = f"__version__ = {version!r}" if version else "raise ImportError('none here')"
    (package / "__init__.py").write_text(source)
    told = output(
        start(
            f"sys.path.insert(0, {str(package.parent)!r})\nfrom servecore import jit\n"
            "try:\n    jit.load('a', 'op.cc')\n"
            "except jit.JitError as error:\n    print(error.layer, error)\n"
        )
    )
    assert told.startswith("setup ")
    assert (
        "need torch 2.13 or newer, and found " + (f"torch {version}" if version else "none") in told
    )


def test_a_cache_folder_that_cannot_be_written(project, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SERVECORE_JIT_CACHE", str(tmp_path / "file/cache"))
    error = failure("a", "op.cc")
    assert error.layer == "setup"
    assert "the cache folder cannot be written" in error.first_error
    assert str(tmp_path / "file") in error.first_error
    assert "set SERVECORE_JIT_CACHE" in error.remedy


def test_where_the_cache_lies(project, tmp_path, monkeypatch):
    for key, value, root in [
        ("SERVECORE_JIT_CACHE", tmp_path / "own", "own"),
        ("XDG_CACHE_HOME", tmp_path / "xdg", "xdg/servecore/jit"),
        ("HOME", tmp_path / "home", "home/.cache/servecore/jit"),
    ]:
        monkeypatch.setenv(key, str(value))
        assert jit._cache_root(None) == tmp_path / root
        assert jit._cache_root(tmp_path / "build") == tmp_path / "build"
        monkeypatch.delenv(key)


# --- Compile and link ---------------------------------------------------------


def test_a_syntax_error_and_its_mending(project, tmp_path):
    good = OP.replace("NAMESPACE", "mended")
    bad = good.replace("VALUE);", "VALUE;")
    (project / "op.cc").write_text(bad)
    error = failure("mended", "op.cc")
    assert error.layer == "compile"
    assert error.first_error.startswith(f"{project}/op.cc:{line_of(bad, 'VALUE;')}:")
    assert "error: expected ')'" in error.first_error
    assert "ninja: build stopped" in error.log
    # The same again: what failed is not taken for built.
    assert failure("mended", "op.cc").first_error == error.first_error
    (project / "op.cc").write_text(good)
    assert jit.load("mended", "op.cc").name == "mended.so"
    assert torch.ops.mended.filled(torch.zeros(1)).item() == 1


def test_a_missing_header_and_its_coming(project):
    (project / "op.cc").write_text('#include "late.h"\n' + OP.replace("NAMESPACE", "late"))
    error = failure("late", "op.cc")
    assert error.layer == "compile"
    assert f"{project}/op.cc:1:10: fatal error: late.h: No such file" in error.first_error
    assert "include_dirs" in error.remedy
    (project / "late.h").touch()
    jit.load("late", "op.cc")


def test_a_header_outside_the_stable_abi(project):
    (project / "op.cc").write_text("#include <torch/csrc/stable/outside.h>\n")
    (project / "torch/csrc/stable").mkdir(parents=True)
    (project / "torch/csrc/stable/outside.h").write_text(
        "#ifdef TORCH_TARGET_VERSION\n#error This file should not be included when either "
        "TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is defined.\n#endif\n"
    )
    error = failure("outside", "op.cc", include_dirs=["."])
    assert (error.layer, "outside.h:2:2: error" in error.first_error) == ("compile", True)
    assert "the stable ABI" in error.remedy


def test_output_that_is_not_utf_8(project):
    (project / "op.cc").write_bytes(b'#error "caf\xe9"\n')
    error = failure("latin", "op.cc")
    assert error.layer == "compile"
    assert f"{project}/op.cc:1:2: error: #error" in error.first_error


def test_a_flag_that_the_compiler_does_not_know(project):
    error = failure("flag", "op.cc", extra_cflags=["-fno-such-flag"])
    assert error.layer == "compile"
    assert "unrecognized command-line option '-fno-such-flag'" in error.first_error
    assert "extra_cflags" in error.remedy


def test_a_verbose_build_prints_and_fails_alike(project, capfd):
    (project / "op.cc").write_text("int f( {\n")
    quiet = failure("verbose", "op.cc")
    assert capfd.readouterr().out == ""
    loud = failure("verbose", "op.cc", verbose=True)
    assert quiet.first_error in capfd.readouterr().out
    assert (loud.layer, loud.first_error) == (quiet.layer, quiet.first_error)


MISSING = "int Missing(int x);\nint Used(int x) { return Missing(x); }\n"


def test_a_missing_symbol_is_found_by_the_linker(project):
    (project / "op.cc").write_text(MISSING)
    error = failure("missing", "op.cc", extra_ldflags=["-Wl,-z,defs"])
    assert error.layer == "link"
    assert error.first_error == f"{project}/op.cc:2: undefined reference to `Missing(int)'"
    # By itself too: so are the usual flags.
    assert failure("missing", "op.cc").first_error == error.first_error


def test_a_missing_library(project):
    (project / "op.cc").write_text("int f() { return 1; }\n")
    error = failure("library", "op.cc", extra_ldflags=["-lnosuchlibrary"])
    assert error.layer == "link"
    assert error.first_error.startswith("cannot find -lnosuchlibrary")
    assert "-L" in error.remedy


def test_a_symbol_defined_twice(project):
    for name in ("op.cc", "more.cc"):
        (project / name).write_text("int Twice() { return 1; }\n")
    error = failure("twice", ["op.cc", "more.cc"])
    assert error.layer == "link"
    assert error.first_error == "multiple definition of `Twice()'; op.o: first defined here"


# --- Load ---------------------------------------------------------------------


def test_a_missing_symbol_is_found_by_the_loader_and_mended(project):
    (project / "op.cc").write_text(MISSING)
    flags = {"extra_ldflags": ["-Wl,-z,undefs"]}
    error = failure("undefined", "op.cc", **flags)
    assert error.layer == "load"
    assert "undefined.so: undefined symbol: Missing(int) (_Z7Missingi)" in error.first_error
    (project / "op.cc").write_text(MISSING + "int Missing(int x) { return x; }\n")
    jit.load("undefined", "op.cc", **flags)


def test_a_library_that_is_gone_at_run_time(project, tmp_path):
    subprocess.run(
        [build_tools.CXX, "-shared", "-fPIC", "-x", "c++", "-", "-o", tmp_path / "libgone.so"],
        input="int Missing(int x) { return x; }",
        text=True,
        check=True,
    )
    (project / "op.cc").write_text(MISSING)
    error = failure("gone", "op.cc", extra_ldflags=[f"-L{tmp_path}", "-lgone"])
    assert error.layer == "load"
    assert "libgone.so: cannot open shared object file" in error.first_error
    assert "-Wl,-rpath" in error.remedy


@pytest.mark.parametrize(
    ("body", "line", "why"),
    [
        ("DEF(servecore_test) {}", 1, "Only a single TORCH_LIBRARY can be used"),
        ('FRAGMENT(servecore_test) { m.def("mine() -> ()"); }', 1, "multiple times"),
        ('DEF(refused) { m.def("f(Tensr x) -> ()"); }', 1, "unknown type specifier"),
        ('DEF(refused) { m.def("f() -> ()");\n m.def("f() -> ()"); }', 1, "multiple times"),
        ("\nIMPL(servecore_test, CPUX) {}", 2, "could not parse dispatch key: CPUX"),
    ],
)
def test_a_registration_that_torch_refuses(project, body, line, why):
    # Each of these, loaded by torch.ops.load_library, ends the process.
    with torch.library._scoped_library("servecore_test", "DEF") as library:
        library.define("mine() -> ()")
        source = (
            HEADERS
            + """
#define DEF(ns) STABLE_TORCH_LIBRARY(ns, m)
#define FRAGMENT(ns) STABLE_TORCH_LIBRARY_FRAGMENT(ns, m)
#define IMPL(ns, key) STABLE_TORCH_LIBRARY_IMPL(ns, key, m)
STABLE_TORCH_LIBRARY(before, m) { m.def("first() -> ()"); }
"""
        )
        (project / "op.cc").write_text(source + body)
        error = failure("refused", "op.cc")
        assert error.layer == "load"
        place = f"{project}/op.cc:{source.count(chr(10)) + line}: error: torch refuses "
        assert error.first_error.startswith(place)
        assert why in error.first_error
        assert torch.ops.servecore_test.mine
        # All of it was taken back.
        assert not hasattr(torch.ops.before, "first")


def test_a_refused_registration_mended_in_the_same_process(project):
    good = OP.replace("NAMESPACE", "again")
    (project / "op.cc").write_text(good.replace("Tensor x", "Tensr x"))
    assert "unknown type specifier" in failure("again", "op.cc").first_error
    (project / "op.cc").write_text(good)
    jit.load("again", "op.cc")
    assert torch.ops.again.filled(torch.zeros(1)).item() == 1


# --- The error itself ---------------------------------------------------------


def test_an_error_can_be_sent_to_another_process():
    error = jit.JitError("a", "link", "cannot find -lx", log="whole")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__
    assert type(copy).__module__ == "servecore.jit"


@pytest.mark.parametrize(
    ("output", "layer", "first"),
    [
        # Older ninja; clang and lld.
        ("[1/2] c -c\nFAILED: a.o \nc -c\na.cc:1:2: error: no\n", "compile", "a.cc:1:2: error: no"),
        (
            "FAILED: [code=1] a.so \nc -o\nld.lld: error: undefined symbol: F()\n>>> by a.cc:3\n",
            "link",
            "undefined symbol: F()",
        ),
        ("FAILED: [code=4] a.o \nc -c\nc: fatal error: Killed signal\n", "compile", None),
        # The next step's warnings are not this step's error.
        ("FAILED: a.o \nc -c\nweird\n[2/2] c\nb.cc:1:1: error: b\n", "compile", "weird"),
        ("FAILED: a.o \nc -c x\nninja: build stopped: subcommand failed.\n", "compile", "c failed"),
        ("ninja: error: build.ninja:3: expected '='\n", "setup", None),
        ("", "setup", "no output"),
    ],
)
def test_outputs_of_other_tools(output, layer, first):
    error = _jit_errors.from_build("a", output)
    assert error.layer == layer
    assert error.log == output
    assert error.first_error.startswith(first or output.splitlines()[-1])


def test_names_that_are_not_mangled():
    assert _jit_errors.demangled("_Z7Missingi") == "Missing(int)"
    assert _jit_errors.demangled("torch_library_impl") == "torch_library_impl"


def test_importing_it_is_light():
    assert output(start("import servecore.jit\nprint('torch' in sys.modules)")) == "False\n"


def test_names():
    assert jit.__all__ == ["JitError", "load"]
    assert jit.load.__doc__
    assert jit.JitError.__doc__
