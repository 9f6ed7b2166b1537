"""The README's code as tests run it: blocks by heading, in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """The text between two fences."""

    language: str
    code: str


def blocks(heading: str) -> list[Block]:
    """The blocks below a heading of the second level."""
    _, found, rest = (ROOT / "README.md").read_text().partition(f"\n## {heading}\n")
    assert found, heading
    return [Block(*each) for each in _FENCED.findall(rest.partition("\n## ")[0])]


def replaced(code: str, changes: dict[str, str]) -> str:
    """The code with some of its words changed; each of them must stand there."""
    for old, new in changes.items():
        assert old in code, (old, code)
        code = code.replace(old, new)
    return code
