"""The notes on offsets partitions that sleep, and the choice of those to wake without a request."""

from __future__ import annotations

import pytest

from actors.broker.coordinators.sleeping import Sleeper, Sleeping
from actors.coordinator.groups.messages import MaySleepResponse

NOON = 1_700_000_000_000


def sleeping(**rests: MaySleepResponse) -> Sleeping:
    """Partitions p1, p2, ... that fell asleep at noon."""
    made = Sleeping()
    for name, rest in rests.items():
        made.add(int(name[1:]), Sleeper(5, NOON, rest, "offsets expire"))
    return made


def test_a_partition_is_due_when_something_expires() -> None:
    made = sleeping(p1=MaySleepResponse(due_ms=NOON + 10), p2=MaySleepResponse())
    assert made.due(NOON + 9) == []
    assert made.due(NOON + 10) == [1]
    made.drop(1)
    assert made.due(NOON + 10) == []


def test_deleted_topics_concern_a_partition_that_had_offsets_of_them_when_it_fell_asleep() -> None:
    made = sleeping(p1=MaySleepResponse(topics=("a", "b")), p2=MaySleepResponse(topics=("c",)))
    gone = frozenset(("a", "d"))
    assert (made.concerned(1, gone), made.concerned(2, gone)) == ({"a"}, set())
    assert made.concerned(3, gone) == gone, "it does not sleep: nobody knows what it has"


@pytest.mark.parametrize(
    ("due_ms", "text"),
    [
        (None, "since 2023-11-14 22:13:20Z, until asked"),
        (NOON + 60_000, "since 2023-11-14 22:13:20Z, until asked, or until offsets expire at 2023-11-14 22:14:20Z"),
        (2**63 - 1, "since 2023-11-14 22:13:20Z, until asked, or until offsets expire at 9999-12-31 00:00:00Z"),
    ],
)
def test_why_a_partition_sleeps_can_be_read(due_ms: int | None, text: str) -> None:
    assert Sleeper(5, NOON, MaySleepResponse(due_ms=due_ms), "offsets expire").why == text
