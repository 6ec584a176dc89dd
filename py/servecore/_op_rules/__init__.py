# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""How each op answers torch's transforms: derivatives, autocast and vmap.

The kernels are in the op library; what is written here is what torch wants in Python. Each op has
a module of its own, with a formula of torch's differentiable ops that says what the op means.

Where a derivative is wanted, the formula is what runs under torch.compile, torch.func and forward
mode: it is right under all of them, any number of times. An autograd.Function would not be: under
`torch.compile(torch.func.grad(f))` torch drops its gradient without a word. Eager autograd has no
such trouble, and gets the backward kernels through one.
"""

from __future__ import annotations

from servecore._op_rules import (
    custom_add,
    fused_add_rmsnorm,
    rmsnorm,
    rotary_embedding,
    silu_and_mul,
)


def register() -> None:
    """Registers all rules. Call once, after the library is loaded and before an op is used.

    torch.compile remembers how an op was dispatched the first time, so a registration after that
    would come too late for it.
    """
    for module in (custom_add, fused_add_rmsnorm, rmsnorm, rotary_embedding, silu_and_mul):
        module.register()
