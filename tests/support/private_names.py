"""Finds the private names of the product that tests touch.

A name is the product's if one of its classes or modules defines it. It is touched by an attribute, by a text that
`setattr` and its like take, by an import, and by a class that inherits from the product's and uses or replaces it.
A test's class may have private names of its own, also such as the product has: within that class they are no touch.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

PRODUCT = ("actors", "coterie", "placement", "spark_bridge")
_PRIVATE = re.compile(r"_(?!_)\w*[^\W_]\w*")
_WORD = re.compile(r"\b_(?!_)\w+")
_CLASS = re.compile(r"^ *class (\w+)\(([^()]*)\):", re.MULTILINE)
_BASE = re.compile(r"\w+(?=\s*(?:,|\[|$))")
_BY_TEXT = {"setattr", "getattr", "hasattr", "delattr", "patch", "object", "attrgetter", "methodcaller"}
_OF_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
"""Names that every named tuple promises."""


class Touch(NamedTuple):
    """A private name of the product, and the line of a test that touches it."""

    line: int
    name: str


@dataclass(slots=True)
class Class:
    """The names of a class's bases, and the private names it defines."""

    bases: set[str] = field(default_factory=set)
    privates: set[str] = field(default_factory=set)


def _defined(node: ast.AST) -> Iterator[str]:
    """The private names that are defined within: functions, variables, slots, and attributes of `self` and `cls`."""
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found = [name]
            case ast.Name(id=name, ctx=ast.Store()):
                found = [name]
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                found = [name]
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=ast.Tuple(elts=elts)):
                found = [name.value for name in elts if isinstance(name, ast.Constant) and isinstance(name.value, str)]
            case _:
                continue
        yield from (name for name in found if is_private(name))


def is_private(name: str) -> bool:
    """True of `_x`, not of `__x__`, nor of `_`, nor of what every named tuple has."""
    return _PRIVATE.fullmatch(name) is not None and name not in _OF_TUPLES


def _last(name: ast.expr) -> str:
    """The last part of a dotted name: `C` of `C`, `a.C` and `C[T]`."""
    match name:
        case ast.Name(id=last) | ast.Attribute(attr=last):
            return last
        case ast.Subscript(value=value):
            return _last(value)
    return ""


class Product:
    """The private names that the product defines: all of them, and those of each class."""

    def __init__(self, sources: Iterable[str]) -> None:
        self.names: set[str] = set()
        self._classes: dict[str, Class] = defaultdict(Class)
        for source in sources:
            tree = ast.parse(source)
            self.names.update(_defined(tree))
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self._classes[node.name].bases.update(map(_last, node.bases))
                    self._classes[node.name].privates.update(_defined(node))

    def has(self, name: str) -> bool:
        """True if the product has a class of this name."""
        return name in self._classes

    def inherited(self, name: str) -> set[str]:
        """The private names of a class, and of those it inherits from."""
        found: set[str] = set()
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            name = waiting.pop()
            if name in self._classes and name not in seen:
                seen.add(name)
                found |= self._classes[name].privates
                waiting += self._classes[name].bases
        return found


class Suite:
    """All tests, as far as it matters which of their classes inherit from the product's."""

    def __init__(self, product: Product, sources: Iterable[str]) -> None:
        self._product = product
        self._bases: dict[str, set[str]] = defaultdict(set)
        for source in sources:
            for name, bases in _CLASS.findall(source):
                self._bases[name].update(_BASE.findall(bases))

    def touches(self, source: str) -> list[Touch]:
        """All touches of a test file, by line."""
        if self._product.names.isdisjoint(_WORD.findall(source)):
            return []
        tree = ast.parse(source)
        return sorted({*_Reader(self._product, _libraries(tree), self._of_the_product).within(tree)})

    def _of_the_product(self, bases: Iterable[str]) -> set[str]:
        """The private names that a test's class has from the product's, by its bases."""
        found: set[str] = set()
        seen: set[str] = set()
        waiting = [*bases]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if self._product.has(name) and name not in self._bases:
                found |= self._product.inherited(name)
            waiting += self._bases.get(name, ())
        return found


def _libraries(tree: ast.Module) -> set[str]:
    """The names that a file imports from others than the product and the tests."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(each.name, each.asname or each.name.partition(".")[0]) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "tests", each.asname or each.name) for each in node.names]
        else:
            continue
        found.update(name for module, name in names if module.partition(".")[0] not in (*PRODUCT, "tests"))
    return found


class _Reader:
    """Reads one file of tests."""

    def __init__(
        self, product: Product, libraries: set[str], of_the_product: Callable[[Iterable[str]], set[str]]
    ) -> None:
        self._product = product
        self._libraries = libraries
        self._of_the_product = of_the_product
        self._own: frozenset[str] = frozenset()
        """The private names that the class at hand, or one around it, defines as its own."""
        self._inherited: frozenset[str] | None = None
        """Those that it has from the product; None outside of classes."""

    def within(self, node: ast.AST) -> Iterator[Touch]:
        """The touches in a piece of code."""
        yield from self._of(node)
        before = self._own, self._inherited
        if isinstance(node, ast.ClassDef):
            self._inherited = frozenset(self._of_the_product(map(_last, node.bases)))
            self._own |= frozenset(_defined(node)) - self._inherited
        for child in ast.iter_child_nodes(node):
            yield from self.within(child)
        self._own, self._inherited = before

    def _of(self, node: ast.AST) -> Iterator[Touch]:
        match node:
            case ast.Attribute(value=value, attr=name) if name in self._product.names:
                if self._touched(value, name):
                    yield Touch(node.lineno, name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in (self._inherited or ()):
                yield Touch(node.lineno, name)
            case ast.ImportFrom(module=str() as module, names=names) if module.partition(".")[0] in PRODUCT:
                yield from (Touch(node.lineno, each.name) for each in names if is_private(each.name))
            case ast.Call(func=func, args=[first, *_] as args) if _last(func) in _BY_TEXT:
                for each in args[:2]:
                    yield from self._by_text(each, first)
            case ast.Tuple(elts=[owner, name, _]):  # a change of the product, as those that plant bugs
                yield from self._by_text(name, owner)

    def _touched(self, value: ast.expr, name: str) -> bool:
        match value:
            case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")) if self._inherited is not None:
                return name in self._inherited
        return name not in self._own and not self._is_a_librarys(value)

    def _by_text(self, text: ast.expr, owner: ast.expr) -> Iterator[Touch]:
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            *path, name = text.value.split(".")
            of_the_product = path[0] in PRODUCT if path else not self._is_a_librarys(owner)
            if of_the_product and is_private(name) and name in self._product.names:
                yield Touch(text.lineno, name)

    def _is_a_librarys(self, value: ast.expr) -> bool:
        """True of `os`, `ray.x` and `lib.f().y`: it begins at a library's name."""
        while isinstance(value, ast.Attribute | ast.Call | ast.Subscript):
            value = value.func if isinstance(value, ast.Call) else value.value
        return isinstance(value, ast.Name) and value.id in self._libraries
