# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""nvcc 13.0 and its runtime, put together from NVIDIA's Python wheels."""

# Where each wheel's part of the toolkit lies.
_WHEELS = [
    "nvidia_cuda_cccl",
    "nvidia_cuda_crt",
    "nvidia_cuda_nvcc",
    "nvidia_cuda_runtime",
    "nvidia_nvvm",
]
_TOOLKIT = "site-packages/nvidia/cu13"

def _cuda_toolkit_impl(ctx):
    for wheel in _WHEELS:
        build = ctx.path(Label("@pip_cuda_{}//:BUILD.bazel".format(wheel)))
        part = build.dirname.get_child(*_TOOLKIT.split("/"))

        # Hard links: nvcc looks for its parts beside its own real path.
        result = ctx.execute(["cp", "-rl", str(part) + "/.", "."])
        if result.return_code != 0:
            result = ctx.execute(["cp", "-r", str(part) + "/.", "."])
        if result.return_code != 0:
            fail("putting {} into the toolkit: {}".format(wheel, result.stderr))

    # A wheel does not keep the permission to run.
    result = ctx.execute(["sh", "-c", "chmod +x bin/* nvvm/bin/*"])
    if result.return_code != 0:
        fail("making the toolkit's programs executable: " + result.stderr)
    ctx.file("BUILD.bazel", ctx.read(ctx.attr.build_file))

_cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    attrs = {
        "build_file": attr.label(allow_single_file = True, mandatory = True),
    },
    doc = "One CUDA toolkit out of the wheels that each hold a part of it.",
)

def cuda_repositories():
    """Declares @cuda. It is fetched only by a build with --config=cuda."""
    _cuda_toolkit(
        name = "cuda",
        build_file = "//third_party/cuda:cuda.BUILD.bazel",
    )
