# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs vLLM's own tests with its BlockPool, or with ours in its place, and prints the outcomes.

Run by test_vllm.py in an interpreter that has torch and vLLM's dependencies;
$PEERS/vllm-0.33.0 is vLLM's source archive, unpacked. What vLLM imports and nobody here needs
(its compiled part, parsers of tool calls) is an empty stand-in.

    vllm_own_tests.py theirs|ours OUTCOMES.json TEST...
"""

import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path

HUB = Path(tempfile.mkdtemp())
os.environ["HF_HUB_CACHE"] = str(HUB)
sys.path.insert(0, str(Path(__file__).parent))
import vllm_stand_ins  # noqa: E402

vllm_stand_ins.install()

import pytest  # noqa: E402
from vllm.model_executor.models import registry  # noqa: E402

from servecore.integrations import vllm  # noqa: E402


class Outcomes:
    """Collects how each test ended."""

    def __init__(self) -> None:
        self.by_name: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test passed if its call did; it failed if any part of it did."""
        name = report.nodeid.removeprefix("tests/")
        if report.failed or report.when == "call" or report.skipped:
            self.by_name[name] = report.outcome

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that can't be read."""
        if report.failed:
            self.by_name[report.nodeid.removeprefix("tests/")] = "unreadable"


# The models that the tests name. Of a model nothing but its config.json is read, and of that next
# to nothing: so one serves for all.
NAMES = ["facebook/opt-125m", "facebook/opt-350m", "llava-hf/llava-1.5-7b-hf", "Qwen/Qwen3-0.6B"]
MODEL = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "hidden_size": 768,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "ffn_dim": 3072,
    "vocab_size": 50272,
    "max_position_embeddings": 2048,
    "word_embed_proj_dim": 768,
    "do_layer_norm_before": True,
    "bos_token_id": 2,
    "eos_token_id": 2,
    "pad_token_id": 1,
    "torch_dtype": "float16",
}


def provide_models(hub: Path) -> None:
    """Lays MODEL where vLLM finds models that were downloaded before."""
    for name in NAMES:
        folder = hub / f"models--{name.replace('/', '--')}"
        snapshot = folder / "snapshots" / ("0" * 40)
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text(json.dumps(MODEL))
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("0" * 40)

    # The class of the model would be imported, with kernels that are not there.
    unset = {"bool": False, "tuple": ()}
    values = {
        field.name: next((v for kind, v in unset.items() if kind in str(field.type)), None)
        for field in dataclasses.fields(registry._ModelInfo)
    }
    values |= {
        "architecture": "OPTForCausalLM",
        "is_text_generation_model": True,
        "attn_type": "decoder",
        "default_seq_pooling_type": "LAST",
        "default_tok_pooling_type": "ALL",
        "score_type": "bi-encoder",
        "supports_pp": True,
    }
    found = registry._ModelInfo(**values), "OPTForCausalLM"
    registry._ModelRegistry.inspect_model_cls = lambda *_, **__: found


def main() -> None:
    """See the module's words."""
    whose, out, *tests = sys.argv[1:]
    provide_models(HUB)
    if whose == "ours":
        vllm.install()
    root = Path(os.environ["PEERS"]) / "vllm-0.33.0"
    written = Path(out).resolve()
    os.chdir(root)
    outcomes = Outcomes()
    pytest.main(
        [
            *(f"tests/{test}" for test in tests),
            "--confcutdir=tests/v1",
            "--continue-on-collection-errors",
            "-pno:cacheprovider",
            f"--rootdir={root}",
            "--override-ini=addopts=",
            "-q",
            "--tb=line",
        ],
        plugins=[outcomes],
    )
    written.write_text(json.dumps(outcomes.by_name, indent=1))


main()
