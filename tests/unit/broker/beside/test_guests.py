"""A guest beside a log, a counter, lives with its partition's leader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.broker.beside.seat import RETRY_SECONDS
from actors.broker.fetches import ParkedFetch
from actors.records.building import build_keyed_batch
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER
from placement.records import RemoveTopicRecord
from tests.support.counter_guest import COUNTER, FETCHES_EVERY_MS, TOPIC, Announce, Fetched, FetchesCounted, Incremented
from tests.support.counter_world import ALONE, THREE, World

# --- the life of a guest ----------------------------------------------------------------------------------------


def test_nothing_is_made_for_a_guest_that_nobody_asks_for(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.image()
    assert TOPIC not in world.metadata.topics
    assert world.controller.operations == []


def test_the_first_question_has_the_pair_made_and_the_next_is_answered(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    assert world.metadata.pairs.states_of(world.metadata.topics["t"].id, 0) == ((TOPIC, 0),)
    assert world.metadata.topics[TOPIC].configs == {"retention.ms": "-1"}
    assert world.ask(Fetched()) == (0, 0)
    assert world.controller.operations == ["create_state_partition"]


def test_the_controller_is_asked_once_at_a_time_and_again_after_an_error(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.controller.prompt = False
    for _ in range(3):
        assert world.ask(Fetched()) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    assert len(world.controller.calls) == 1
    world.controller.fail("the connection to the controller was lost")
    world.ask(Fetched())
    assert len(world.controller.calls) == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"leader": 1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"leader": NO_LEADER}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_only_the_leader_is_asked(tmp_path: Path, changes: dict[str, Any], code: ErrorCode) -> None:
    world = World(tmp_path, THREE)
    world.elect("t", **changes)
    assert world.ask(Fetched()) == (code, None)
    assert world.ask(Fetched(), index=7) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert world.controller.operations == []


def test_a_leader_whose_lease_is_over_asks_no_guest(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.replication.leading = False
    assert world.ask(Fetched()) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def test_a_guest_begins_with_what_the_log_has(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    world.increment("a", "b")
    assert world.answers() == [(0, 1), (0, 2)]
    world.elect_both(0, 5)
    assert world.ask(Fetched()) == (0, 2)
    world.increment("c")
    assert world.answers() == [(0, 3)]


def test_while_it_loads_it_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    world.increment("a")
    world.elect("t", leader_epoch=5)
    world.guests.apply()
    assert world.ask(Fetched()) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    world.read()
    assert world.ask(Fetched()) == (0, 1)


def test_what_has_not_committed_is_waited_for_because_another_leader_could_lack_it(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a")
    world.elect_both(0, 5)
    assert world.answers() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)]
    assert world.ask(Fetched()) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    world.commit()
    assert world.ask(Fetched()) == (0, 1)


def test_a_log_of_many_pieces_is_replayed_in_its_order(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    for number in range(30):
        world.increment(f"{number}-" + "x" * 50_000)
    assert world.answers()[-1] == (0, 30)
    world.elect("t", leader_epoch=5)
    world.guests.apply()
    pieces = 0
    while world.loop.jobs:
        assert len(world.loop.jobs) == 1
        world.loop.end_job()
        pieces += 1
    assert pieces > 3
    assert world.ask(Fetched()) == (0, 30)


def test_another_leader_ends_it_and_what_is_read_for_it_still_is_dropped(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.increment("a")
    world.commit()
    world.answers()
    world.elect("t", leader_epoch=5)
    world.guests.apply()
    world.elect_both(1, 6)
    assert world.ask(Fetched()) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    world.elect_both(0, 7)
    assert world.ask(Fetched()) == (0, 1)


def test_it_does_not_live_where_its_state_is_led_by_nobody(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.elect(TOPIC, leader=NO_LEADER, leader_epoch=1)
    world.image()
    assert world.ask(Fetched()) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    assert world.controller.operations == ["create_state_partition"], "the pair is there"


def test_a_topic_of_the_same_name_has_another_guest(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    world.increment("a")
    assert world.answers() == [(0, 1)]
    world.metadata.apply(RemoveTopicRecord("t"))
    world.image()
    world.topic("t", ALONE, topic_id=77)
    world.begin()
    assert world.ask(Fetched()) == (0, 0)
    assert world.metadata.pairs.states_of(world.metadata.topics["t"].id, 0) == ((TOPIC, 1),)


# --- a log that cannot be read ----------------------------------------------------------------------------------


def test_a_leader_whose_state_log_has_a_strange_record_answers_15_and_tries_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    world.increment("a")
    world.answers()
    log = world.context.log(TOPIC, 0)
    log.append_as_leader(build_keyed_batch([b"strange"], [b"1"], 0), 0, 0, internal=True)
    log.advance_high_watermark(log.log_end_offset)
    world.elect_both(0, 5)
    assert world.ask(Fetched()) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    assert world.led.leads("t", 0, world.metadata.topics["t"].partitions[0]), "the data is served"
    log.truncate_to(1)
    world.loop.advance(RETRY_SECONDS)
    world.read()
    assert world.ask(Fetched()) == (0, 1)


def test_a_leader_whose_disk_cannot_read_the_state_answers_15_and_tries_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    world.increment("a")
    world.answers()
    path = next(world.context.log(TOPIC, 0).directory.glob("*.log"))
    kept = path.read_bytes()

    def read(data: bytes) -> None:
        """Begin to read, and have the file hold this when the thread comes to it."""
        path.write_bytes(data)
        world.read()
        path.write_bytes(kept)

    world.elect("t", leader_epoch=5)
    world.guests.apply()
    for _ in range(2):
        read(b"")
        assert world.ask(Fetched()) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        assert world.led.leads("t", 0, world.metadata.topics["t"].partitions[0]), "the data is served"
        world.loop.advance(RETRY_SECONDS)
    read(kept)
    assert world.ask(Fetched()) == (0, 1)


# --- fetches and time -------------------------------------------------------------------------------------------


def test_a_guest_is_woken_by_its_timer_and_what_it_writes_then_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    for _ in range(3):
        world.ask(Fetched())
    assert world.log_end() == 0
    world.loop.advance(FETCHES_EVERY_MS / 1000 + 0.01)
    world.loop.turn()
    assert world.read_back().fetches == 3
    world.elect_both(0, 5)
    world.ask(Fetched())
    world.loop.advance(FETCHES_EVERY_MS / 1000 + 0.01)
    world.loop.turn()
    assert world.read_back().fetches == 4


@pytest.mark.parametrize("begun_ms", range(701, 1701, 100))
def test_a_timer_that_comes_a_moment_early_by_rounding_does_not_spin(tmp_path: Path, begun_ms: int) -> None:
    world = World(tmp_path)
    world.loop.now = begun_ms / 1000
    world.begin()
    world.ask(Fetched())
    for _ in range(2):
        (timer,) = world.loop.timers
        world.loop.now = timer.when
        world.loop.advance(0)
        assert all(each.when > world.loop.now for each in world.loop.timers)
        if not world.loop.timers:
            break
    world.loop.turn()
    assert world.read_back().fetches == 1


def test_the_timer_of_a_guest_that_has_gone_does_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    world.ask(Fetched())
    world.elect_both(1, 5)
    world.loop.advance(10)
    assert world.log_end() == 0


def test_an_answer_that_depends_on_no_record_leaves_at_once_and_parked_fetches_try_again(tmp_path: Path) -> None:
    world = World(tmp_path, THREE)
    world.begin()
    tries: list[bool] = []
    parked = ParkedFetch(lambda last: tries.append(last) or False, [("t", 0)], world.connection)
    world.context.fetches.park(parked, 10_000)
    assert world.ask(Announce()) == (0, 0)
    world.loop.turn()
    world.loop.turn()
    assert tries == [False]
    assert world.log_end() == 1, "its record is written nevertheless"


def test_records_of_the_counter_survive_their_codec() -> None:
    for record in (Incremented("a b", 3), FetchesCounted(9)):
        assert COUNTER.codec.decode(*COUNTER.codec.encode(record)) == record
