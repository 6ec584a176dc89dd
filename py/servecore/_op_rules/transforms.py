# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What the rules of all ops share: which transforms are on, and how a rule is registered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

Op = Any
"""An overload of `torch.ops.servecore`, which torch leaves without a type."""

# torch leaves these without types.
_unpack_dual: Callable[[torch.Tensor], Any] = forward_ad.unpack_dual
_make_library: Callable[[str, str], Any] = torch.library.Library
_register_vmap: Callable[..., None] = torch.library.register_vmap
_functorch_level: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack
_is_dynamo_compiling: Callable[[], bool] = torch.compiler.is_dynamo_compiling
_is_grad_enabled: Callable[[], bool] = torch.is_grad_enabled
_exclude: Callable[[Any, bool], None] = torch._C._dispatch_tls_set_dispatch_key_excluded
_is_excluded: Callable[[Any], bool] = torch._C._dispatch_tls_is_dispatch_key_excluded
_AUTOGRAD: Any = torch._C.DispatchKey.AutogradFunctionality

increment_version: Callable[[tuple[torch.Tensor, ...]], None] = torch._C._increment_version
"""Tells autograd that tensors were written, so that it notices when it has saved one of them.

`torch.autograd.graph.increment_version` does it in 0.3 us more.
"""

# Keeps registrations alive: torch takes them back when the Library is collected.
_libraries: list[Any] = []


def skips_autograd(*tensors: torch.Tensor) -> bool:
    """Whether to use `call_below_autograd`: nothing in between would do anything.

    Autograd's kernels are in Python here, and to pass one takes 4 us. So the functions of
    `servecore.ops` ask first. It takes 0.4 us.
    """
    # torch.compile wants the op alone in its graph.
    if _is_dynamo_compiling():
        return False
    if _is_grad_enabled():
        try:
            for tensor in tensors:
                if tensor.requires_grad:
                    return False
        except AttributeError:
            # Something that is no tensor is refused by the op itself, in words.
            return False
    if _functorch_level() is not None or forward_ad._current_level >= 0:
        return False
    # Where it is excluded already, as in inference mode, there is nothing to skip.
    return not _is_excluded(_AUTOGRAD)


def call_below_autograd(op: Op, *args: object, **kwargs: object) -> Any:
    """Calls an op past its autograd kernel, which is not skipped already. It takes 0.2 us.

    torch has a context manager for it, which takes 0.5 us.
    """
    _exclude(_AUTOGRAD, True)
    try:
        # Without the method in Python that does the same in 0.2 us more.
        return op._op(*args, **kwargs)
    finally:
        _exclude(_AUTOGRAD, False)


def call(op: Op, tensors: tuple[torch.Tensor, ...], *rest: object) -> Any:
    """Calls an op, past its autograd kernel where that would do nothing."""
    if skips_autograd(*tensors):
        return call_below_autograd(op, *tensors, *rest)
    return op(*tensors, *rest)


def derivative_wanted(*tensors: torch.Tensor) -> bool:
    """Whether the result of a call with these tensors has to be differentiable."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return True
    return any(_unpack_dual(tensor).tangent is not None for tensor in tensors)


def in_eager_autograd(*tensors: torch.Tensor) -> bool:
    """Whether a derivative is wanted by `Tensor.backward` and nothing else."""
    return (
        _functorch_level() is None
        and forward_ad._current_level < 0
        and all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors)
        and torch._C._len_torch_dispatch_stack() == 0
    )


def redispatch(op: Op, keyset: Any, *args: object, **kwargs: object) -> Any:
    """Calls the op's kernel from an autograd kernel."""
    return op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)


def register_autograd(name: str, kernel: Callable[..., Any]) -> None:
    """Registers `kernel(keyset, *args)` for autograd on every backend."""
    _implement(name, kernel, "Autograd", with_keyset=True)


def register_autocast(name: str, cast: Callable[..., tuple[object, ...]]) -> None:
    """Registers that the arguments are `cast(*args)` where autocast is on."""
    op: Op = getattr(torch.ops.servecore, name).default
    for device in ("CPU", "CUDA"):
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device}"))

        def kernel(*args: object, _keys: Any = keys, **kwargs: object) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(_keys):
                return op(*cast(*args), **kwargs)

        _implement(name, kernel, f"Autocast{device}")


def register_vmap(name: str, rule: Callable[..., tuple[Any, Any]]) -> None:
    """Registers `rule(info, in_dims, *args) -> (result, out_dims)`, as torch.library does."""
    _register_vmap(f"servecore::{name}", rule)


def _implement(name: str, kernel: Callable[..., Any], key: str, **options: bool) -> None:
    library = _make_library("servecore", "IMPL")
    library.impl(name, kernel, key, **options)
    _libraries.append(library)


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """What the kernels compute in for tensors of a dtype."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def as_parameter(parameter: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """A weight or table in a dtype that the kernels take beside `data`: the same, or float32."""
    if parameter.dtype == data.dtype:
        return parameter
    if parameter.dtype == torch.float32 and data.dtype != torch.float64:
        return parameter
    return parameter.to(data.dtype)


def batch_first(tensor: torch.Tensor, in_dim: int | None, size: int) -> torch.Tensor:
    """A view whose first dimension is the batch; a tensor without one is the same for each."""
    if in_dim is None:
        return tensor.expand(size, *tensor.shape)
    return tensor.movedim(in_dim, 0)


def one_by_one(
    op: Op, info: Any, in_dims: Sequence[int | None], args: Sequence[object], **kwargs: object
) -> list[Any]:
    """The results of one call for each of the batch."""

    def pick(arg: Any, in_dim: int | None, index: int) -> object:
        return arg if in_dim is None else arg.select(in_dim, index)

    return [
        op(*(pick(arg, dim, i) for arg, dim in zip(args, in_dims, strict=True)), **kwargs)
        for i in range(info.batch_size)
    ]


def refuse_unbatched(op: str, name: str, in_dim: int | None) -> None:
    """Refuses to write the results of a batch over each other.

    Raises:
        RuntimeError: The tensor that is written is one for all of the batch.
    """
    if in_dim is None:
        raise RuntimeError(
            f"servecore::{op}: {name} is written by each of the batch that vmap maps over, but is "
            f"not mapped over itself; give it a batch dimension and an in_dim, or .clone() it "
            "within the function"
        )
