"""A guest beside a log acknowledges the writes that have committed there, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.records.building import build_keyed_batch
from actors.wire.errors import ErrorCode
from tests.support.counter_guest import COUNTER, TOPIC, Fetched, Increment, Incremented
from tests.support.counter_world import THREE, World


def test_an_answer_waits_for_the_watermark(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a")
    assert world.replication.appends == [(TOPIC, 0)]
    assert world.answers() == []
    assert world.ask(Fetched()) == (0, 0), "nobody is told of what has not committed"
    world.commit()
    assert world.answers() == [(0, 1)]
    assert world.ask(Fetched()) == (0, 1)


def test_all_of_a_turn_share_an_append(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a", "b", "c")
    assert world.replication.appends == [(TOPIC, 0)]
    assert world.log_end() == 3


def test_a_turn_that_is_too_large_for_one_batch_has_several(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    world.increment(*(f"{number}-" + "x" * 400_000 for number in range(5)))
    assert world.answers() == [(0, number) for number in range(1, 6)]
    assert world.read_back().count == 5


def test_what_is_refused_is_taken_back_and_the_count_has_no_gap(tmp_path: Path) -> None:
    world = World(tmp_path, THREE, min_insync_replicas="2")
    world.begin()
    world.elect(TOPIC, isr=(0,))
    world.increment("a", "b")
    assert world.answers() == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)] * 2
    assert world.log_end() == 0
    world.elect(TOPIC, isr=(0, 1))
    world.increment("c")
    world.commit()
    assert world.answers() == [(0, 1)]


def test_after_a_refusal_the_rest_of_the_turn_is_refused_because_it_may_depend_on_what_was(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    world.increment("x" * 1_100_000, "b")  # more than a batch may have
    assert world.answers() == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)] * 2
    world.increment("c")
    assert world.answers() == [(0, 1)]


@pytest.mark.parametrize("change", [{"leader": 1}, {"leader_epoch": 9}])
def test_a_leader_that_is_none_any_more_writes_nothing(tmp_path: Path, change: dict[str, Any]) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.elect(TOPIC, **change)  # and the guest has not heard of it yet
    world.increment("a")
    assert world.answers() == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)]
    assert world.log_end() == 0


def test_a_zombie_of_the_state_partition_writes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    assert world.ask(Increment("a")) is None
    world.replication.leading = False
    world.loop.turn()
    assert world.answers() == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)]
    assert world.log_end() == 0


def written_over(world: World) -> None:
    """The next leader has pushed: it lacked what was written here, and has records of its own, which have committed."""
    world.replication.leading = False
    log = world.context.log(TOPIC, 0)
    log.truncate_to(0)
    key, value = COUNTER.codec.encode(Incremented("another's", 1))
    log.append_as_leader(build_keyed_batch([key], [value], 0), 4, 0, internal=True)
    log.advance_high_watermark(1)


def test_what_another_leader_has_written_over_is_not_acknowledged(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a")
    written_over(world)
    world.replication.leading = True  # of the data
    assert world.ask(Increment("b")) is None
    world.replication.leading = False
    world.loop.turn()
    assert world.answers() == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)], "b alone: nothing is known of a"


def test_the_watermark_of_a_later_epoch_acknowledges_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a")
    written_over(world)
    world.replication.leading = True
    world.elect("t", leader_epoch=5)
    world.elect(TOPIC, leader_epoch=5)
    world.context.commits.tell(TOPIC, 0, 1)  # replication takes the image over first
    assert world.answers() == []
    world.image()
    assert world.answers() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)]
    assert world.ask(Fetched()) == (0, 1)


def test_a_guest_does_not_begin_with_what_another_leader_has_written_over_meanwhile(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a")
    world.elect_both(0, 3)
    world.answers()
    written_over(world)
    world.context.commits.tell(TOPIC, 0, 1)
    world.replication.leading = True  # of the data
    world.elect(TOPIC, leader=1, leader_epoch=4)
    assert world.ask(Fetched()) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)


def test_a_guest_that_was_loaded_while_the_lease_was_over_begins_when_it_is_asked(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a")
    world.commit()
    world.answers()
    world.replication.leading = False
    world.elect_both(0, 3)
    world.replication.leading = True
    assert world.ask(Fetched()) == (0, 1)


def test_a_late_write_is_answered_15_and_stays_pending_until_it_is_known(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a")
    world.loop.advance(2.1)
    assert world.answers() == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)]
    world.increment("b")
    world.commit()
    assert world.answers() == [(0, 2)], "the first was written after all"
    assert world.ask(Fetched()) == (0, 2)


def test_after_a_repair_live_state_is_dropped_and_the_log_says_what_holds(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a")
    world.commit()
    world.increment("b")
    assert world.answers() == [(0, 1)]
    world.context.log(TOPIC, 0).truncate_to(1)  # lost by the disk
    world.guests.reload(TOPIC, 0)
    world.read()
    assert world.answers() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)]
    assert world.ask(Fetched()) == (0, 1)
    world.increment("c")
    world.commit()
    assert world.answers() == [(0, 2)]


def test_what_was_written_in_the_turn_of_an_election_is_dropped(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    assert world.ask(Increment("a")) is None
    world.elect_both(1, 5)
    world.loop.turn()
    assert world.answers() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)]
    assert world.log_end() == 0


def test_the_stop_of_the_broker_ends_all(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a")
    world.guests.close()
    world.commit()
    assert world.answers() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)]
