"""A group's state is that of its records, whichever of them compaction has left in the log."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from actors.coordinator.classic.records import GroupDeleted, GroupMetadata, GroupPut
from actors.coordinator.consumer.operations import Drafted
from actors.coordinator.consumer.records import (
    AssignmentEpoch,
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    LegacyTopics,
    MemberRecord,
    ResolvedRegex,
    TargetAssignment,
)
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.topics import Topic
from actors.coordinator.consumer.values import Current, MemberMetadata, MemberState, Resolved
from actors.coordinator.groups.durable import DurableState
from actors.coordinator.loading import Loader
from actors.coordinator.records import Change, Record, encode
from tests.support.consumer_groups import BAR, FOO, FOO2, FOOBAR, GROUP, READ, T1, ConsumerDriver, given, shown

MEMBER = MemberMetadata("c", "/127.0.0.1", names=frozenset({"foo"}), rebalance_timeout_ms=1_000)
HELD = Current(4, 3, MemberState.STABLE, {T1: {0: 4}}, {})
RESOLVED = Resolved(frozenset({"foo"}), 7, 8)
PUT: dict[str, GroupRecord] = {
    "3": GroupEpoch(GROUP, 4, 9),
    "5": MemberRecord(GROUP, "A", MEMBER),
    "6": AssignmentEpoch(GROUP, 4, 5),
    "7": TargetAssignment(GROUP, "A", {T1: frozenset({0})}),
    "8": CurrentAssignment(GROUP, "A", HELD),
    "16": ResolvedRegex(GROUP, "f.*", RESOLVED),
}


def state_of(*changes: Change) -> ConsumerState | None:
    """The group's state after these changes, one after another."""
    durable = DurableState()
    for change in changes:
        durable.replay(change)  # type: ignore[arg-type]
    found = durable.get(GROUP)
    assert found is None or found.persisted is None or isinstance(found.persisted, ConsumerState)
    return None if found is None else found.persisted


def some(*changes: Change) -> ConsumerState:
    found = state_of(*changes)
    assert found is not None
    return found


def loaded(records: Sequence[Record]) -> dict[str, object]:
    """The state of each group after a load of these."""
    loader = Loader(DurableState(), READ)
    loader.add(records)
    loader.finish()
    return {group_id: group.persisted for group_id, group in loader.state.items()}


def replayed(records: Sequence[Record]) -> dict[str, object]:
    """The state of each group after a replay of these, one after another."""
    durable = DurableState()
    for record in records:
        durable.replay(READ.decode(*record))
    return {group_id: group.persisted for group_id, group in durable.items()}


@pytest.mark.conformance("K-C-46")
@pytest.mark.parametrize("number", PUT)
def test_each_record_makes_a_group(number: str) -> None:
    assert state_of(PUT[number]) is not None


@pytest.mark.conformance("K-C-46")
@pytest.mark.parametrize("number", PUT)
def test_a_record_takes_a_groups_place_that_was_classic(number: str) -> None:
    simple = GroupPut(GROUP, GroupMetadata("", 0, None, None, -1))
    classic = GroupPut(GROUP, GroupMetadata("consumer", 3, "range", None, -1))
    assert state_of(simple, PUT[number]) == state_of(classic, PUT[number]) == state_of(PUT[number])


@pytest.mark.conformance("K-C-47")
def test_a_group_epoch_has_its_hash_and_without_one_a_group_is_at_the_first() -> None:
    state = some(PUT["3"])
    assert (state.group_epoch, state.metadata_hash, state.assignment_epoch) == (4, 9, 1)
    state = some(PUT["5"])
    assert (state.group_epoch, state.metadata_hash, state.assignment_epoch) == (1, 0, 1)


@pytest.mark.conformance("K-C-48", "K-C-49")
def test_a_members_two_records_change_their_own_parts_alone() -> None:
    both = some(PUT["8"], PUT["5"])
    assert (both.metadata, both.current) == ({"A": MEMBER}, {"A": HELD})
    assert both.owners == {(T1, 0): "A"}
    other = MemberRecord(GROUP, "A", MemberMetadata(instance_id="i"))
    assert some(PUT["5"], PUT["8"], other).current == {"A": HELD}
    gone = CurrentAssignment(GROUP, "A", Current(5, 4))
    again = some(PUT["5"], PUT["8"], gone)
    assert (again.metadata, again.owners) == ({"A": MEMBER}, {})


@pytest.mark.conformance("K-C-50", "K-C-51")
def test_targets_epochs_and_expressions_are_kept_by_themselves() -> None:
    state = some(PUT["7"], PUT["6"], PUT["16"], LegacyTopics(GROUP, ()))
    assert state.targets == {"A": {T1: frozenset({0})}}
    assert (state.assignment_epoch, state.assignment_timestamp_ms) == (4, 5)
    assert (state.resolved, state.has_legacy_topics) == ({"f.*": RESOLVED}, True)
    assert not some(PUT["7"], LegacyTopics(GROUP, ()), LegacyTopics(GROUP)).has_legacy_topics


@pytest.mark.conformance("K-C-52")
@pytest.mark.parametrize("number", PUT)
def test_a_tombstone_of_what_is_not_there_says_nothing(number: str) -> None:
    gone = READ.decode(PUT[number].records()[0].key, None)
    assert state_of(gone) is None
    classic = GroupPut(GROUP, GroupMetadata("consumer", 3, "range", None, -1))
    durable = DurableState()
    for change in (classic, gone):
        durable.replay(change)
    group = durable.get(GROUP)
    assert group is not None
    assert group.persisted == classic.metadata


@pytest.mark.conformance("K-C-53", "K-C-54")
def test_tombstones_take_away_what_their_records_said() -> None:
    everything = (*PUT.values(), LegacyTopics(GROUP, ()))
    state = some(*everything, CurrentAssignment(GROUP, "A"))
    assert (state.metadata, state.current, state.owners) == ({"A": MEMBER}, {}, {})
    assert some(*everything, TargetAssignment(GROUP, "A")).targets == {}
    assert some(*everything, MemberRecord(GROUP, "A")).metadata == {}
    assert some(*everything, ResolvedRegex(GROUP, "f.*")).resolved == {}
    state = some(*everything, AssignmentEpoch(GROUP))
    assert (state.assignment_epoch, state.assignment_timestamp_ms) == (1, 0)
    assert state_of(*everything, GroupEpoch(GROUP)) is None


@pytest.mark.conformance("K-C-55", "K-C-56")
def test_the_newest_record_to_name_a_partition_owns_it_and_a_release_frees_ones_own_alone() -> None:
    b_has_it = CurrentAssignment(GROUP, "B", Current(3, 2, MemberState.STABLE, {T1: {0: 3}}))
    both = (PUT["5"], MemberRecord(GROUP, "B", MEMBER), PUT["8"], b_has_it)
    assert some(*both).owners == {(T1, 0): "B"}
    assert some(*both, CurrentAssignment(GROUP, "A", Current(5, 4))).owners == {(T1, 0): "B"}
    assert some(*both, CurrentAssignment(GROUP, "A")).owners == {(T1, 0): "B"}
    assert some(*both, CurrentAssignment(GROUP, "B")).owners == {(T1, 0): "A"}, "it has listed it all the time"
    assert some(*both, CurrentAssignment(GROUP, "B"), CurrentAssignment(GROUP, "A")).owners == {}


@pytest.mark.conformance("K-C-55", "K-C-56")
@pytest.mark.parametrize("first", ["A", "B"])
@pytest.mark.parametrize("newest", ["A", "B"])
def test_the_newest_record_to_name_a_partition_owns_it_after_a_load(first: str, newest: str) -> None:
    members = [MemberRecord(GROUP, each, MEMBER) for each in "AB"]
    early = CurrentAssignment(GROUP, first, Current(2, 1))
    claims = [CurrentAssignment(GROUP, each, Current(3, 2, MemberState.STABLE, {T1: {0: 3}})) for each in "AB"]
    log = encode([*members, early, *(claims if newest == "B" else reversed(claims))])
    state = loaded(log)[GROUP]
    assert isinstance(state, ConsumerState)
    assert state.owners == {(T1, 0): newest}


@pytest.mark.conformance("K-C-55", "K-C-56")
def test_replay_raises_at_nothing() -> None:
    assert some(*PUT.values(), MemberRecord(GROUP, "A")).current == {"A": HELD}
    assert some(*PUT.values(), AssignmentEpoch(GROUP)).targets
    assert state_of(*PUT.values(), GroupEpoch(GROUP)) is None


def test_a_classic_groups_tombstone_does_not_end_the_group_in_its_place() -> None:
    classic = GroupPut(GROUP, GroupMetadata("consumer", 3, "range", None, -1))
    assert state_of(classic, GroupDeleted(GROUP), PUT["5"]) == state_of(PUT["5"])
    assert state_of(PUT["5"], GroupDeleted(GROUP)) == state_of(PUT["5"])


def _history(seed: int) -> list[Record]:
    """The log of members that come, go, and change their subscriptions."""
    chance, driver = random.Random(seed), ConsumerDriver(FOO, FOOBAR, BAR)
    for _ in range(120):
        driver.advance(chance.choice((0, 300, 2_000)))
        member = chance.choice("ABCD")
        state = driver.committed() if GROUP in driver.shard.coordinator.runtime.groups else ConsumerState()
        epoch = state.current_of(member).epoch
        match chance.randrange(10):
            case 0:
                driver.beat(f"{member} e0 R names={chance.choice(('foo', 'foo,bar', 'foobar', ''))} own=[]")
            case 1:
                driver.beat(f"{member} e0 join as=i-{chance.choice('st')}")
            case 2:
                driver.beat(f"{member} e-1")
            case 3:
                driver.beat(f"{member} e-2 as=i-{chance.choice('st')}")
            case 4:
                driver.beat(f"{member} e0 R names= regex={chance.choice(('foo.*', 'ba.', ''))} own=[]")
            case 5:
                driver.resolve()
            case 6:
                driver.set_topics(FOO, *chance.sample([FOOBAR, BAR, FOO2], 2))
            case 7 if not state.metadata and chance.random() < 0.5:
                driver.delete_group(GROUP)
            case _:
                held = " ".join(_own(state, member))
                driver.beat(f"{member} e{epoch} own={held or '[]'}")
    return driver.log


def _own(state: ConsumerState, member: str) -> list[str]:
    text = shown(state.current_of(member).assigned)
    return [] if text == "-" else [text]


@pytest.mark.conformance("K-C-57", "K-C-56")
@pytest.mark.parametrize("seed", range(8))
def test_a_log_says_the_same_however_it_was_compacted(seed: int) -> None:
    log, chance = _history(seed), random.Random(seed)
    expected = replayed(log)
    assert expected
    assert loaded(log) == expected
    assert any(record.key[:2] == b"\0\x10" for record in log), "an expression was resolved"
    for _ in range(5):
        end = chance.randrange(len(log))
        kept = [
            record
            for at, record in enumerate(log[:end])
            if record.key not in {later.key for later in log[at + 1 : end]}
        ]
        assert loaded([*kept, *log[end:]]) == replayed([*kept, *log[end:]]) == expected


@pytest.mark.conformance("K-C-56", "K-C-57", "K-B-12")
def test_a_log_in_which_records_are_missing_says_the_same_however_it_is_read() -> None:
    contested = 0
    for seed in range(12):
        log, chance = _history(seed), random.Random(seed)
        torn = [record for record in log if chance.random() < 0.6]
        found = loaded(torn)
        assert found == replayed(torn)
        for state in found.values():
            assert isinstance(state, ConsumerState)
            claims = [at for current in state.current.values() for at in _claimed(current)]
            contested += len(claims) - len(set(claims))
            assert set(state.owners) == set(claims)
            assert all(at in _claimed(state.current[member_id]) for at, member_id in state.owners.items())
    assert contested, "two members list the same"


def _claimed(current: Current) -> list[tuple[bytes, int]]:
    lists = (current.assigned, current.pending)
    return [(topic_id, each) for held in lists for topic_id, numbers in held.items() for each in numbers]


@pytest.mark.conformance("K-C-57", "K-B-12")
@pytest.mark.parametrize("seed", range(8))
def test_owners_follow_from_what_members_hold(seed: int) -> None:
    for state in loaded(_history(seed)).values():
        assert isinstance(state, ConsumerState)
        derived = {
            (topic_id, partition): member_id
            for member_id, current in state.current.items()
            for held in (current.assigned, current.pending)
            for topic_id, partitions in held.items()
            for partition in partitions
        }
        assert state.owners == derived


@pytest.mark.conformance("K-C-58")
def test_what_is_left_of_a_member_without_its_metadata_is_removed_after_a_load() -> None:
    driver = ConsumerDriver()
    driver.join("A", "B")
    lost = [record for record in driver.log if record.key != MemberRecord(GROUP, "B").records()[0].key]
    other = ConsumerDriver(log=lost)
    assert list(other.committed().metadata) == ["A"]
    assert other.written(len(lost)) == ["x8(B)", "x7(B)"]
    assert not any(member == "B" for member in other.committed().owners.values())


@pytest.mark.conformance("K-C-58")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("error", [19, 6, 10])
def test_what_is_left_of_a_member_is_removed_in_the_end_though_the_log_refuses_it(error: int, times: int) -> None:
    driver = ConsumerDriver()
    driver.join("A", "B")
    gone = MemberRecord(GROUP, "B").records()[0].key
    driver.log = [record for record in driver.log if record.key != gone]
    driver.holds = True
    driver.fail_over()
    for _ in range(times):
        assert "B" in driver.committed().owners.values()
        driver.refuse(error)
        assert not driver.held, "not at once"
        driver.advance(1_000)
    driver.holds = False
    driver.turn()
    assert "B" not in driver.committed().owners.values()
    driver.advance(1_100)
    assert driver.told("A e3") == "e3"
    driver.set_topics(Topic(T1, "foo", 8))
    assert driver.told("A e3") == "e4 asg 0-7", "nothing of it is in the way"


@pytest.mark.conformance("K-C-15", "K-B-19")
def test_a_legacy_record_is_removed_when_topics_are_looked_at() -> None:
    driver = ConsumerDriver()
    driver.join("A")
    driver.log += encode([LegacyTopics(GROUP, ((T1, "foo", 6),))])
    driver.fail_over()
    assert given(driver, "A e2").records == ("x4",)
    assert given(driver, "A e2").records == ()


@pytest.mark.parametrize("seed", range(4))
def test_a_draft_says_what_its_records_will_say_when_they_are_replayed(seed: int) -> None:
    log = _history(seed)
    base, replay = DurableState(), DurableState()
    compared = 0
    for record in log:
        change = READ.decode(*record)
        before = base.get(GROUP)
        replay.replay(change)
        after = replay.get(GROUP)
        if before is not None and after is not None:
            drafted = Drafted(before.persisted.draft())
            twice = Drafted(drafted.persisted.draft())
            change.apply(twice)
            assert twice.persisted == after.persisted
            assert drafted.persisted == before.persisted, "what is below stays"
            compared += 1
        base.replay(change)
    assert compared > 50


def test_what_is_written_of_a_group_is_what_it_is_when_that_has_committed() -> None:
    chance, driver = random.Random(1), ConsumerDriver(FOO)
    driver.holds = True
    compared = 0
    for _ in range(200):
        member = chance.choice("ABC")
        driver.advance(chance.choice((0, 300, 2_000)))
        epoch = driver.committed().current_of(member).epoch if GROUP in driver.shard.coordinator.runtime.groups else 0
        driver.beat_later(
            f"{member} e{epoch} " + ("join" if epoch == 0 else chance.choice(("own=[]", "rack=r", "rack=s")))
        )
        if chance.random() < 0.1:
            driver.beat_later(f"{member} e-1")
        if driver.held:
            written = driver.consumer().written
            assert (
                written == replayed([*driver.log, *(record for each in driver.held for record in each.records)])[GROUP]
            )
            driver.release()
            driver.turn()
            compared += 1
    assert compared > 20
