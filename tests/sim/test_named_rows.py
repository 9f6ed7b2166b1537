"""docs/conformance-nodes.md names what the simulation has: a row for each invariant and each planted bug."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conformance import read_checklists
from tests.sim.bugs import BUGS

_FAILS = re.compile(r"""\.fail\(\s*"([a-z-]+)"|ViolationError\(f"([a-z-]+): """)


def test_each_invariant_and_each_planted_bug_has_a_row() -> None:
    sources = [path.read_text() for path in Path(__file__).parent.glob("*.py")]
    invariants = {one or other for source in sources for one, other in _FAILS.findall(source)}
    rows = [title.split("`")[1] for each, title in read_checklists().items() if each.startswith("N-F-")]
    assert len(invariants) > 20, "they are found in the source"
    assert sorted(rows) == sorted([*invariants, *BUGS])
