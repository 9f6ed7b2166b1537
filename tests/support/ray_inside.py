"""The names of Ray's inside in `actors/runtime/ray_inside.py`, read out of its source, and those that a Ray lacks."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from actors.runtime import ray_inside

SOURCE = Path(ray_inside.__file__)


@dataclass(frozen=True, slots=True)
class Name:
    """A name of Ray's, and the function of ours that needs it; `of` is the class of an object that has it."""

    function: str
    purpose: str
    name: str
    of: str = ""

    def __str__(self) -> str:
        return f"{self.function}: {self.of and self.of + ': '}{self.name}"


def names(source: str) -> list[Name]:
    """Every name of Ray's that the functions of a module use, once each."""
    found: dict[Name, None] = {}
    for each in ast.parse(source).body:
        if isinstance(each, ast.FunctionDef):
            found.update(dict.fromkeys(_names(each)))
    return list(found)


def constants(source: str) -> set[str]:
    """The constants of a module."""
    body = ast.parse(source).body
    return {each.target.id for each in body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)}


def _names(function: ast.FunctionDef) -> Iterator[Name]:
    purpose = (ast.get_docstring(function) or "").partition("\n")[0]
    imported = {alias.name: each.module for each in _all(function, ast.ImportFrom) for alias in each.names}
    for name, module in imported.items():
        yield Name(function.name, purpose, f"{module}.{name}")
    classes = {each.arg: ast.unparse(each.annotation) for each in _all(function, ast.arg) if each.annotation}
    for each in _outermost(function):
        root = _root(each)
        text = ast.unparse(each)
        if root == "ray":
            yield Name(function.name, purpose, text)
        elif root in classes and f".{each.attr}".startswith("._"):
            of = classes[root]
            yield Name(function.name, purpose, each.attr, f"{imported[of]}.{of}" if of in imported else of)


def _all(function: ast.AST, kind: type[Any]) -> list[Any]:
    return [node for node in ast.walk(function) if isinstance(node, kind)]


def _outermost(function: ast.AST) -> list[ast.Attribute]:
    """Attributes: those of Ray's each whole, as `ray._a.b().c`; those of objects to each private one, as `a._b`."""
    every = _all(function, ast.Attribute)
    inner = {id(node) for each in every for node in ast.walk(each) if node is not each}
    return [each for each in every if _root(each) != "ray" or id(each) not in inner]


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def lost(name: Name) -> str:
    """The text to say if this Ray does not have a name; "" if it has."""
    try:
        _look_up(name)
    except (AttributeError, ImportError) as error:
        of = f" of {name.of}" if name.of else ""
        return (
            f"Ray {ray.__version__} has no {name.name}{of} any more ({error}): {SOURCE.name} needs it in "
            f"{name.function}(): {name.purpose}"
        )
    return ""


def _look_up(name: Name) -> None:
    if not name.of:
        _value(name.name)
    elif not hasattr(_value(name.of), name.name) and f"self.{name.name}" not in _text(_value(name.of)):
        raise AttributeError(f"{name.of} sets no such thing")


def _value(text: str) -> object:
    """The value of an expression; what leads up to its last name may be a module that is not imported yet."""
    module, _, last = text.rpartition(".")
    if "(" not in text and text.startswith("ray.data"):
        return getattr(importlib.import_module(module), last)
    scope: Mapping[str, object] = {"ray": ray}
    return eval(text, dict(scope))


def _text(kind: object) -> str:
    return Path(importlib.import_module(kind.__module__).__file__ or "").read_text()
