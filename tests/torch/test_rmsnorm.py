# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""torch.ops.servecore.rmsnorm: values, layouts, strides and refusals."""

from __future__ import annotations

import re
import threading

import pytest
import torch

from op_cases import (
    DTYPES,
    LAYOUTS,
    assert_close,
    assert_rounded,
    make_input,
    poisoned_like,
)
from op_cases import rmsnorm_reference as reference
from servecore import ops


def message_of(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> str:
    with pytest.raises(RuntimeError) as caught:
        ops.rmsnorm(x, weight, eps)
    return str(caught.value)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [1, 7, 32, 37, 4096, 4099])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_equals_the_reference_in_every_layout(layout, dim, dtype):
    x = make_input(layout, dim, dtype)
    weight = torch.rand(x.shape[-1]).to(dtype)
    before = x.clone(), weight.clone()

    result = ops.rmsnorm(x, weight, 1e-6)
    out = poisoned_like(result)
    ops.rmsnorm_out(x, weight, 1e-6, out=out)

    assert_rounded(result, reference(x, weight), dtype)
    assert torch.equal(out, result)
    assert result.is_contiguous()
    assert torch.equal(x, before[0])
    assert torch.equal(weight, before[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_weight_may_be_float32_beside_a_narrower_x(dtype):
    x, weight = make_input("contiguous", 129, dtype), torch.rand(129)
    assert_rounded(ops.rmsnorm(x, weight), reference(x, weight), dtype)
    for grad in torch.autograd.grad(
        ops.rmsnorm(x.requires_grad_(), weight.requires_grad_()).sum(), (x, weight)
    ):
        assert grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("cast_before_weight", [False, True])
def test_narrow_results_are_correctly_rounded(dtype, cast_before_weight):
    x = torch.randn(512, 4096).to(dtype)
    weight = torch.rand(4096).to(dtype)
    result = ops.rmsnorm(x, weight, cast_before_weight=cast_before_weight)
    exact = reference(x, weight, cast_to=dtype if cast_before_weight else None).to(dtype)
    assert (result != exact).double().mean() <= 1e-4


def test_rounding_before_the_weight_is_another_function():
    x, weight = torch.randn(64, 1024).bfloat16(), torch.rand(1024).bfloat16()
    early = ops.rmsnorm(x, weight, cast_before_weight=True)
    late = ops.rmsnorm(x, weight)
    assert 0.05 < (early != late).double().mean() < 0.5
    tracked = ops.rmsnorm(x.requires_grad_(), weight, cast_before_weight=True)
    assert torch.equal(tracked.detach(), early)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_squares_of_large_values_do_not_overflow(dtype):
    x = torch.full((2, 4096), 300.0, dtype=dtype)
    weight = torch.ones(4096, dtype=dtype)
    assert torch.equal(ops.rmsnorm(x, weight, 0.0), torch.ones_like(x))


def test_a_single_long_row_is_shared_out_over_threads():
    x, weight = torch.randn(1, 300_001), torch.rand(300_001)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = ops.rmsnorm(x, weight)
        torch.set_num_threads(4)
        together = ops.rmsnorm(x, weight)
    finally:
        torch.set_num_threads(threads)
    assert_rounded(alone, reference(x, weight), torch.float32)
    assert_rounded(together, reference(x, weight), torch.float32)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_meta_has_the_strides_and_shape_of_the_real_result(layout, requires_grad):
    x = make_input(layout).requires_grad_(requires_grad)
    weight = torch.rand(x.shape[-1])

    real = ops.rmsnorm(x, weight)
    x_meta = torch.empty_strided(x.shape, x.stride(), device="meta", requires_grad=requires_grad)
    meta = ops.rmsnorm(x_meta, weight.to("meta"))

    assert meta.device.type == "meta"
    assert (meta.shape, meta.stride(), meta.dtype) == (real.shape, real.stride(), real.dtype)
    assert meta.requires_grad == real.requires_grad


@pytest.mark.parametrize("shape", [(0, 8), (3, 0), (0, 0), (2, 0, 8), (0,)])
def test_empty_tensors_give_empty_results(shape):
    result = ops.rmsnorm(torch.empty(shape), torch.empty(shape[-1]))
    assert result.shape == shape


@pytest.mark.parametrize("weight_layout", ["every_other", "expanded", "offset"])
def test_weight_may_have_any_stride(weight_layout):
    x = torch.randn(5, 37)
    weight = {
        "every_other": torch.rand(74)[::2],
        "expanded": torch.rand(1).expand(37),
        "offset": torch.rand(40)[3:],
    }[weight_layout]
    assert_close(ops.rmsnorm(x, weight), reference(x, weight, 1e-6))


def test_rows_are_shared_out_over_threads():
    # Large enough for torch to split, odd enough for the last part to be short.
    x = torch.randn(1031, 257)
    weight = torch.rand(257)
    assert_close(ops.rmsnorm(x, weight), reference(x, weight, 1e-6))


def test_result_does_not_depend_on_the_number_of_threads():
    x, weight = torch.randn(1031, 257), torch.rand(257)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = ops.rmsnorm(x, weight)
        torch.set_num_threads(3)
        together = ops.rmsnorm(x, weight)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(alone, together)


def test_calls_from_many_threads_do_not_disturb_each_other():
    inputs = [(torch.randn(300, 257), torch.rand(257)) for _ in range(8)]
    results: list[torch.Tensor | None] = [None] * len(inputs)

    def work(index: int) -> None:
        for _ in range(5):
            results[index] = ops.rmsnorm(*inputs[index])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (x, weight), result in zip(inputs, results, strict=True):
        assert result is not None
        assert_close(result, reference(x, weight, 1e-6))


def test_eps_is_added_to_the_mean_of_squares():
    x, weight = torch.full((1, 4), 1e-3), torch.ones(4)
    assert_close(ops.rmsnorm(x, weight, 3e-6), torch.full((1, 4), 0.5, dtype=torch.float64))


def test_eps_has_a_default_and_may_be_zero():
    x, weight = torch.randn(2, 8), torch.rand(8)
    assert torch.equal(ops.rmsnorm(x, weight), ops.rmsnorm(x, weight, 1e-6))
    assert_close(ops.rmsnorm(x, weight, 0.0), reference(x, weight, 0.0))


@pytest.mark.parametrize("requires_grad", [False, True])
class TestRefusals:
    """The same words whether or not a gradient is asked for."""

    def x(self, requires_grad, *shape, **kwargs):
        return torch.ones(*shape, **kwargs).requires_grad_(requires_grad)

    @pytest.mark.parametrize(
        ("dtype", "weight_dtype"),
        [
            (torch.float64, torch.float32),
            (torch.float32, torch.float64),
            (torch.float32, torch.bfloat16),
            (torch.bfloat16, torch.float16),
            (torch.float16, torch.bfloat16),
        ],
    )
    def test_dtype_of_weight(self, requires_grad, dtype, weight_dtype):
        x = self.x(requires_grad, 2, 4, dtype=dtype)
        message = message_of(x, torch.ones(4, dtype=weight_dtype))
        assert f"x has dtype {dtype}, weight has dtype {weight_dtype}" in message

    def test_integers(self, requires_grad):
        weight = torch.ones(4, requires_grad=requires_grad)
        message = message_of(torch.ones(2, 4, dtype=torch.int64), weight)
        assert "x has dtype torch.int64" in message

    def test_devices_that_differ(self, requires_grad):
        message = message_of(self.x(requires_grad, 2, 4), torch.ones(4, device="meta"))
        assert "x is on cpu, weight is on meta" in message
        message = message_of(self.x(requires_grad, 2, 4, device="meta"), torch.ones(4))
        assert "x is on meta, weight is on cpu" in message

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    @pytest.mark.parametrize("length", [0, 1, 3, 5])
    def test_length_of_weight(self, requires_grad, device, length):
        message = message_of(
            self.x(requires_grad, 2, 4, device=device), torch.ones(length, device=device)
        )
        assert f"weight has shape ({length},), x has shape (2, 4)" in message
        assert "weight must have shape (4,)" in message

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    @pytest.mark.parametrize("shape", [(), (1, 4), (4, 1)])
    def test_rank_of_weight(self, requires_grad, device, shape):
        message = message_of(
            self.x(requires_grad, 2, 4, device=device), torch.ones(shape, device=device)
        )
        assert f"weight has shape {shape}, x has shape (2, 4)" in message

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_length_of_weight_for_a_vector(self, requires_grad, device):
        message = message_of(self.x(requires_grad, 4, device=device), torch.ones(3, device=device))
        assert "weight has shape (3,), x has shape (4,)" in message

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    def test_x_without_dimensions(self, requires_grad, device):
        message = message_of(self.x(requires_grad, (), device=device), torch.ones(1, device=device))
        assert "x has shape ()" in message
        assert "at least 1 dimension" in message

    @pytest.mark.parametrize("eps", [-1e-6, float("nan"), float("inf")])
    def test_eps(self, requires_grad, eps):
        message = message_of(self.x(requires_grad, 2, 4), torch.ones(4), eps)
        assert re.search(rf"eps is {re.escape(str(eps))}; it must be finite", message.lower())

    def test_sparse_x(self, requires_grad):
        x = torch.eye(4).to_sparse().requires_grad_(requires_grad)
        message = message_of(x, torch.ones(4))
        assert "x is on cpu (torch.sparse_coo), weight is on cpu (torch.strided)" in message
        assert "allowed are torch.strided tensors on cpu" in message


def test_a_cpu_build_refuses_cuda_tensors_in_words():
    # Without a GPU no tensor is on CUDA, but the dispatcher can be told to answer as if.
    name = "servecore::rmsnorm"
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA"):
        pytest.skip("this build has CUDA kernels")
    cuda = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    with pytest.raises(RuntimeError, match=r"this build has no kernel.*--config=cuda"):
        torch.ops.servecore.rmsnorm.default.redispatch(
            cuda, torch.ones(2, 4), torch.ones(4), 0.0, False
        )


def test_out_that_does_not_fit():
    x, weight = torch.randn(3, 8), torch.rand(8)
    for out, words in (
        (torch.empty(3, 7), "out has shape (3, 7)"),
        (torch.empty(8), "out has shape (8,)"),
        (torch.empty(3, 8, dtype=torch.float64), "out has dtype torch.float64"),
        (torch.empty(3, 8, device="meta"), "out is on meta"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(words)):
            ops.rmsnorm_out(x, weight, out=out)


def test_cpu_and_meta_have_kernels_of_their_own():
    for key in ("CPU", "Meta"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key("servecore::rmsnorm", key)
