"""Invariants of a coordinator shard, which hold after every step of any history.

Used by the property test and the simulator in tests/sim. Holds no tests.
"""

from __future__ import annotations

from collections import Counter

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.history import ClassicRebalance, RebalancePhase
from actors.coordinator.classic.messages import SyncGroupResponse
from actors.coordinator.classic.records import GroupDeleted, GroupPut
from actors.coordinator.classic.states import GroupState
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.leaving import EndOfRebalance, EndOfSession
from actors.coordinator.consumer.records import GroupRecord
from actors.coordinator.consumer.values import STATIC_LEAVE_EPOCH, MemberState
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.history import LAST_MAX, OVER_MAX
from actors.coordinator.groups.messages import OffsetCommitRequest
from actors.coordinator.groups.offset_records import decode_offset_value, offset_key
from tests.support.coordination import Driver
from tests.support.offset_rows import commit_rows, naive_replay, projection


def assert_consistent(driver: Driver) -> None:
    """Log and memory agree, and each group is in one piece."""
    _assert_history(driver)
    if not driver.is_active():
        return
    types = driver.shard.coordinator.record_types
    committed = naive_replay(driver.log[: driver.high_watermark], types)
    assert projection(driver.durable) == projection(committed)
    for group in driver.shard.coordinator.runtime.groups.values():
        if isinstance(group, ClassicGroup):
            _assert_whole(driver, group)
        elif isinstance(group, ConsumerGroup):
            _assert_sound(group)
    assert set(projection(committed)) <= set(driver.shard.coordinator.runtime.groups), "in the log, not in memory"


def _assert_history(driver: Driver) -> None:
    """The shard knows a rebalance of each group that has one, in the group's phase, and of no other."""
    log, groups = driver.shard.coordinator.rebalances, driver.shard.coordinator.runtime.groups
    running = {group_id: each for group_id, each in log.running.items() if isinstance(each, ClassicRebalance)}
    others = [groups[group_id] for group_id in log.running.keys() - running.keys()]
    assert all(isinstance(each, ConsumerGroup) for each in others), "no other group has a rebalance that goes on"
    phases = {group_id: rebalance.phase for group_id, rebalance in running.items()}
    classic = [group for group in groups.values() if isinstance(group, ClassicGroup)]
    assert phases == {group.group_id: _PHASES[group.state] for group in classic if group.state in _PHASES}, (
        "the history of rebalances does not match the groups"
    )
    assert log.settled, "who came or went has led to no rebalance"
    assert log.finished <= OVER_MAX
    for each in running.values():
        assert each.joined is None or each.joined.monotonic_ms >= each.began.monotonic_ms
        assert max(len(each.joins), len(each.syncs)) <= LAST_MAX


_PHASES = {
    GroupState.PREPARING_REBALANCE: RebalancePhase.JOINING,
    GroupState.COMPLETING_REBALANCE: RebalancePhase.SYNCING,
}


def _assert_whole(driver: Driver, group: ClassicGroup) -> None:
    members = group.members
    assert all(member_id == member.member_id for member_id, member in members.items())
    assert {
        m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id
    } == group.roster.by_instance
    assert group.roster.awaiting_join == sum(m.parked_join is not None for m in members.values())
    names = Counter(name for m in members.values() for name in {name for name, _ in m.protocols})
    assert group.roster.supported_protocols == names
    assert group.pending_sync <= set(members)
    assert not members or group.leader_id in members
    _assert_someone_will_act(group)
    _assert_as_recorded(driver, group)


def _assert_sound(group: ConsumerGroup) -> None:
    """A partition has one owner, and epochs are in order; members are watched."""
    state = group.state
    held = [
        (topic_id, partition, since)
        for member_id in state.metadata
        for part in (state.current_of(member_id).assigned, state.current_of(member_id).pending)
        for topic_id, partitions in part.items()
        for partition, since in partitions.items()
    ]
    assert len({at[:2] for at in held}) == len(held) == len(state.owners), "a partition has two owners"
    assert state.assignment_epoch <= state.group_epoch
    assert all(since <= state.assignment_epoch for *_, since in held)
    for member_id in state.metadata:
        current = state.current_of(member_id)
        assert 0 < current.epoch <= state.assignment_epoch or current.epoch == STATIC_LEAVE_EPOCH
        if current.epoch > 0:
            revokes = current.state is MemberState.UNREVOKED_PARTITIONS
            assert revokes or not current.pending
            timers = group.members[member_id]
            ends = _ends(group, member_id)
            assert timers.session.due_ms is not None or ends, f"{member_id} would live for ever"
            is_watched = timers.rebalance.due_ms is not None or state.metadata[member_id].classic is not None
            assert not current.pending or is_watched or ends, f"{member_id} may keep all"
    assert group.is_busy or not group.waiting or group._cluster.topics is None, "something waits for nothing"


def _ends(group: ConsumerGroup, member_id: str) -> bool:
    """True if the end of one of a member's timers waits, or is part of the write under way."""
    if any(isinstance(each, EndOfSession | EndOfRebalance) and each.member_id == member_id for each in group.waiting):
        return True
    if group.written is None:
        return group.is_busy
    is_removed = member_id not in group.written.metadata
    return is_removed or group.written.current_of(member_id) != group.state.current_of(member_id)


def _assert_someone_will_act(group: ClassicGroup) -> None:
    """Nothing waits without a timer or a write that will end the waiting."""
    for member in group.members.values():
        parked = member.parked_join or member.parked_sync
        assert parked or member.session.due_ms is not None, f"{member.member_id} would live for ever"
    match group.state:
        case GroupState.EMPTY:
            assert not group.members
        case GroupState.PREPARING_REBALANCE:
            assert group.join_timer.due_ms is not None
            assert group.initial_delay is not None or not group.all_joined, "nobody looked whether all have joined"
        case GroupState.COMPLETING_REBALANCE:
            assert group.assignment_in_flight or group.sync_timer.due_ms is not None
        case GroupState.STABLE:
            assert not group.pending_sync or group.sync_timer.due_ms is not None
            assert not any(m.parked_join or m.parked_sync for m in group.members.values())


def _assert_as_recorded(driver: Driver, group: ClassicGroup) -> None:
    """A Stable group equals its record: a successor would go on with the same."""
    if group.state is not GroupState.STABLE:
        return
    durable = driver.durable.get(group.group_id)
    assert durable is not None
    assert durable.persisted is not None
    record = durable.persisted
    assert record.generation_id == group.generation_id
    assert record.leader_id == group.leader_id
    assert {m.member_id: m.assignment for m in record.members} == {
        m.member_id: m.assignment for m in group.members.values()
    }


class Witness:
    """Remembers the answers to clients, and compares them with later answers and with the log."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._seen = 0
        self._read = 0
        self._shared: dict[str, dict[int, dict[str, bytes]]] = {}
        """Group -> generation -> the share that each member was told."""
        self._requests: dict[int, object] = {}
        self._newest: dict[str, int] = {}
        self._types: dict[str, bool] = {}
        """True for a consumer group, by the log."""
        self._unsettled: set[str] = set()
        """Groups that are one, or were before the last step."""

    def note(self, token: int, request: object) -> None:
        self._requests[token] = request

    def assert_kept(self) -> None:
        """Every answer since the last call keeps what earlier ones promised."""
        self._read_deletions()
        fresh = list(self._driver.answers.items())[self._seen :]
        self._seen += len(fresh)
        for token, response in fresh:
            request = self._requests.get(token)
            if isinstance(request, OffsetCommitRequest):
                self._assert_durable(request, response.error_codes)  # type: ignore[union-attr]
            elif isinstance(response, SyncGroupResponse) and response.error_code == 0:
                if request is not None and request.group_id in self._unsettled:  # type: ignore[attr-defined]
                    continue
                self._assert_only_share(request, response)

    def _read_deletions(self) -> None:
        """A deleted group begins anew, with generation 0. In a consumer group a generation's shares may change."""
        self._unsettled = {group_id for group_id, is_consumers in self._types.items() if is_consumers}
        for key, value in self._driver.log[self._read : self._driver.high_watermark]:
            change = GROUP_RECORDS.decode(key, value)
            if isinstance(change, GroupDeleted):
                self._shared.pop(change.group_id, None)
            if isinstance(change, GroupRecord | GroupPut):
                self._types[change.group_id] = isinstance(change, GroupRecord)
            if isinstance(change, GroupRecord):
                self._shared.pop(change.group_id, None)
                self._unsettled.add(change.group_id)
        self._read = self._driver.high_watermark

    def _assert_durable(self, request: OffsetCommitRequest, errors: list[int]) -> None:
        committed = self._driver.log[: self._driver.high_watermark]
        for (topic, partition, offset, *_), error in zip(commit_rows(request), errors, strict=True):
            if error == 0:
                key = offset_key(request.group_id or "", topic, partition)
                assert any(k == key and v and decode_offset_value(v).offset == offset for k, v in committed)

    def _assert_only_share(self, request: object, response: SyncGroupResponse) -> None:
        group_id, generation, member_id = request.group_id, request.generation_id, request.member_id  # type: ignore[attr-defined]
        generations = self._shared.setdefault(group_id, {})
        assert generation >= max(generations, default=0), "an older generation was given out"
        share = generations.setdefault(generation, {}).setdefault(member_id, response.assignment)
        assert share == response.assignment, "one generation, two assignments"
