"""Bugs planted on purpose, to prove that the invariants would find them. Product code knows nothing of them."""

from __future__ import annotations

from typing import Any

Changes = list[tuple[Any, str, Any]]

BUGS: dict[str, Any] = {}


def planted(name: str) -> Changes:
    """What to exchange in the product for a bug; nothing for no name. Raises KeyError."""
    return BUGS[name]() if name else []
