# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What happens at import: the library comes with the module, and failures are one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from servecore import _ops_loader, ops


def run(code: str, *paths: object) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter that finds `paths` before everything else."""
    search = [*map(str, paths), *sys.path]
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {search!r}\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def import_error(torch_source: str, tmp_path, module: str = "servecore.ops") -> str:
    """What importing `module` says with a torch that consists of `torch_source`."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(torch_source)
    done = run(
        f"try:\n    import {module}\nexcept ImportError as error:\n    print(error)\n"
        "else:\n    print('no error')\n",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_module_loads_the_library():
    done = run("import servecore.ops, torch; print(torch.ops.servecore.rmsnorm.default)")
    assert done.stdout == "servecore.rmsnorm.default\n", done.stderr


def test_importing_twice_registers_once():
    _ops_loader.load()
    done = run("import importlib, servecore.ops as o; importlib.reload(o); print('fine')")
    assert (done.stdout, done.stderr) == ("fine\n", "")


@pytest.mark.parametrize("module", ["servecore.ops", "servecore.nn"])
def test_a_missing_torch(tmp_path, module):
    message = import_error(
        "raise ModuleNotFoundError(\"No module named 'torch'\")", tmp_path, module
    )
    assert "need torch 2.13 or newer, and found none" in message
    assert "pip install 'torch>=2.13'" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("version", ["2.12.1", "2.9.0+cpu", "1.13.1", "unknown"])
@pytest.mark.parametrize("module", ["servecore.ops", "servecore.nn"])
def test_an_old_torch(tmp_path, module, version):
    message = import_error(f"__version__ = {version!r}", tmp_path, module)
    assert f"need torch 2.13 or newer, and found torch {version}" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("version", ["2.13.0", "2.13.0a0+git1234", "2.14.1", "2.100.0", "3.0.0"])
def test_new_enough_versions(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    assert _ops_loader.check_torch() == version


def test_a_library_that_is_not_there(tmp_path):
    with pytest.raises(ImportError, match=r"_ops\.so is not beside.*without its tensor ops"):
        _ops_loader.load_library(tmp_path / "_ops.so")


def test_a_missing_symbol_names_both_versions(tmp_path, monkeypatch):
    def load_library(path):
        raise OSError(f"{path}: undefined symbol: torch_stream_native_handle")

    library = tmp_path / "_ops.so"
    library.touch()
    monkeypatch.setattr(torch.ops, "load_library", load_library)
    with pytest.raises(ImportError) as caught:
        _ops_loader.load_library(library)
    message = str(caught.value)
    assert "built for torch 2.13 or newer" in message
    assert f"installed torch {torch.__version__} lacks the symbol torch_stream_nat" in message
    assert isinstance(caught.value.__cause__, OSError)


def test_a_broken_library_names_the_reason(tmp_path):
    library = tmp_path / "_ops.so"
    library.write_bytes(b"not a library")
    with pytest.raises(ImportError, match=r"built for torch 2\.13.*cannot load it \(.*_ops\.so"):
        _ops_loader.load_library(library)


def test_names():
    assert ops.__all__ == sorted(ops.__all__)
    # Every op of the library has its function, and every function its op.
    schemas = torch._C._jit_get_all_schemas()
    names = {
        schema.name.removeprefix("servecore::")
        for schema in schemas
        if "servecore::" in schema.name
    }
    assert set(ops.__all__) == names
    for name in ops.__all__:
        assert getattr(ops, name).__doc__
