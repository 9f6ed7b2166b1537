"""The leader of a quorum knows how far the other controllers are, and since when each lacks something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.controller.others import NodeState
from placement.metadata import ClusterSettings
from placement.records import (
    ClusterSettingsRecord,
)
from tests.support.quorum_world import QuorumWorld, ids, quorum_worlds


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., QuorumWorld]]:
    with quorum_worlds(tmp_path) as make:
        yield make


@pytest.mark.conformance("N-C-09")
def test_the_leader_knows_how_many_records_each_has_and_since_when_it_lacks_some(
    world: Callable[..., QuorumWorld],
) -> None:
    w = world(3)
    leader = w.elected()
    leader.append([*ids(7), *ids(8)], leader.next_epoch)
    w.run(1)
    end = leader.committed.version

    def seen() -> dict[int, NodeState]:
        return {each.node.id: each for each in leader.nodes()}

    assert [each.offset for each in leader.nodes()] == [end, end, end]
    assert [each.leads for each in leader.nodes()].count(True) == 1
    assert all(each.votes for each in leader.nodes())
    assert max(each.caught_up_ago_s or 0 for each in leader.nodes()) < 0.5
    away = next(node for node in w.logs if node != w.leader)
    w.cut = {away}
    leader.append(ids(9), leader.next_epoch)
    w.run(3)
    assert {node: each.offset for node, each in seen().items()} == {n: end + (n != away) for n in w.logs}
    heard, caught_up = seen()[away].heard_ago_s, seen()[away].caught_up_ago_s
    assert heard is not None
    assert caught_up is not None
    assert 3 <= heard < 4
    assert heard == caught_up
    w.cut = set()
    w.run(3)
    assert seen()[away].offset == end + 1
    assert all(not log.nodes() for node, log in w.logs.items() if node != w.leader), "only who leads knows"


@pytest.mark.conformance("N-C-09")
def test_records_in_a_snapshot_count_and_a_node_with_an_empty_disk_has_none(world: Callable[..., QuorumWorld]) -> None:
    w = world(2, snapshot_every=3)
    leader = w.elected()
    for number in range(8):
        leader.append(ids(number), leader.next_epoch)
    w.run(1)
    end = leader.committed.version
    assert [each.offset for each in leader.nodes()] == [end, end]
    w.open(3)
    w.run(3)
    observer = leader.nodes()[-1]
    assert (observer.node.id, observer.votes, observer.offset) == (3, False, end)
    w.cut = {3}
    for number in range(8):
        leader.append(ids(number), leader.next_epoch)
    w.run(1)
    assert leader.nodes()[-1].offset in (0, end), "what is only in the snapshot by now is not counted"


@pytest.mark.conformance("N-C-07")
def test_settings_that_have_committed_are_told_on_every_node(world: Callable[..., QuorumWorld]) -> None:
    w = world(3)
    leader = w.elected()
    w.changes.clear()
    leader.append([ClusterSettingsRecord(ClusterSettings({"a": "b"}))], leader.next_epoch)
    w.run(1)
    assert sorted(node for node, _, _ in w.changes) == [1, 2, 3]
    w.changes.clear()
    leader.append(ids(1), leader.next_epoch)
    w.run(1)
    assert w.changes == []
    assert all(log.committed.settings == ClusterSettings({"a": "b"}) for log in w.logs.values())
