"""Code reads clocks that it was handed: no test can move a clock that is read inline.

The linter's contract `handed-in` forbids modules to import `time`, and knows nothing of the ways around it: the dates
of `datetime`, and the real clock that the environment has. Those are looked for here.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OF_DATES = {"now", "utcnow", "today"}
MAY_READ = re.compile(r"\b(now|utcnow|today)\(|\bREAL\b")
NOT_YET = {"actors/members"}
"""Rooms that may still call the real clock where they stand."""


def rooms() -> list[str]:
    """The rooms that the contract is for, as paths."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (modules,) = [contract["source_modules"] for contract in contracts if contract["id"] == "handed-in"]
    return [module.replace(".", "/") for module in modules]


def sources(room: str) -> list[Path]:
    """The files of a package or of a module."""
    path = ROOT / room
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def dotted(node: ast.expr) -> list[str]:
    """The parts of `a.b.c`; empty for anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return [*before, node.attr]
    return []


def inline_reads(source: str, *, may_call_the_real_one: bool = False) -> Iterator[str]:
    """The places that read a clock that nobody has handed in, or that take one to read it later."""
    if not MAY_READ.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        read: list[str] = []
        if isinstance(node, ast.Call):
            read = dotted(node.func)
        elif isinstance(node, ast.Assign):
            read = [*dotted(node.value), "…"]
        match read:
            case [*_, "datetime" | "date", name] if name in OF_DATES:
                yield f"{node.lineno}: {'.'.join(read)}"
            case ["REAL", "clock", _] if not may_call_the_real_one:
                yield f"{node.lineno}: {'.'.join(read)}"


@pytest.mark.parametrize("room", rooms())
def test_no_clock_is_read_inline(room: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{read}"
        for path in sources(room)
        for read in inline_reads(path.read_text(), may_call_the_real_one=room in NOT_YET)
    }
    assert found == set()


def test_all_rooms_but_the_machines_are_under_the_contract() -> None:
    packages = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "actors").glob("*/__init__.py")}
    modules = {f"actors/{path.stem}" for path in (ROOT / "actors").glob("*.py")} - {"actors/__init__"}
    all_rooms = packages | modules | {"coterie", "placement", "spark_bridge"}
    assert all_rooms - {*rooms()} == {"actors/runtime"}, "which has the clocks"


@pytest.mark.parametrize(
    "read", ["datetime.now(UTC)", "datetime.datetime.utcnow()", "date.today()", "REAL.clock.monotonic()"]
)
def test_a_read_within_a_function_is_found(read: str) -> None:
    assert list(inline_reads(f"def look():\n    return {read}\n")) == [f"2: {read.partition('(')[0]}"]


def test_a_clock_that_nobody_handed_in_is_no_local_variable() -> None:
    assert list(inline_reads("def look():\n    clock = REAL.clock\n    return clock.wall_ms()\n")) == [
        "2: REAL.clock.…"
    ]


def test_a_clock_that_is_handed_on_is_no_read() -> None:
    given = (
        "def look(monotonic=REAL.clock.monotonic, clock=REAL.clock):\n    return Part(clock, REAL.clock), monotonic()\n"
    )
    assert list(inline_reads(given)) == []
