# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""torch's own checks of op registrations: schema, autograd, fake tensors, AOT dispatch."""

from __future__ import annotations

import pytest
import torch

from rmsnorm_reference import LAYOUTS, make_input
from servecore import ops  # noqa: F401 - loads the library

CHECKS = {
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
}


def opcheck(op: torch._ops.OpOverload, *args: object) -> None:
    assert torch.library.opcheck(op, args) == dict.fromkeys(CHECKS, "SUCCESS")


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rmsnorm(layout, requires_grad):
    x = make_input(layout).requires_grad_(requires_grad)
    weight = torch.rand(x.shape[-1], requires_grad=requires_grad)
    opcheck(torch.ops.servecore.rmsnorm.default, x, weight, 1e-6)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_custom_add(layout, requires_grad):
    a = make_input(layout).requires_grad_(requires_grad)
    b = make_input(layout).requires_grad_(requires_grad)
    opcheck(torch.ops.servecore.custom_add.default, a, b)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_custom_add_in_other_dtypes(dtype):
    opcheck(
        torch.ops.servecore.custom_add.default,
        torch.ones(3, 4, dtype=dtype),
        torch.ones(3, 4, dtype=dtype),
    )


def test_the_library_has_these_ops_and_no_other():
    schemas = {
        str(schema)
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("servecore::")
    }
    assert schemas == {
        "servecore::rmsnorm(Tensor x, Tensor weight, float eps) -> Tensor",
        "servecore::custom_add(Tensor a, Tensor b) -> Tensor",
    }
