"""In sound clusters a chaos run's log reader and members write down events in which the judge finds no fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import coterie.testing
from coterie.testing import Cluster
from tests.chaos.history import History, judge
from tests.chaos.members import CONSUMER, ConfluentMember, OwnMember, Role
from tests.chaos.ownership import OwnershipWatcher
from tests.support.one_process import wait_until

MEMBERS = {"own": OwnMember, "confluent": ConfluentMember}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with coterie.testing.cluster() as made:
        yield made


@pytest.mark.parametrize("kind", MEMBERS)
def test_what_a_member_has_heard_is_what_was_written_before(kind: str, cluster: Cluster, tmp_path: Path) -> None:
    group, servers, history = f"group-of-{kind}", cluster.bootstrap_servers, History(tmp_path / "history")
    topic = cluster.create_topic(partitions=2)
    member = MEMBERS[kind](kind, history, servers, topic, Role(group, (CONSUMER,)))
    watcher = OwnershipWatcher("watcher", history, servers, {group})

    def noted(event: str) -> list[dict[str, Any]]:
        return [each for each in history.read() if each["event"] == event]

    watcher.start()
    member.start()
    wait_until(lambda: bool(noted("heard") and noted("holds")), what="an epoch that is written and heard")
    member.stop()
    member.join(30)
    wait_until(lambda: bool(noted("ended")), what="the end of the membership")
    watcher.stop()
    watcher.join(30)

    heard, (ended,) = noted("heard"), noted("ended")
    steps = {(each["member"], each["epoch"]): each for each in noted("holds")}
    for each in heard:
        assert steps[each["member"], each["epoch"]]["written"] <= each["at"]
    assert {each["member"] for each in heard} == {ended["member"]}
    assert heard[0]["at"] <= ended["written"] + 0.001  # records have whole milliseconds
    assert ended["written"] <= ended["at"]
    assert judge(history.read()).violations == []
    history.close()
