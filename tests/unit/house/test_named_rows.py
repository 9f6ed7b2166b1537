"""docs/conformance-nodes.md names what the simulation has: a row for each invariant and each planted bug."""

from __future__ import annotations

import re
from pathlib import Path

from tests import sim
from tests.conformance import read_checklists
from tests.sim.bugs import BUGS
from tests.sim.quorum import bugs as quorum_bugs

SIMULATION = Path(sim.__file__).parent
_FAILS = re.compile(r"""\.fail\(\s*"([a-z-]+)"|ViolationError\(f?"([a-z-]+)[:"]""")


def _invariants(folder: Path) -> set[str]:
    sources = [path.read_text() for path in folder.glob("*.py")]
    return {one or other for source in sources for one, other in _FAILS.findall(source)}


def test_each_invariant_and_each_planted_bug_has_a_row() -> None:
    cluster, quorum = _invariants(SIMULATION), _invariants(SIMULATION / "quorum")
    rows = [title.split("`")[1] for each, title in read_checklists().items() if each.startswith("N-F-")]
    assert len(cluster) > 20, "they are found in the source"
    assert len(quorum) > 8, "and so are these"
    assert sorted(rows) == sorted([*cluster, *BUGS, *quorum, *quorum_bugs.BUGS])
