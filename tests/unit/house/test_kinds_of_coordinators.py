"""Hosts of coordinators know no topic and no hash: a kind of coordinator alone says them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.coordinator_kinds.table import KINDS
from placement import metadata

ROOT = Path(__file__).resolve().parents[3]
HOSTS = ("actors/broker", "actors/offsets_partition")
GENERIC = ("actors/broker/coordinators", "actors/offsets_partition")
TOPICS = {name for name, value in vars(metadata).items() if value in [kind.topic for kind in KINDS]}
HASHES = {kind.partition_of.__name__ for kind in KINDS}


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Each module that is imported, with each name that is imported of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def texts(tree: ast.AST) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def by_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_names_that_are_looked_for_are_there() -> None:
    assert {"OFFSETS_TOPIC"} == TOPICS
    assert {"partition_for_group"} == HASHES


@pytest.mark.parametrize("path", modules(*HOSTS), ids=by_name)
def test_a_kind_alone_names_its_topic_and_its_hash(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert {name for _, name in imported(tree)} & (TOPICS | HASHES) == set()
    assert not [text for text in texts(tree) for kind in KINDS if kind.topic in text]


@pytest.mark.parametrize("path", modules(*GENERIC), ids=by_name)
def test_what_hosts_any_kind_imports_none_of_them(path: Path) -> None:
    found = {f"{module}.{name}" for module, name in imported(ast.parse(path.read_text()))}
    allowed = ("actors.coordinator_kinds.kind.", "actors.coordinator_kinds.table.")
    kinds = {each for each in found if each.startswith("actors.coordinator_kinds") and not each.startswith(allowed)}
    assert kinds == set()
    assert not [each for each in found if each.startswith("actors.group_api")]


def test_kinds_differ_in_all_by_which_they_are_found() -> None:
    for what in ("name", "key_type", "topic"):
        assert len({getattr(kind, what) for kind in KINDS}) == len(KINDS), what
