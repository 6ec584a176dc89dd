# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""_core.pyi against the module: the same names, parameters and results.

The module's own signatures stand in the first lines of its docstrings. Where the stub says more
(overloads, the types of __exit__) the parameters are compared by name alone.
"""

from __future__ import annotations

import ast
import importlib.resources
import inspect
import re
from typing import Any

import pytest

from servecore import _core

STUB = ast.parse(importlib.resources.files("servecore").joinpath("_core.pyi").read_text())
# Written by pybind11, by copy or inherited from object: nothing to declare.
UNDECLARED = {
    "__annotations__",
    "__dict__",
    "__doc__",
    "__module__",
    "__new__",
    "__repr__",
    "__slotnames__",
    "__weakref__",
}


def stub_of(body: list[ast.stmt]) -> dict[str, list[ast.FunctionDef | ast.ClassDef]]:
    """The classes and functions of a body by name; overloads share one."""
    found: dict[str, list[ast.FunctionDef | ast.ClassDef]] = {}
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            found.setdefault(statement.name, []).append(statement)
    return found


def is_property(stub: ast.FunctionDef | ast.ClassDef) -> bool:
    return any(ast.unparse(decorator) == "property" for decorator in stub.decorator_list)


def real_of(thing: Any) -> dict[str, Any]:
    """The members of a module or class that a stub has to declare."""
    return {
        name: member
        for name, member in vars(thing).items()
        if name not in UNDECLARED
        and not (inspect.ismodule(thing) and name.startswith("__"))
        and not name.startswith(("__pybind11", "_pybind11"))
    }


def plain(text: str) -> str:
    """A type or signature with the spelling of neither side."""
    text = re.sub(r"servecore\._core\.", "", text)
    text = re.sub(r"numpy\.typing\.", "npt.", text).replace("numpy.", "np.")
    text = text.replace("np.bool_]", "np.bool]")
    # What an array holds is known at run time only.
    text = re.sub(
        r"npt\.NDArray\[np\.int32\] \| npt\.NDArray\[np\.int64\](?=:|$)", "np.ndarray", text
    )
    text = re.sub(r"\b_(IntArray|FloatArray)\b", r"\1", text)
    text = re.sub(r"\b_Int\b", "int", text)
    return text.replace('"', "'")


def signature_of_stub(stub: ast.FunctionDef) -> ast.FunctionDef:
    parsed = ast.parse(plain(ast.unparse(stub))).body[0]
    assert isinstance(parsed, ast.FunctionDef)
    if parsed.args.args and parsed.args.args[0].arg == "self":
        del parsed.args.args[0]
    return parsed


def signature_of_doc(doc: str) -> ast.FunctionDef:
    line = plain(doc.strip().splitlines()[0])
    parsed = ast.parse(f"def {line}: ...").body[0]
    assert isinstance(parsed, ast.FunctionDef)
    if parsed.args.args and parsed.args.args[0].arg == "self":
        del parsed.args.args[0]
    return parsed


def functions() -> list[tuple[str, list[ast.FunctionDef], Any]]:
    """Each function and method with its stubs."""
    found = []
    for name, stubs in stub_of(STUB.body).items():
        if name.startswith("_"):
            continue
        real = getattr(_core, name)
        if isinstance(stubs[0], ast.FunctionDef):
            found.append((name, stubs, real))
            continue
        for method, method_stubs in stub_of(stubs[0].body).items():
            if not is_property(method_stubs[0]):
                found.append((f"{name}.{method}", method_stubs, getattr(real, method)))
    return found  # type: ignore[return-value]


def properties() -> list[tuple[str, ast.FunctionDef, Any]]:
    found = []
    for name, stubs in stub_of(STUB.body).items():
        if isinstance(stubs[0], ast.ClassDef) and not name.startswith("_"):
            for member, member_stubs in stub_of(stubs[0].body).items():
                if is_property(member_stubs[0]):
                    found.append((member, member_stubs[0], vars(getattr(_core, name))[member]))
    return found  # type: ignore[return-value]


def test_the_same_names_in_the_module() -> None:
    declared = {name for name in stub_of(STUB.body) if not name.startswith("_")}
    assert declared == set(real_of(_core))


@pytest.mark.parametrize("name", [n for n, m in vars(_core).items() if inspect.isclass(m)])
def test_the_same_names_in_a_class(name: str) -> None:
    (stub,) = stub_of(STUB.body)[name]
    declared = set(stub_of(stub.body))
    # A class that callers can't make has pybind11's refusing __init__.
    real = set(real_of(getattr(_core, name)))
    if "__init__" not in declared:
        real.discard("__init__")
        with pytest.raises(TypeError, match="No constructor"):
            getattr(_core, name)()
    assert declared == real


@pytest.mark.parametrize(
    ("stubs", "real"), [pytest.param(stubs, real, id=name) for name, stubs, real in functions()]
)
def test_the_same_signature(stubs: list[ast.FunctionDef], real: Any) -> None:
    # The last overload is the widest.
    stub = signature_of_stub(stubs[-1])
    doc = signature_of_doc(real.__doc__)
    if stub.name == "__exit__":
        assert [arg.arg for arg in stub.args.args] == [arg.arg for arg in doc.args.args]
    else:
        assert ast.unparse(stub.args) == ast.unparse(doc.args)
    assert stub.returns is not None
    assert doc.returns is not None
    assert ast.unparse(stub.returns) == ast.unparse(doc.returns)


@pytest.mark.parametrize(
    ("stub", "real"), [pytest.param(stub, real, id=name) for name, stub, real in properties()]
)
def test_the_same_property(stub: ast.FunctionDef, real: Any) -> None:
    assert isinstance(real, property)
    assert real.fset is None
    match = re.search(r"-> (.*)", real.fget.__doc__ or "")
    assert match is not None
    assert stub.returns is not None
    assert plain(ast.unparse(stub.returns)) == plain(match[1].strip())
