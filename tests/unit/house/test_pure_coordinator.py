"""The coordinator has no clock, no socket and no thread."""

from __future__ import annotations

import ast
from pathlib import Path

import actors.coordinator


def test_the_coordinator_does_no_io() -> None:
    forbidden = {"asyncio", "socket", "time", "random", "ray", "uuid", "threading", "logging", "os"}
    folder = Path(actors.coordinator.__file__).parent
    imported = {
        (path.name, name.partition(".")[0])
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert imported
    assert {name for _, name in imported} & forbidden == set()
