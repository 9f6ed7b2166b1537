"""A cluster that gets hardly any CPU for half a minute; the long form is `python -m tests.chaos --starve`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.starve import Hunger, starve


@pytest.mark.timeout(600)
def test_nobody_is_killed_and_no_member_expelled_while_the_machine_is_busy(tmp_path: Path) -> None:
    told: list[str] = []
    plan = Hunger(30.0, groups=8, brokers=1, config={"offsets.topic.num.partitions": "4"})
    survival = starve(plan, tmp_path, told.append)
    assert survival.killed == [], told
    assert survival.expelled == [], told
    assert survival.answered.keys() == {"heartbeat", "commit"}
