"""One module names what is Ray's own affair: `actors/runtime/ray_inside.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ray_inside import SOURCE, names

ROOT = Path(__file__).parent.parent.parent.parent
PRODUCT = ("actors", "coterie", "placement", "spark_bridge")
_TEXT = re.compile(r"\bray[./](\w+[./])*_|\b_raylet\b|\bRAY_[a-z]")
_WORDS = {"_temp_dir", "_system_config"}
_OF_OBJECTS = {name.name for name in names(SOURCE.read_text()) if name.of} | {"global_worker", "_private", "_raylet"}


def inside(tree: ast.Module) -> Iterator[int]:
    """The lines that name a private part of Ray's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = any(map(_is_inside, (alias.name for alias in node.names)))
        elif isinstance(node, ast.ImportFrom):
            found = any(_is_inside(f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute):
            found = node.attr in _OF_OBJECTS or _is_inside(ast.unparse(node))
        elif isinstance(node, ast.keyword):
            found = node.arg in _WORDS
        else:
            found = isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_TEXT.search(node.value))
        if found:
            yield node.lineno if not isinstance(node, ast.keyword) else node.value.lineno


def _is_inside(name: str) -> bool:
    first, *rest = name.split(".")
    return first == "ray" and any(each.startswith("_") and not each.startswith("__") for each in rest)


@pytest.mark.parametrize(
    "code",
    [
        "import ray._private.services",
        "from ray import _raylet",
        "from ray._common.usage import usage_lib",
        "from ray.data._internal.execution import operators",
        "ray._private.state.actors()",
        "actor._actor_id.hex()",
        "worker.global_worker.node",
        "ray.init(_temp_dir='/')",
        "logging.getLogger('ray._private.services')",
        "SCRIPT = '*/ray/_private/log_monitor.py'",
        "SETTINGS = {'RAY_event_stats': 'false'}",
    ],
)
def test_what_is_rays_own_affair_is_known_however_it_is_named(code: str) -> None:
    assert set(inside(ast.parse(code))) == {1}


@pytest.mark.parametrize("code", ["ray.util.x", "ray.get(self._serving)", "a._ray.over", "{'RAY_AUTH_MODE': 'token'}"])
def test_what_ray_promises_is_free(code: str) -> None:
    assert list(inside(ast.parse(code))) == []


def test_no_other_module_names_the_inside_of_ray() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        if path != SOURCE
        for line in inside(ast.parse(path.read_text()))
    ]
    assert found == []
