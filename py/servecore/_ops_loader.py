# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Brings the op library `_ops.so` into torch, or says in one line why it cannot."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Callable

MIN_TORCH = (2, 13)
"""The oldest torch whose stable ABI has every function that `_ops.so` calls."""

_OPS_LIBRARY = pathlib.Path(__file__).with_name("_ops.so")
_MIN_TORCH_NAME = ".".join(map(str, MIN_TORCH))


def check_torch() -> str:
    """Imports torch and checks its version.

    Returns:
        The version of torch, as torch gives it.

    Raises:
        ImportError: torch is missing or older than `MIN_TORCH`; names both versions.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"servecore's tensor ops need torch {_MIN_TORCH_NAME} or newer, and found none "
            f"({error}); install it with: pip install 'torch>={_MIN_TORCH_NAME}'"
        ) from error
    version = str(torch.__version__)
    release = re.match(r"(\d+)\.(\d+)", version)
    if release is None or (int(release[1]), int(release[2])) < MIN_TORCH:
        raise ImportError(
            f"servecore's tensor ops need torch {_MIN_TORCH_NAME} or newer, and found torch "
            f"{version}; upgrade it with: pip install 'torch>={_MIN_TORCH_NAME}'"
        )
    return version


def load_library(path: pathlib.Path) -> None:
    """Loads an op library built for torch's stable ABI.

    Args:
        path: The shared library.

    Raises:
        ImportError: torch is missing or too old, there is no such file, or the dynamic linker
            refuses it, for example because a symbol is missing; names both versions.
    """
    version = check_torch()
    import torch

    if not path.is_file():
        raise ImportError(
            f"servecore's op library {path.name} is not beside {pathlib.Path(__file__).name} in "
            f"{path.parent}; this copy of servecore was built without its tensor ops, build "
            "//py/servecore:ops or install the wheel"
        )
    # torch leaves this without types.
    load_into_torch: Callable[[pathlib.Path], None] = torch.ops.load_library
    try:
        load_into_torch(path)
    except OSError as error:
        symbol = re.search(r"undefined symbol: (\S+)", str(error))
        cause = f"lacks the symbol {symbol[1]}" if symbol else f"cannot load it ({error})"
        raise ImportError(
            f"servecore's op library {path.name} is built for torch {_MIN_TORCH_NAME} or newer, "
            f"but the installed torch {version} {cause}; install an official torch release of "
            f"{_MIN_TORCH_NAME} or newer"
        ) from error


@functools.cache
def load() -> None:
    """Loads `_ops.so` and the parts of its ops that are written in Python, once a process.

    Raises:
        ImportError: see `load_library`.
    """
    load_library(_OPS_LIBRARY)
    from servecore import _op_rules

    _op_rules.register()
