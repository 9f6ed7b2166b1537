"""Every kind of fault once, under load; the long form is `make chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import Plan, run

EVERY_KIND = (
    "of a shard",
    "of a broker",
    "pool's member",
    "of the controller",
    "pool's supervisor",
    "new version",
    "shard stopped",
    "broker stopped",
    "everything",
)


@pytest.mark.timeout(400)
def test_nothing_acknowledged_is_lost_whatever_is_killed_or_stopped(tmp_path: Path) -> None:
    told: list[str] = []
    outcome = run(Plan(0.0, committers=20, pause_s=(1.0, 3.0), faults=EVERY_KIND), tmp_path, told.append)
    assert outcome.violations == [], told
    assert sum(outcome.faults.values()) == len(EVERY_KIND)
    assert outcome.records_acked > 100
    assert outcome.commits_acked > 100
    assert outcome.double_owners == 0
    assert outcome.two_at_once == 0
    assert outcome.set_aside > 0, "records that end their process"
