# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops compiled at run time, for developing one without Bazel.

    path = servecore.jit.load("scale", ["scale_op.cc", "scale.cc"])
    torch.ops.mine.scale(x, 2.0)

`load` needs torch, setuptools, ninja and a C++20 compiler: the one that $CXX names, else `c++`.
Importing this module imports none of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import fcntl
import functools
import hashlib
import importlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from servecore import _jit_errors, _ops_loader
from servecore._jit_errors import JitError

__all__ = ["JitError", "load"]

_SUFFIXES = (".cc", ".cpp", ".cxx")
_GUARD = pathlib.Path(__file__).with_name("_jit_guard.cc")
# What _jit_guard.cc takes the place of.
_GUARDED = (
    "aoti_torch_delete_library_object",
    "aoti_torch_library_def",
    "aoti_torch_library_impl",
    "aoti_torch_library_init_def",
    "aoti_torch_library_init_fragment",
    "aoti_torch_library_init_impl",
    "torch_library_def_with_tags",
    "torch_library_impl",
    "torch_library_set_python_module",
)
_EXPORTS = "exports.lds"

# As bazel/torch_op_library.bzl has them; -g1 gives the linker's errors file and line.
_CFLAGS = (
    "-DTORCH_TARGET_VERSION=0x{:02x}{:02x}000000000000ULL".format(*_ops_loader.MIN_TORCH),
    "-std=c++20",
    "-O3",
    "-fPIC",
    "-g1",
)
_LDFLAGS = (
    f"-Wl,--version-script={_EXPORTS}",
    *(f"-Wl,--wrap={symbol}" for symbol in _GUARDED),
    "-Wl,-z,defs",
    "-Wl,--as-needed",
)


@dataclasses.dataclass(frozen=True)
class _Request:
    """What is to be built, with every path absolute."""

    name: str
    sources: tuple[str, ...]
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]

    @staticmethod
    def checked(
        name: str,
        sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        cflags: Sequence[str],
        ldflags: Sequence[str],
        include_dirs: Sequence[str | os.PathLike[str]],
    ) -> _Request:
        """Raises ValueError or FileNotFoundError, as `load` says."""
        if not (name.isascii() and name.isidentifier()):
            raise ValueError(
                f"name is {name!r}; it must be an identifier: letters, digits and _, no digit first"
            )
        if isinstance(sources, (str, os.PathLike)):
            sources = [sources]
        paths = [pathlib.Path(source).absolute() for source in sources]
        if not paths:
            raise ValueError("sources is empty; name at least one source file")
        stems = {_GUARD.stem: _GUARD}
        for path in paths:
            if path.suffix not in _SUFFIXES:
                raise ValueError(
                    f"{path} is no C++ source; it must end in {', '.join(_SUFFIXES)} (CUDA sources "
                    "are built by Bazel's cuda_library)"
                )
            if wrong := set("$:|\n") & set(str(path)):
                raise ValueError(
                    f"the path {str(path)!r} holds {min(wrong)!r}, which ninja cannot take; move "
                    "the source"
                )
            if not path.is_file():
                raise FileNotFoundError(f"there is no source file {path}; correct `sources`")
            if path.stem in stems:
                raise ValueError(
                    f"{stems[path.stem]} and {path} would both become {path.stem}.o; rename one"
                )
            stems[path.stem] = path
        includes = [f"-I{pathlib.Path(folder).absolute()}" for folder in include_dirs]
        return _Request(
            name,
            tuple(map(str, paths)),
            (*_CFLAGS, *includes, *cflags),
            (*_LDFLAGS, *ldflags),
        )


@dataclasses.dataclass(frozen=True)
class _Tools:
    """What builds: found once a call, and part of what names its folder."""

    compiler: str
    compiler_version: str
    ninja: str
    torch_version: str
    cpp_extension: Any

    @staticmethod
    def found(name: str) -> _Tools:
        """Raises JitError of the layer "setup"."""
        try:
            torch_version = _ops_loader.check_torch()
        except ImportError as error:
            raise JitError(name, "setup", str(error), "install that torch") from error
        named = os.environ.get("CXX", "c++")
        compiler = shutil.which(named)
        if compiler is None:
            raise JitError(
                name,
                "setup",
                f"there is no C++ compiler {named!r} (the one that CXX names, else c++)",
                "install one, such as the package g++, or set CXX to one program's path",
            )
        try:
            version = subprocess.run(
                [compiler, "--version"], capture_output=True, text=True, check=True
            ).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise JitError(
                name,
                "setup",
                f"the C++ compiler {compiler} does not run: {error}",
                "install one, such as the package g++, or set CXX to one program's path",
                getattr(error, "stderr", None) or "",
            ) from error
        # pip puts it beside python, which is not on the PATH of an environment unactivated.
        ninja = shutil.which("ninja") or shutil.which("ninja", path=sysconfig.get_path("scripts"))
        if ninja is None:
            raise JitError(
                name,
                "setup",
                "there is no program ninja on the PATH",
                "install it with: pip install ninja",
            )
        try:
            cpp_extension = importlib.import_module("torch.utils.cpp_extension")
        except ImportError as error:
            raise JitError(
                name,
                "setup",
                f"torch.utils.cpp_extension cannot be imported: {error}",
                "install what it needs with: pip install setuptools",
            ) from error
        return _Tools(
            os.path.realpath(compiler), version.splitlines()[0], ninja, torch_version, cpp_extension
        )


@dataclasses.dataclass(frozen=True)
class _Loaded:
    """A library of this process and what it was made of."""

    path: pathlib.Path
    request: _Request
    digests: dict[str, str]

    def change(self, request: _Request) -> str | None:
        """What differs now; None if nothing does."""
        for field in dataclasses.fields(_Request):
            was, now = getattr(self.request, field.name), getattr(request, field.name)
            if was != now:
                return f"{field.name} were {list(was)} and are {list(now)} now"
        for path, digest in self.digests.items():
            if _digest(path) != digest:
                return f"{path} has changed"
        return None


_LOCK = threading.Lock()
_LOADED: dict[str, _Loaded] = {}


def load(
    name: str,
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    extra_cflags: Sequence[str] = (),
    extra_ldflags: Sequence[str] = (),
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    build_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> pathlib.Path:
    """Compiles ops written on torch's stable ABI and loads them into torch.

    The flags are those of Bazel's `torch_op_library`: the stable ABI of torch 2.13, C++20, -O3,
    every undefined symbol an error, nothing exported.

    What is built stays in a folder for each name, sources, flags, compiler and torch. A later
    process compiles only what has changed, a header that a source includes too, and an unchanged
    library not at all. The folders may be deleted at any time.

    In one process a name is loaded once. Loading it again gives the same path if nothing has
    changed, and an error before anything is built if something has. After an error of the layers
    "setup", "compile" or "link", or a registration that torch refused, nothing is registered, and
    the same process may load again.

    Args:
        name: The library's name, an identifier of ASCII letters, digits and _.
        sources: C++ files (.cc, .cpp, .cxx), one or several, of different names.
        extra_cflags: More flags of the compiler, each one argument, after the usual ones. A path
            in them must be absolute.
        extra_ldflags: More flags of the linker, likewise, such as -L and -l.
        include_dirs: Folders of headers.
        build_dir: The folder that holds the folders; by default $SERVECORE_JIT_CACHE, else
            $XDG_CACHE_HOME/servecore/jit, else ~/.cache/servecore/jit.
        verbose: Whether the build's commands and output are printed. To gather the log of an
            error, the failed step is then run once more.

    Returns:
        The path of the library.

    Raises:
        JitError: torch, compiler, ninja or folder are not as needed ("setup"); a source is wrong
            ("compile"); a symbol or library is missing or doubled ("link"); the dynamic linker or
            torch refuses the library, or another state of it is loaded already ("load").
        ValueError: `name` is no identifier; `sources` is empty, or holds two files of one name,
            another kind of file, or a path that ninja cannot take.
        FileNotFoundError: A source does not exist.

    Ownership: the library stays loaded until the process ends; the cache folder is the user's.
    Lifetime: no argument is kept.
    Copies: none of a tensor.
    GIL: released while other programs run.
    Stream: none.
    Thread safety: safe to call from any thread and any process; calls of one process, and those
        for one folder, run one after another. LC_ALL and PATH of the process are changed while
        its build runs.
    Complexity: a build, or about 0.1 s when nothing is to be built.
    """
    request = _Request.checked(name, sources, extra_cflags, extra_ldflags, include_dirs)
    with _LOCK:
        if (loaded := _LOADED.get(name)) is not None:
            if (change := loaded.change(request)) is not None:
                raise JitError(
                    name,
                    "load",
                    f"{change}, and this process has loaded {name!r} as it was",
                    "restart the process, or load the new state under another name and namespace",
                )
            return loaded.path
        tools = _Tools.found(name)
        with _locked_folder(request, tools, build_dir) as folder:
            _build_and_load(request, tools, folder, verbose)
            path = folder / f"{name}.so"
            if refusal := _take_refusal(path):
                raise JitError(name, "load", refusal.splitlines()[0], log=refusal)
            _LOADED[name] = _Loaded(path, request, _digests(request, tools, folder))
        return path


@contextlib.contextmanager
def _locked_folder(
    request: _Request, tools: _Tools, build_dir: str | os.PathLike[str] | None
) -> Iterator[pathlib.Path]:
    """Keeps other processes out of the folder of what is built; the lock ends with its process."""
    identity = [dataclasses.astuple(request), tools.compiler, tools.compiler_version]
    identity += [tools.torch_version, tools.cpp_extension.__file__]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    try:
        folder = _cache_root(build_dir) / f"{request.name}-{digest}"
        folder.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(folder.name + ".lock").open("w")
    except (OSError, RuntimeError) as error:
        raise JitError(
            request.name,
            "setup",
            f"the cache folder cannot be written: {error}",
            "set SERVECORE_JIT_CACHE to a folder that can, or pass build_dir",
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            # torch's own lock, which a killed process has left, and for which torch would wait
            # for ever.
            if (folder / "lock").exists():
                _discard(folder)
            folder.mkdir(exist_ok=True)
            (folder / _EXPORTS).write_text("{ global: servecore_jit_refusal; local: *; };\n")
        except OSError as error:
            raise JitError(request.name, "setup", str(error), log=repr(error)) from error
        yield folder


def _cache_root(build_dir: str | os.PathLike[str] | None) -> pathlib.Path:
    """Where the folders lie."""
    if build_dir is not None:
        return pathlib.Path(build_dir).absolute()
    if own := os.environ.get("SERVECORE_JIT_CACHE"):
        return pathlib.Path(own).expanduser().absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(caches).absolute() / "servecore" / "jit"


def _discard(folder: pathlib.Path) -> None:
    """Empties a folder in which a compiler may be running still: it goes on elsewhere."""
    aside = folder.with_name(f"{folder.name}.{os.getpid()}.old")
    folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _build_and_load(request: _Request, tools: _Tools, folder: pathlib.Path, verbose: bool) -> None:
    """Builds what has changed and loads it; raises JitError."""
    # torch counts a build that failed as one, and would skip the next or rename it.
    tools.cpp_extension.JIT_EXTENSION_VERSIONER.entries.pop(request.name, None)
    build = functools.partial(
        tools.cpp_extension.load,
        request.name,
        [*request.sources, str(_GUARD)],
        extra_cflags=list(map(_quoted, request.cflags)),
        extra_ldflags=list(map(_quoted, request.ldflags)),
        build_directory=str(folder),
        with_cuda=False,
        is_python_module=False,
    )
    try:
        with _environment(tools):
            build(verbose=verbose)
    except UnicodeDecodeError as error:
        # torch takes a compiler's output for UTF-8, which a source quoted in it need not be.
        output = error.object.decode(errors="replace")
        raise _jit_errors.from_build(request.name, output) from error
    except RuntimeError as error:
        if not isinstance(error.__cause__, subprocess.CalledProcessError):
            raise JitError(request.name, "setup", str(error), log=repr(error)) from error
        if verbose:
            _build_and_load(request, tools, folder, verbose=False)
            return
        output = (error.__cause__.output or b"").decode(errors="replace")
        raise _jit_errors.from_build(request.name, output) from error
    except OSError as error:
        # Only the system's own errors have a number.
        if error.errno is not None:
            raise JitError(request.name, "setup", str(error), log=repr(error)) from error
        raise _jit_errors.from_loader(request.name, str(error.__cause__ or error)) from error
    except BaseException:
        _discard(folder)
        raise


@contextlib.contextmanager
def _environment(tools: _Tools) -> Iterator[None]:
    """Lets torch find ninja, and has errors written in the language that is read here."""
    path = os.environ.get("PATH", os.defpath)
    wanted = {"LC_ALL": "C", "PATH": f"{path}{os.pathsep}{pathlib.Path(tools.ninja).parent}"}
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _quoted(flag: str) -> str:
    """The flag as one argument, past ninja and the shell."""
    return shlex.quote(flag).replace("$", "$$")


def _take_refusal(path: pathlib.Path) -> str | None:
    """Why torch refused the library, which is then unloaded; None if it did not."""
    library = ctypes.CDLL(str(path))
    library.servecore_jit_refusal.restype = ctypes.c_char_p
    refusal: bytes | None = library.servecore_jit_refusal()
    if refusal is None:
        return None
    text = refusal.decode(errors="replace")
    close = ctypes.CDLL(None).dlclose
    close.argtypes = [ctypes.c_void_p]
    # Once for torch and once for the line above: mapped, it would be loaded in place of the next.
    close(library._handle)
    close(library._handle)
    return text


def _digests(request: _Request, tools: _Tools, folder: pathlib.Path) -> dict[str, str]:
    """Digests of the files that the library was made of, torch's and the system's left out."""
    told = subprocess.run(
        [tools.ninja, "-t", "deps"], cwd=folder, capture_output=True, text=True, check=False
    ).stdout
    included = [line.strip() for line in told.splitlines() if line.startswith("    ")]
    paths = {*request.sources, *(str(folder / path) for path in included)}
    return {path: _digest(path) for path in sorted(paths)}


def _digest(path: str) -> str:
    """The digest of a file; empty if there is none."""
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""
