"""Replication under faults, many seeds; and proof that the simulation would notice if its rules were broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.controller.decisions import elections
from actors.log.replication import FollowerReplica, LeaderReplica, Push
from actors.wire.errors import ErrorCode
from placement import together
from placement.metadata import PartitionInfo, changed
from tests.support import replication_simulator
from tests.support.replication_broker import SimBroker, ViolationError
from tests.support.replication_simulator import World, run

SEEDS = 60
SEEDS_TO_FIND_A_BUG = 400

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_acknowledged_records_survive_and_logs_agree(first: int) -> None:
    for seed in range(first, first + 20):
        try:
            run(seed)
        except ViolationError as violation:
            pytest.fail(f"{violation}; see PYTHONPATH=. python -m tests.support.replication_simulator {seed}")


def test_the_same_seed_is_the_same_run() -> None:
    one, other = run(7), run(7)
    assert one.acknowledged == other.acknowledged
    assert one.acknowledged
    assert (one.elections, one.refused_zombies) == (other.elections, other.refused_zombies)


def test_zombies_and_elections_do_occur() -> None:
    worlds = [run(seed) for seed in range(10)]
    assert sum(world.elections for world in worlds) > 20
    assert sum(world.refused_zombies for world in worlds) > 0


# --- planted bugs -----------------------------------------------------------------------------------------------


def followers_take_pushes_of_older_leaders(patch: pytest.MonkeyPatch) -> None:
    original = FollowerReplica.on_push

    def on_push(self: FollowerReplica, push: Push, now_ms: int) -> Any:
        self.epoch = min(self.epoch, push.leader_epoch)
        return original(self, push, now_ms)

    patch.setattr(FollowerReplica, "on_push", on_push)


def the_watermark_is_the_leaders_own_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderReplica, "advance", lambda self: self.log.advance_high_watermark(self.log.log_end_offset))


def the_watermark_waits_for_one_follower_only(patch: pytest.MonkeyPatch) -> None:
    def advance(self: LeaderReplica) -> bool:
        acked = [self.acknowledged(follower)[1] for follower in self.followers]
        return self.log.advance_high_watermark(max(acked, default=0))

    patch.setattr(LeaderReplica, "advance", advance)


def anybody_alive_is_elected(patch: pytest.MonkeyPatch) -> None:
    def elect(partition: PartitionInfo, alive: frozenset[int], *, unclean: bool = False) -> PartitionInfo:
        living = [replica for replica in partition.replicas if replica in alive]
        isr = tuple(r for r in partition.isr if r in alive) or tuple(living[:1]) or partition.isr
        leader = living[0] if living else -1
        return changed(partition, leader=leader, leader_epoch=partition.leader_epoch + 1, isr=isr)

    patch.setattr(together, "elect", elect)


def followers_do_not_compare_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FollowerReplica, "_matches", lambda self, push: push.base_offset <= self.log.log_end_offset)


def followers_keep_what_differs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FollowerReplica, "parting_at", lambda self, push: None)


def a_removal_counts_before_it_is_recorded(patch: pytest.MonkeyPatch) -> None:
    def counted(self: LeaderReplica) -> frozenset[int]:
        return self.isr & self.proposed if self.proposed is not None else self.isr

    patch.setattr(LeaderReplica, "counted", property(counted))


def a_joiner_counts_only_once_it_is_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderReplica, "counted", property(lambda self: self.isr))


def replicas_join_before_they_have_caught_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderReplica, "_may_join", lambda self, broker, each: broker not in self.isr and each.connected)


def the_controller_records_whatever_a_leader_proposes(patch: pytest.MonkeyPatch) -> None:
    def judge(metadata: Any, partition: PartitionInfo, broker_id: int, asked: Any) -> ErrorCode:
        return ErrorCode.NONE if partition.leader == broker_id else ErrorCode.FENCED_LEADER_EPOCH

    patch.setattr(elections, "_judge", judge)


def torn_logs_count_as_whole(patch: pytest.MonkeyPatch) -> None:
    original = elections.broker_registered

    def registered(metadata: Any, broker_id: int, *, intact: bool, config: Any) -> Any:
        return original(metadata, broker_id, intact=True, config=config)

    patch.setattr(replication_simulator, "broker_registered", registered)


def who_is_eligible_to_lead_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    original = PartitionInfo.__init__

    def init(self: PartitionInfo, *fields: Any, **named: Any) -> None:
        original(self, *fields, **named)
        object.__setattr__(self, "elr", ())

    patch.setattr(PartitionInfo, "__init__", init)


def produce_does_not_wait_for_the_watermark(patch: pytest.MonkeyPatch) -> None:
    original = SimBroker.produce

    def produce(self: SimBroker, value: bytes) -> None:
        original(self, value)
        for waiting in self.waiting:
            self.world.acknowledged.update(dict.fromkeys(range(waiting.base, waiting.next_offset), waiting.value))

    patch.setattr(SimBroker, "produce", produce)


def the_watermark_moves_with_too_few_in_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "min_insync", 1)


PLANTS: list[Plant] = [
    followers_take_pushes_of_older_leaders,
    the_watermark_is_the_leaders_own_end,
    the_watermark_waits_for_one_follower_only,
    anybody_alive_is_elected,
    followers_do_not_compare_epochs,
    followers_keep_what_differs,
    a_removal_counts_before_it_is_recorded,
    a_joiner_counts_only_once_it_is_recorded,
    replicas_join_before_they_have_caught_up,
    the_controller_records_whatever_a_leader_proposes,
    torn_logs_count_as_whole,
    who_is_eligible_to_lead_is_not_remembered,
    produce_does_not_wait_for_the_watermark,
    the_watermark_moves_with_too_few_in_sync,
]


KNOWN = {
    followers_take_pushes_of_older_leaders: 61,
    the_controller_records_whatever_a_leader_proposes: 77,
    a_joiner_counts_only_once_it_is_recorded: 383,
}
"""The first seed that finds what few seeds find. A change makes it another run: then a later one may."""


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    first = KNOWN.get(plant, 0)
    for seed in range(first, first + SEEDS_TO_FIND_A_BUG):
        try:
            run(seed)
        except ViolationError:
            return
        except Exception:  # a log that is asked for the impossible says so
            return
    pytest.fail(f"not found in {SEEDS_TO_FIND_A_BUG} seeds")
