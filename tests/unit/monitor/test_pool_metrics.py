"""The metrics of pools: those whose members are in groups of this cluster, and no others."""

from __future__ import annotations

from actors.coordinator.classic.records import GroupMetadata, MemberMetadata
from actors.links.pools import MemberFigures, PoolFigures
from actors.monitor.metric_table import BY_NAME
from actors.monitor.pool_metrics import pool_families

BILLING = PoolFigures(
    "b", "billing", (MemberFigures("b-0", 1_000, 2, 1, 8_000, 1_500), MemberFigures("b-1", 0, 0, 0, 0, 0))
)


def group(*instance_ids: str | None) -> GroupMetadata:
    members = tuple(
        MemberMetadata(f"m{number}", each, "c", "/h", 1, 1, b"", b"") for number, each in enumerate(instance_ids)
    )
    return GroupMetadata("consumer", 1, "range", None, 0, members)


def test_a_member_that_the_group_has_is_shown_with_its_figures() -> None:
    found = {name: list(rows) for name, rows in pool_families([BILLING], {"billing": group("b-0", None)})}
    assert found == {
        "coterie_pool_members": [(("billing",), 2.0)],
        "coterie_pool_member_handled_total": [(("billing", "b-0"), 1_000.0)],
        "coterie_pool_member_dead_letters_total": [(("billing", "b-0"), 2.0)],
        "coterie_pool_member_restarts_total": [(("billing", "b-0"), 1.0)],
        "coterie_pool_member_busy_seconds_total": [(("billing", "b-0"), 8.0)],
        "coterie_pool_member_handling_seconds": [(("billing", "b-0"), 1.5)],
    }
    for name, rows in found.items():
        assert {len(labels) for labels, _ in rows} == {len(BY_NAME[name].labels)}


def test_a_pool_of_another_kafka_is_not_shown() -> None:
    """It tells every cluster on its Ray. A group of the same name is not the same."""
    for groups in ({}, {"billing": None}, {"billing": group("other-0", None)}):
        assert not [rows for _, rows in pool_families([BILLING], groups) if rows]


def test_two_pools_of_one_group_are_counted_together() -> None:
    other = PoolFigures("c", "billing", (MemberFigures("c-0", 7, 0, 0, 0, 0),))
    found = dict(pool_families([BILLING, other], {"billing": group("b-0", "b-1", "c-0")}))
    assert found["coterie_pool_members"] == [(("billing",), 3.0)]
    assert list(found["coterie_pool_member_handled_total"]) == [
        (("billing", "b-0"), 1_000.0),
        (("billing", "b-1"), 0.0),
        (("billing", "c-0"), 7.0),
    ]
