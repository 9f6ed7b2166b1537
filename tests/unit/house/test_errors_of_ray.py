"""Ray's errors have tracebacks of its workers in their text. Where we hand one on, it is one line (`last_line`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent
STARTS_ACTORS = "actors.members.pools.consumer_actor"
ASKS_ACTORS = "actors.controller.driver_ray"
SHOWN_BY = ("log.", "warnings.", "str", "repr")


def _imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, node.module.partition(".")[0]}
    return found


def _handlers(tree: ast.Module) -> Iterator[ast.ExceptHandler]:
    """The handlers that an error of Ray's may come to, and that give it a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name and node.type is not None:
            kinds = ast.unparse(node.type)
            if "Ray" in kinds or "ray." in kinds or kinds in ("Exception", "BaseException"):
                yield node


def _shown_whole(handler: ast.ExceptHandler) -> Iterator[int]:
    """The lines that show the error as it is: in a log, as text, or in the text of another error."""
    for node in ast.walk(handler):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(SHOWN_BY):
            if any(isinstance(each, ast.Name) and each.id == handler.name for each in node.args):
                yield node.lineno
        elif isinstance(node, ast.FormattedValue) and ast.unparse(node.value) == handler.name:
            yield node.lineno


def test_nobody_is_shown_the_traceback_of_a_process_of_rays() -> None:
    """A pool whose members could not start logged Ray's whole traceback four times."""
    found = []
    for path in [*(ROOT / "actors").rglob("*.py"), *(ROOT / "spark_bridge").rglob("*.py")]:
        tree = ast.parse(path.read_text())
        if _imported(tree) & {"ray", STARTS_ACTORS, ASKS_ACTORS}:
            found += [f"{path.relative_to(ROOT)}:{line}" for each in _handlers(tree) for line in _shown_whole(each)]
    assert found == []
