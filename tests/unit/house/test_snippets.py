"""Python that the pages and the docstrings show. Each piece is type-checked against what the packages are now."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.support.readme import ROOT

_FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:(?:^ {4}.*)?\n)+", re.MULTILINE)
_CODE = re.compile(r"[=(]")

GIVEN = {
    "spark": "spark: SparkSession",
    "orders": "orders: DataFrame",
    "stream": "stream: GroupStream",
    "f": "from pyspark.sql import functions as f",
    "read_group": "from coterie import read_group",
    "GroupStream": "from coterie import GroupStream",
    "ConsumerPool": "from coterie import ConsumerPool",
    "cluster": "cluster: coterie.Cluster",
    "servers": "servers: str",
    "enrich": "def enrich(batch: dict[str, Any]) -> dict[str, Any]: return batch",
    "shard": "from actors.coordinator.group_types import GroupShard; shard: GroupShard",
    "arrived": "arrived: list[tuple[int, Any]]",
    "now": "from actors.coordinator.turn import Now; now: Now",
    "log": "import logging; log: logging.Logger",
    "about": "from actors.runtime.logs import about",
    "topic": "topic: str",
    "partition": "partition: int",
    "pid": "pid: int",
}
"""Names that a piece takes for granted, and how they come about."""
PRELUDE = ["import coterie", "from typing import Any", "from pyspark.sql import DataFrame, SparkSession"]
SETTINGS = """
[mypy]
check_untyped_defs = true
allow_redefinition = true
cache_dir = .mypy_cache/pages
disable_error_code = no-redef, var-annotated
follow_imports = silent
[mypy-ray.*,pyspark.*,raydp.*,pyarrow.*,confluent_kafka.*,numpy.*,aiokafka.*,cramjam.*,lz4.*,uvloop.*]
ignore_missing_imports = true
follow_imports = skip
"""


def pages() -> Iterator[tuple[str, str]]:
    """The blocks of a page, one after the other: they build on each other."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if found := _FENCED.findall(path.read_text()):
            yield path.stem, "\n".join(found)


def docstrings() -> Iterator[tuple[str, str]]:
    """The indented blocks of docstrings, each by itself, if they are Python."""
    for path in [
        *sorted((ROOT / "coterie").rglob("*.py")),
        *(p for room in ("actors", "spark_bridge", "placement") for p in sorted((ROOT / room).rglob("*.py"))),
    ]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for number, block in enumerate(_INDENTED.findall(ast.get_docstring(node) or "")):
                    code = textwrap.dedent(block)
                    if _CODE.search(code) and _is_python(code):
                        room = path.parent.name if path.stem == "__init__" else path.stem
                        yield f"{room}_{getattr(node, 'name', 'module')}_{number}", code


def _is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def _with_what_is_given(code: str) -> str:
    nodes = list(ast.walk(ast.parse(code)))
    made: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            made |= {alias.asname or alias.name: node.lineno for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made[node.id] = min(node.lineno, made.get(node.id, node.lineno))
    names = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    missing = {node.id for node in names if node.lineno < made.get(node.id, sys.maxsize)}
    return "\n".join([*PRELUDE, *(GIVEN[name] for name in GIVEN if name in missing), code])


def test_what_pages_and_docstrings_show_is_right(tmp_path: Path) -> None:
    pieces = dict([*pages(), *docstrings()])
    assert {"README", "pools", "spark", "coterie_module_0", "pool_module_0", "stream_module_0"} <= set(pieces)
    for name, code in pieces.items():
        (tmp_path / f"piece_{name}.py").write_text(_with_what_is_given(code))
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", f"--config-file={tmp_path}/mypy.ini", *map(str, sorted(tmp_path.glob("*.py")))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
