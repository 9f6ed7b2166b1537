"""Every broad `except` states a reason: without one it turns a bug into an answer."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BROAD = {"Exception", "BaseException"}
MAY_BE_BROAD = re.compile(r"\b(Base)?Exception\b|\bexcept\s*:")
DIRECTIVE = re.compile(r"#\s*(noqa|type:\s*ignore|pragma)[^#]*")
FEWEST_WORDS = 2


def is_broad(caught: ast.expr | None) -> bool:
    """True if this catches everything: nothing at all, or one of the two names, alone or among others."""
    if isinstance(caught, ast.Tuple):
        return any(map(is_broad, caught.elts))
    return caught is None or (isinstance(caught, ast.Name) and caught.id in BROAD)


def broad_places(tree: ast.AST) -> Iterator[int]:
    """The lines where everything is caught, or suppressed."""
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(type=caught) if is_broad(caught):
                yield node.lineno
            case ast.Call(func=ast.Name("suppress") | ast.Attribute(attr="suppress"), args=args):
                if any(map(is_broad, args)):
                    yield node.lineno


def reasons(source: str) -> set[int]:
    """The lines that a comment gives a reason for: its own, and the next if nothing else stands before it."""
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and len(DIRECTIVE.sub("", token.string).strip("# ").split()) >= FEWEST_WORDS:
            stands_alone = token.line.lstrip().startswith("#")
            found.add(token.start[0] + stands_alone)
    return found


def without_a_reason(source: str) -> list[int]:
    if not MAY_BE_BROAD.search(source):
        return []
    return sorted({*broad_places(ast.parse(source))} - reasons(source))


@pytest.mark.parametrize("room", ["actors", "placement", "spark_bridge", "coterie"])
def test_each_broad_except_says_why_it_is_there(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for line in without_a_reason(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "caught", ["except:", "except Exception:", "except BaseException as error:", "except (OSError, Exception):"]
)
def test_a_broad_except_needs_a_reason(caught: str) -> None:
    handler = f"try:\n    work()\n{caught}%s\n    pass  # because of that\n"
    assert without_a_reason(handler % "") == [3]
    assert without_a_reason(handler % "  # noqa: E722") == [3], "for a linter, and no reason"
    assert without_a_reason(handler % "  # Ray raises many kinds") == []


def test_a_reason_may_stand_above() -> None:
    assert without_a_reason("# Ray raises many kinds\nwith contextlib.suppress(Exception):\n    work()\n") == []
    assert without_a_reason("work()  # of Ray's own\nwith suppress(Exception):\n    work()\n") == [2]


def test_what_catches_some_errors_needs_none() -> None:
    assert without_a_reason("try:\n    work()\nexcept (OSError, ray.Exception):\n    pass\n") == []
