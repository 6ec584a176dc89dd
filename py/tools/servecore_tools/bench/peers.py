# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The rivals, as they are installed: SGLang's native tree and vLLM's block pool.

Neither package can be imported as a whole where there is no accelerator, so the few modules that
hold what is measured are loaded by themselves, and what else they import is stood in for.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from array import array
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

from servecore_tools.bench.workloads import Tokens

SGLANG = "SGLang native tree"
VLLM = "vLLM"

_SGLANG_WHEEL = "sglang_whl"
_SGLANG_TREE = "sglang/srt/mem_cache/rust_tree_core"
_VLLM_MODULES = ("vllm.utils.hashing", "vllm.v1.core.kv_cache_utils", "vllm.v1.core.block_pool")


class PeerError(Exception):
    """A rival that cannot be measured, and why."""


def peers_python(folder: Path) -> Path:
    """The interpreter in which the rivals' own dependencies are installed."""
    return folder / "venv" / "bin" / "python"


def find_versions(folder: Path) -> dict[str, str]:
    """Versions of the rivals in the folder, by name; one that is not there is left out."""
    versions = {}
    for info in (folder / _SGLANG_WHEEL).glob("sglang-*.dist-info"):
        versions[SGLANG] = info.name.removesuffix(".dist-info").partition("-")[2]
    for source in folder.glob("vllm-*"):
        if source.is_dir():
            versions[VLLM] = source.name.partition("-")[2]
    return versions


class SglangTree:
    """SGLang's native prefix tree, called through its raw binding.

    Args:
        folder: The folder of the rivals.
        page: Tokens of a page.
    """

    def __init__(self, folder: Path, page: int) -> None:
        self._native = _load_sglang(folder)
        self._tree = self._native.RustUnifiedTreeCoreBinding(self._parameters(page), [0])
        self._root = self._tree.root_node_handle(None)

    def _parameters(self, page: int) -> Any:
        settings: dict[str, object] = {
            "device": "cpu",
            "page_size": page,
            "eviction_policy": "lru",
            "slru_protected_threshold": 2,
            "tlru_tail_budget": 0,
            "tlru_float_config": None,
            "enable_hicache": False,
            "is_write_back": False,
            "write_through_threshold": 256,
            "enable_kv_cache_events": False,
            "dynamo_kv_event_format": False,
            "swa_sliding_window_size": None,
            "swa_req_ring": False,
            "mamba_cache_chunk_size": None,
            "mamba_max_states_per_path": None,
        }
        return self._native.TreeCoreInitParamsBinding(**settings)

    def match(self, key: array[int]) -> tuple[int, Any]:
        """The number of tokens found, and the node where they end."""
        query = self._native.MatchParamsBinding(key=key, extra_key=None, cache_salt=None)
        found = self._tree.match_prefix(query)
        return found.device_prefix_len, found.last_device_node_id

    def request(self, key: array[int], indices: Any, times: dict[str, float]) -> None:
        """One request: match, read the indices, hold, insert, let go; its times are added."""
        tree = self._tree
        start = perf_counter()
        length, node = self.match(key)
        hold = None
        if length:
            tree.collect_full_device_indices(node, self._root)
            hold = tree.inc_lock_ref(node, [])
        matched = perf_counter()
        self._insert(key, indices)
        inserted = perf_counter()
        if hold is not None:
            tree.dec_lock_ref(
                node,
                self._native.DecLockRefParamsBinding(
                    node_id=hold.node_id,
                    component_lock_uuids=hold.component_lock_uuids,
                    component_host_lock_uuids=hold.component_host_lock_uuids,
                    skipped_lock_components=hold.skipped_lock_components,
                ),
            )
        end = perf_counter()
        times["match"] += matched - start
        times["insert"] += inserted - matched
        times["release"] += end - inserted

    def _insert(self, key: array[int], indices: Any) -> None:
        parameters = self._native.InsertParamsBinding(
            key=key,
            value=indices,
            priority=0,
            extra_key=None,
            cache_salt=None,
            session_id=None,
            prev_prefix_len=0,
            inserted_len=0,
            mamba_value=None,
            swa_evicted_seqlen=0,
            swa_branching_seqlen=None,
            track_adopted_ranges=False,
            rotation_base=None,
        )
        step = self._tree.begin_insert(parameters)
        while step.result is None:
            step = self._tree.resume_insert()
        self._tree.end_insert()

    def evict(self, num_tokens: int) -> int:
        """Frees at least that many tokens where there are so many, and gives the number freed."""
        tree = self._tree
        freed = 0
        tree.evict_device_start(0, num_tokens)
        while freed < num_tokens:
            step = tree.evict_device_next_node(0, {0: freed})
            freed += step.tracker.get(0, 0)
            if step.node_id is not None:
                freed += tree.evict_device_leaf(step.node_id).tracker.get(0, 0)
            elif not step.made_progress:
                break
        tree.evict_device_end(0)
        return freed

    @property
    def num_tokens(self) -> int:
        """Tokens that eviction could free."""
        return int(self._tree.evictable_size())


def sglang_inputs(requests: Sequence[Tokens]) -> tuple[list[array[int]], list[Any]]:
    """The keys and index tensors of the requests, in the form that the native tree takes."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    keys = [array("q", tokens.tobytes()) for tokens in requests]
    return keys, [torch.arange(len(tokens), dtype=torch.int64) for tokens in requests]


class VllmRequest:
    """What vLLM's block hasher and block pool read of a request."""

    def __init__(self, tokens: list[int]) -> None:
        self.all_token_ids = tokens
        self.num_tokens = len(tokens)
        self.block_hashes: list[Any] = []
        self.mm_features: list[Any] = []
        self.lora_request = None
        self.cache_salt = None
        self.prompt_embeds = None
        self.session_id = None
        self._prompt_embeds_per_block_hashes: dict[Any, Any] = {}


class VllmPool:
    """vLLM's block pool with its hash chain.

    Args:
        folder: The folder of the rivals.
        num_blocks: Blocks of the pool.
        page: Tokens of a block.
    """

    def __init__(self, folder: Path, num_blocks: int, page: int) -> None:
        hashing, utilities, pool = _load_vllm(folder)
        hash_function = hashing.get_hash_fn_by_name("sha256")
        utilities.init_none_hash(hash_function)
        self.pool = pool.BlockPool(num_blocks, True, page)
        self._hash_blocks = utilities.get_request_block_hasher(page, hash_function)
        self._page = page

    def request(self, tokens: list[int], times: dict[str, float]) -> None:
        """One request: hash, match, allocate, cache, free; its times are added."""
        pool, page = self.pool, self._page
        request = VllmRequest(tokens)
        start = perf_counter()
        request.block_hashes = self._hash_blocks(request)
        hashed = perf_counter()
        found = []
        for block_hash in islice(request.block_hashes, (len(tokens) - 1) // page):
            cached = pool.get_cached_block(block_hash, [0])
            if not cached:
                break
            found.append(cached[0])
        pool.touch(found)
        matched = perf_counter()
        blocks = found + pool.get_new_blocks(-(-len(tokens) // page) - len(found))
        pool.cache_full_blocks(request, blocks, len(found), len(tokens) // page, page, 0)
        inserted = perf_counter()
        pool.free_blocks(reversed(blocks))
        end = perf_counter()
        times["hash"] += hashed - start
        times["match"] += matched - hashed
        times["insert"] += inserted - matched
        times["release"] += end - inserted


def vllm_inputs(requests: Sequence[Tokens]) -> list[list[int]]:
    """The requests in the form that vLLM takes."""
    return [np.asarray(tokens).tolist() for tokens in requests]


def _load_sglang(folder: Path) -> ModuleType:
    path = str(folder / _SGLANG_WHEEL / _SGLANG_TREE)
    if path not in sys.path:
        sys.path.append(path)
    try:
        # The extension links against torch's libraries, which are loaded with torch.
        importlib.import_module("torch")
        return importlib.import_module("mem_cache")
    except ImportError as error:
        raise PeerError(f"{SGLANG} cannot be imported from {path}: {error}") from error


def _load_vllm(folder: Path) -> list[ModuleType]:
    sources = sorted(path for path in folder.glob("vllm-*") if path.is_dir())
    if not sources:
        raise PeerError(f"no folder vllm-* in {folder}")
    if not any(isinstance(finder, _PartialPackage) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PartialPackage("vllm", sources[-1], _VLLM_MODULES, _VLLM_VALUES))
    try:
        return [importlib.import_module(name) for name in _VLLM_MODULES]
    except (ImportError, AttributeError) as error:
        raise PeerError(f"{VLLM} cannot be imported from {sources[-1]}: {error}") from error


class _Silent:
    """A logger that says nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_kwargs: None


_VLLM_VALUES: Mapping[str, Mapping[str, object]] = {
    "vllm.envs": {"VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": False},
    "vllm.logger": {"init_logger": lambda _name: _Silent()},
    "vllm.utils.math_utils": {"cdiv": lambda a, b: -(-a // b)},
    "vllm.distributed.kv_events": {"MEDIUM_GPU": "GPU"},
}


class _StandIn(ModuleType):
    """A module in which every public name is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {})
        setattr(self, name, value)
        return value


class _PartialPackage(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds some modules of a package in its sources, and stands in for all its others.

    Args:
        package: The package.
        folder: Where its sources are.
        real: The modules that are loaded.
        values: What the stand-ins hold, by module.
    """

    def __init__(
        self,
        package: str,
        folder: Path,
        real: Sequence[str],
        values: Mapping[str, Mapping[str, object]],
    ) -> None:
        self._package = package
        self._folder = folder
        self._real = real
        self._values = values

    def find_spec(
        self, fullname: str, _path: object = None, _target: object = None, /
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of the package; None for every other."""
        if fullname.partition(".")[0] != self._package:
            return None
        if fullname in self._real:
            file = self._folder.joinpath(*fullname.split(".")).with_suffix(".py")
            return importlib.util.spec_from_file_location(fullname, file)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Makes a stand-in."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Gives it its values."""
        vars(module).update(self._values.get(module.__name__, {}))
