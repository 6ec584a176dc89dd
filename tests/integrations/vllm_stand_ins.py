# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes vLLM's source archive in $PEERS importable without its compiled part."""

import importlib.abc
import importlib.machinery
import os
import sys
import types

# What vLLM imports on the way to its scheduler, and the scheduler does not use.
NOT_NEEDED = {
    "_C",
    "anthropic",
    "flashinfer",
    "llguidance",
    "lmformatenforcer",
    "mcp",
    "model_hosting_container_standards",
    "openai_harmony",
    "opentelemetry",
    "oss_harmony",
    "outlines_core",
    "prometheus_fastapi_instrumentator",
    "xgrammar",
}


class StandIn(types.ModuleType):
    """A module that has a class of every name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {"__init__": lambda self, *args, **more: None})
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for each module that is not installed and not needed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name.split(".")[0] in NOT_NEEDED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


def install() -> None:
    """From then on `import vllm` works."""
    os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.path.insert(0, f"{os.environ['PEERS']}/vllm-0.33.0")
    sys.meta_path.append(Finder())
