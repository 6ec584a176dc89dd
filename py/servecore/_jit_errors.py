# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What `servecore.jit` says when an op cannot be built or loaded."""

from __future__ import annotations

import ctypes
import re
from typing import Literal

Layer = Literal["setup", "compile", "link", "load"]

_GUIDE = "the exception's attribute `log` holds the whole output"

# The first that fits the error line; the last of each layer fits any.
_REMEDIES: dict[Layer, list[tuple[str, str]]] = {
    "setup": [("", "mend what the line names, then load again")],
    "compile": [
        (
            r"TORCH_STABLE_ONLY or TORCH_TARGET_VERSION",
            "include torch/csrc/stable/*.h and torch/headeronly/*.h only: the stable ABI",
        ),
        (
            r"error: \S+: No such file or directory|file not found",
            "mend the #include, or name the header's folder in include_dirs",
        ),
        (
            r"(?i)killed|cannot allocate|virtual memory exhausted",
            "free memory, or set MAX_JOBS=1 in the environment",
        ),
        (r"cannot execute", "repair the compiler's installation, or set CXX to another one"),
        (r"No space left", "free disk space, or set SERVECORE_JIT_CACHE to a folder with room"),
        (r"unrecognized|unknown argument", "correct extra_cflags, or set CXX to a newer compiler"),
        ("", "mend that line and load again; the process need not be restarted"),
    ],
    "link": [
        (
            r"cannot find|unable to find",
            "correct the -l in extra_ldflags, or add the library's folder with -L",
        ),
        (
            r"multiple definition|duplicate symbol",
            "define it in one source only, or make it inline or static",
        ),
        (
            r"undefined (?:reference|symbol)",
            "define it, add its source to `sources`, or its library to extra_ldflags (-L, -l)",
        ),
        ("", "correct extra_ldflags and load again"),
    ],
    "load": [
        (
            r"torch refuses",
            "correct the registration, or if the name is taken choose another, and load again",
        ),
        (
            r"undefined symbol",
            "define it, add its source to `sources`, or its library to extra_ldflags (-L, -l)",
        ),
        (
            r"cannot open shared object file",
            "install that library, or add its folder to extra_ldflags with -Wl,-rpath,FOLDER",
        ),
        (
            r"failed to map segment",
            "set SERVECORE_JIT_CACHE to a folder that allows execution (not mounted noexec)",
        ),
        ("", "delete the library's folder and load again"),
    ],
}

_COMPILE_ERROR = re.compile(r"^(?:\S.*?: |)(?:fatal |internal compiler )?error: ", re.IGNORECASE)
_LINK_ERROR = re.compile(
    r"undefined reference|undefined symbol|cannot find|unable to find|multiple definition"
    r"|duplicate symbol|\berror: (?!ld returned)"
)
_LINKER_NAME = re.compile(r"^\S*ld(?:\.\w+)?: (?:error: )?")


class JitError(RuntimeError):
    """An op that could not be built or loaded.

    Its message names the layer, the first error line and what to do.

    Attributes:
        name: The library that was asked for.
        layer: "setup" (torch, compiler, ninja, cache folder), "compile", "link" or "load" (the
            dynamic linker, or torch refusing a registration).
        first_error: The first line that is an error, with file and line where there are any.
        remedy: What to do about it.
        log: The whole output of the layer; empty where there is none.
    """

    __module__ = "servecore.jit"

    def __init__(
        self, name: str, layer: Layer, first_error: str, remedy: str | None = None, log: str = ""
    ) -> None:
        self.name = name
        self.layer: Layer = layer
        self.first_error = first_error
        self.remedy = remedy or next(
            remedy for pattern, remedy in _REMEDIES[layer] if re.search(pattern, first_error)
        )
        self.log = log
        # What pickle makes another one of.
        super().__init__(name, layer, first_error, self.remedy, log)

    def __str__(self) -> str:
        lines = [
            f"{self.name!r} failed in the layer {self.layer!r}:",
            f"  {self.first_error}",
            f"What to do: {self.remedy}.",
        ]
        if self.log.strip() not in self.first_error:
            lines.append(f"({_GUIDE})")
        return "\n".join(lines)


def from_build(name: str, output: str) -> JitError:
    """Reads the output of a build that failed.

    Args:
        name: The library that was built.
        output: What ninja printed, with its -v.

    Returns:
        The error to raise.
    """
    # What ninja prints of the first step that failed: its name, its command, its output.
    failed = re.search(
        r"^FAILED: (?:\[code=\d+\] )?(?P<target>\S+)[^\n]*\n(?P<command>[^\n]*)\n(?P<output>.*?)"
        r"(?=^\[\d+/\d+\] |^FAILED: |^ninja: |\Z)",
        output,
        re.MULTILINE | re.DOTALL,
    )
    if failed is None:
        lines = [line for line in output.splitlines() if line.strip()]
        told = (line for line in lines if line.startswith("ninja: "))
        return JitError(name, "setup", next(told, lines[0] if lines else "no output"), log=output)
    layer: Layer = "compile" if failed["target"].endswith(".o") else "link"
    pattern = _COMPILE_ERROR if layer == "compile" else _LINK_ERROR
    lines = [line for line in failed["output"].splitlines() if line.strip()]
    first = next(
        (line for line in lines if pattern.search(line)),
        lines[0] if lines else f"{failed['command'].split(' ')[0]} failed and printed nothing",
    )
    if layer == "link":
        first = _LINKER_NAME.sub("", first)
        # The lines that GNU ld gives here are those of what is inlined into the definitions.
        first = re.sub(
            r"^.*?(?P<what>multiple definition of .*); (?P<object>\S+?\.o):.*: first defined here$",
            r"\g<what>; \g<object>: first defined here",
            first,
        )
    return JitError(name, layer, first, log=output)


def from_loader(name: str, message: str) -> JitError:
    """Reads what the dynamic linker says of a library that it refuses.

    Args:
        name: The library.
        message: The dynamic linker's message.

    Returns:
        The error to raise.
    """

    def readable(found: re.Match[str]) -> str:
        plain = demangled(found[1])
        return f"undefined symbol: {plain}" + (f" ({found[1]})" if plain != found[1] else "")

    first = re.sub(r"undefined symbol: (\w+)", readable, message.strip().splitlines()[0])
    return JitError(name, "load", first, log=message)


def demangled(symbol: str) -> str:
    """The C++ name behind a linker's symbol, or the symbol itself where there is none."""
    try:
        cxa_demangle = ctypes.CDLL("libstdc++.so.6").__getattr__("__cxa_demangle")
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return symbol
    cxa_demangle.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p]
    name = cxa_demangle(symbol.encode(), None, None, None)
    if not name:
        return symbol
    try:
        return ctypes.string_at(name).decode()
    finally:
        free(name)
