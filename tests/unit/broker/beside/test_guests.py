"""Guests beside logs: a counter that lives with a partition's leader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.broker.beside.guest import Place
from actors.broker.beside.seat import RETRY_SECONDS
from actors.broker.fetches import ParkedFetch
from actors.records.building import build_keyed_batch
from actors.records.reading import iter_key_values
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, PartitionInfo
from placement.records import METADATA_LEVELS, METADATA_VERSION, PartitionRecord, RemoveTopicRecord
from tests.support.counter_guest import (
    COUNTER,
    FETCHES_EVERY_MS,
    TOPIC,
    Announce,
    Counter,
    Fetched,
    FetchesCounted,
    Increment,
    Incremented,
)
from tests.support.handler_helpers import Broker, led_by

ALONE = led_by(0)
THREE = PartitionInfo(0, 0, (0, 1, 2), (0, 1, 2))


class World(Broker):
    """A broker that leads t-0 and has counters; the test has its logs commit."""

    def __init__(self, path: Path, partition: PartitionInfo = ALONE, **settings: str) -> None:
        super().__init__(path, brokers=len(partition.replicas), guests=(COUNTER,), **settings)
        self.metadata.features[METADATA_VERSION] = METADATA_LEVELS[-1]  # as a new cluster's
        self.topic("t", partition)
        self.guests = self.handlers.guests
        self.made: list[Counter] = []
        self.told: list[tuple[int, Any]] = []

    def ask(self, question: Any, index: int = 0) -> tuple[int, Any] | None:  # type: ignore[override]
        """The answer, if it came at once; all that are late stand in `told`."""
        before = len(self.told)
        self.guests.ask("counter", "t", index, question, lambda code, answer: self.told.append((int(code), answer)))
        return self.told.pop() if len(self.told) > before else None

    def increment(self, *names: str) -> None:
        """Count in one turn, and end the turn."""
        for name in names:
            assert self.ask(Increment(name)) is None
        self.loop.turn()

    def answers(self) -> list[tuple[int, Any]]:
        told, self.told = self.told, []
        return told

    def begin(self) -> None:
        """Ask once, so that the pair is made, and let the guest begin."""
        assert self.ask(Fetched()) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        self.image()

    def image(self) -> None:
        """The controller's image has come; the logs it makes readable are read."""
        self.guests.apply()
        self.read()

    def read(self) -> None:
        while self.loop.jobs:
            self.loop.end_job()

    def elect(self, topic: str, **changes: Any) -> None:
        """Something about a partition is another now."""
        before = self.metadata.topics[topic].partitions[0]
        self.metadata.apply(PartitionRecord(topic, 0, replace(before, **changes)))

    def elect_both(self, leader: int, epoch: int) -> None:
        self.elect("t", leader=leader, leader_epoch=epoch)
        self.elect(TOPIC, leader=leader, leader_epoch=epoch)
        self.image()

    def commit(self) -> None:
        """The followers have all of the state partition."""
        log = self.context.log(TOPIC, 0)
        log.advance_high_watermark(log.log_end_offset)
        self.context.commits.tell(TOPIC, 0, log.high_watermark)

    def log_end(self) -> int:
        return self.context.log(TOPIC, 0).log_end_offset

    def read_back(self) -> Counter:
        """A counter that has replayed the log, as a new leader's has."""
        counter = Counter(Place("t", b"t" * 16, 0, 0))
        data = self.context.log(TOPIC, 0).read(0, 1 << 26)
        for key, value in iter_key_values(data):
            counter.replay(COUNTER.codec.decode(key or b"", value))
        return counter


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


# --- the outcomes of writes -------------------------------------------------------------------------------------


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
