"""Bugs planted on purpose, to prove that the invariants would find them. Product code knows nothing of them.

Each is a function that returns the changes of the product for one run: (owner, name, value).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import actors.broker.context
import actors.broker.coordinators.hub
import actors.broker.handlers.produce
import actors.controller.deaths
import actors.controller.decisions.pairs
import actors.runtime.liveness
import placement.together
from actors.broker.coordinators.hub import ShardHub
from actors.broker.coordinators.idling import Idling
from actors.broker.coordinators.link import LinkState, ShardLink
from actors.broker.coordinators.parking import Place
from actors.broker.coordinators.partitions import Partitions
from actors.broker.coordinators.processes import Processes
from actors.broker.coordinators.readiness import Readiness
from actors.broker.coordinators.sleeping import Sleeping
from actors.broker.replication.followers import Followers
from actors.broker.replication.leaders import Leaders
from actors.broker.replication.manager import ReplicaManager
from actors.controller.metadata.commits import Commit
from actors.controller.metadata.file import LogFile
from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.membership import Membership
from actors.coordinator.classic.rebalance import Rebalancer
from actors.coordinator.classic.records import GroupMetadata
from actors.coordinator.classic.states import GroupState
from actors.coordinator.classic.type import ClassicOperations
from actors.coordinator.errors import Error
from actors.coordinator.groups.coordinator import GroupCoordinator
from actors.coordinator.groups.messages import FetchedOffset, MaySleepResponse, OffsetFetchRequest, OffsetFetchResponse
from actors.coordinator.loading import Loader
from actors.coordinator.timers import Timer, Timers
from actors.coordinator.writer import Writer
from actors.links.relay import PAYLOADS
from actors.log import data_dir
from actors.log.replication import Ack, FollowerReplica, LeaderReplica, Outcome
from actors.log.segment import Segment
from actors.records.errors import Refusal
from actors.runtime.liveness import Silence
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, PartitionInfo, changed
from tests.sim.consumer_bugs import CONSUMER_BUGS
from tests.sim.disk_bugs import DISK_BUGS
from tests.sim.drain_bugs import DRAIN_BUGS
from tests.sim.guest_bugs import GUEST_BUGS
from tests.sim.late_log import LateLog
from tests.sim.removal_bugs import REMOVAL_BUGS
from tests.sim.replacement_bugs import REPLACEMENT_BUGS
from tests.sim.start_bugs import START_BUGS
from tests.sim.voter_bugs import VOTER_BUGS

Changes = list[tuple[Any, str, Any]]

BUGS: dict[str, Callable[[], Changes]] = {
    **GUEST_BUGS,
    **CONSUMER_BUGS,
    **REPLACEMENT_BUGS,
    **REMOVAL_BUGS,
    **DRAIN_BUGS,
    **START_BUGS,
    **DISK_BUGS,
    **VOTER_BUGS,
}


def planted(name: str) -> Changes:
    """The changes of the product that plant a bug; none for no name.

    Raises KeyError, and AttributeError for an attribute that the product does not have: the bug would not be planted.
    """
    changes = BUGS[name]() if name else []
    for owner, attribute, _ in changes:
        getattr(owner, attribute)
    return changes


def bug(make: Callable[[], Changes]) -> Callable[[], Changes]:
    BUGS[make.__name__.replace("_", "-")] = make
    return make


# --- replication ------------------------------------------------------------------------------------------------


@bug
def no_epoch_check() -> Changes:
    """A follower takes pushes of leaders that have been deposed."""
    made, take, on_push = Followers.__init__, Followers.take, FollowerReplica.on_push

    class Forgetful:
        """A broker's context, and its metadata, in which no epoch of a leader is known."""

        def __init__(self, context: Any) -> None:
            self._context = context
            self.metadata = self

        def __getattr__(self, name: str) -> Any:
            return getattr(self._context, name)

        def partition(self, topic: str, index: int) -> PartitionInfo | None:
            info = self._context.metadata.partition(topic, index)
            return info and replace(info, leader_epoch=-1)

    def forgetful(self: Followers, context: Any, failed: Any) -> None:
        made(self, Forgetful(context), failed)  # type: ignore[arg-type]

    def taken(self: Followers, key: Any, topic_id: bytes, push: Any, leading_at: int, sender: int) -> Ack:
        self.drop(key)
        return take(self, key, topic_id, push, -1, sender)

    def pushed(self: FollowerReplica, push: Any, now_ms: int) -> Ack:
        self.epoch = -1
        return on_push(self, push, now_ms)

    return [
        (Followers, "__init__", forgetful),
        (Followers, "take", taken),
        (FollowerReplica, "on_push", pushed),
    ]


@bug
def no_truncation() -> Changes:
    """A follower goes on behind records the leader does not have."""

    def _matches(self: FollowerReplica, push: Any) -> bool:
        return bool(push.base_offset <= self.log.log_end_offset)

    return [(FollowerReplica, "_matches", _matches), (FollowerReplica, "parting_at", lambda self, push: None)]


@bug
def truncates_below_watermark() -> Changes:
    """A follower that hears of a new leader cuts off more than it may."""
    on_push = FollowerReplica.on_push

    def pushed(self: FollowerReplica, push: Any, now_ms: int) -> Ack:
        if push.leader_epoch > self.log.epoch_at(self.log.log_end_offset - 1) >= 0 and push.round == 1:
            self.log.truncate_to(max(self.log.high_watermark - 2, self.log.log_start_offset))
        return on_push(self, push, now_ms)

    return [(FollowerReplica, "on_push", pushed)]


@bug
def acks_without_append() -> Changes:
    """A follower whose disk refuses says that it has the records."""
    on_push = FollowerReplica.on_push

    def pushed(self: FollowerReplica, push: Any, now_ms: int) -> Ack:
        ack = on_push(self, push, now_ms)
        if ack.outcome is Outcome.FAILED:
            return Ack(self.epoch, push.round, Outcome.MATCHED, push.next_offset, self.log.high_watermark)
        return ack

    return [(FollowerReplica, "on_push", pushed)]


@bug
def watermark_ignores_proposed() -> Changes:
    """A joiner does not count before its joining is recorded; elected before the leader knows, it lacks records."""
    return [(LeaderReplica, "counted", property(lambda self: self.isr))]


@bug
def removal_counts_at_once() -> Changes:
    """A member that is to leave the in-sync set is not waited for any more before the controller has recorded it."""
    return [(LeaderReplica, "counted", property(lambda self: self.proposed or self.isr))]


@bug
def min_insync_ignored() -> Changes:
    """Records commit with too few replicas in sync."""
    begin_leading = Leaders.begin

    def begin(self: Leaders, key: Any, partition: PartitionInfo) -> Any:
        leader = begin_leading(self, key, partition)
        if leader is not None:
            leader.min_insync = 1
        return leader

    update = LeaderReplica.update

    def updated(self: LeaderReplica, replicas: Any, isr: Any, epoch: int, needed: int, *others: Any) -> list[int]:
        return update(self, replicas, isr, epoch, 1, *others)

    return [
        (Leaders, "begin", begin),
        (LeaderReplica, "update", updated),
        (actors.broker.context.BrokerContext, "min_insync_replicas", lambda self, topic: 1),
    ]


@bug
def joins_before_caught_up() -> Changes:
    """Any follower that is connected may join the in-sync set."""

    def _may_join(self: LeaderReplica, broker: int, follower: Any) -> bool:
        return broker not in self.isr and follower.connected

    return [(LeaderReplica, "_may_join", _may_join)]


@bug
def torn_batches_believed() -> Changes:
    """After a crash the checksums of a log's last batches are not looked at."""
    rebuild = Segment.rebuild

    def believing(self: Segment, interval_bytes: int, *, verify: bool, **more: Any) -> int:
        return rebuild(self, interval_bytes, verify=False, **more)

    return [(Segment, "rebuild", believing)]


# --- leadership -------------------------------------------------------------------------------------------------


@bug
def zombie_serves() -> Changes:
    """A leader serves without regard to its lease."""

    def leads(self: ReplicaManager, topic: str, index: int, partition: PartitionInfo) -> bool:
        return self.registered

    return [(ReplicaManager, "leads", leads)]


@bug
def elects_out_of_sync() -> Changes:
    """The first living replica leads, in sync or not."""

    def elect(partition: PartitionInfo, alive: frozenset[int], **options: Any) -> PartitionInfo:
        leader = next((r for r in partition.replicas if r in alive), NO_LEADER)
        isr = tuple(r for r in partition.replicas if r in alive and r in (*partition.isr, leader)) or partition.isr
        return changed(partition, leader=leader, leader_epoch=partition.leader_epoch + 1, isr=isr)

    return [(placement.together, "elect", elect)]


@bug
def move_ends_early() -> Changes:
    """A partition that moves leaves its former replicas though too few of the others have everything."""
    enough, enough_together = actors.controller.decisions.pairs.completed, actors.controller.decisions.pairs.ended

    def ended(partition: PartitionInfo, alive: frozenset[int], needed: int) -> PartitionInfo:
        return enough(partition, alive | set(partition.replicas), 1)

    def ended_together(partition: PartitionInfo, alive: frozenset[int], needed: int) -> PartitionInfo | None:
        return enough_together(partition, alive | set(partition.replicas), 1)

    return [
        (actors.controller.decisions.pairs, "completed", ended),
        (actors.controller.decisions.pairs, "ended", ended_together),
    ]


@bug
def torn_broker_stays_in_sync() -> Changes:
    """A broker whose machine crashed says that it still has everything."""
    return [(data_dir, "_same_boot", lambda path, machine: True)]


@bug
def metadata_not_written() -> Changes:
    """The controller tells of changes before they are on its disk, and they never get there."""

    write = LogFile.append

    def append(self: LogFile, data: bytes) -> None:
        if self.path.stat().st_size < 2_000:
            write(self, data)

    return [(LogFile, "append", append), (LogFile, "replace", lambda self, data: None)]


@bug
def told_before_committed() -> Changes:
    """The controller publishes and answers changes that are decided, whether they commit or not."""
    return [
        (Commit, "then", lambda self, committed, dropped=None: committed()),
        (LateLog, "committed", property(lambda self: self.decided)),
    ]


class _Impatient(Silence):
    """Judges by time alone."""

    def is_death(self, silent_s: float, limit_s: float, look_at: Any, **options: Any) -> bool:
        return silent_s > limit_s


@bug
def starved_broker_is_dead() -> Changes:
    """A broker that gets no CPU is killed for its silence."""
    return [(actors.controller.deaths, "Silence", _Impatient)]


@bug
def starved_shard_is_dead() -> Changes:
    """A shard that gets no CPU is killed for its silence."""
    return [(actors.runtime.liveness, "Silence", _Impatient)]


# --- coordination -----------------------------------------------------------------------------------------------


@bug
def commit_answered_before_safe() -> Changes:
    """A commit is answered when the leader has appended it."""
    appended = Writer.appended

    def at_once(self: Writer, batch_id: int, base_offset: int, next_offset: int, now: Any) -> None:
        appended(self, batch_id, base_offset, next_offset, now)
        self.high_watermark(next_offset, now)

    return [(Writer, "appended", at_once)]


@bug
def produce_answered_before_safe() -> Changes:
    """acks=all is answered when the leader has appended."""

    def parked(loop: Any, request: Any, response: Any, waits: Any, refuse: Any) -> None:
        request.reply(response)

    return [(actors.broker.handlers.produce, "Parked", parked)]


@bug
def appended_after_leadership_was_lost() -> Changes:
    """A batch that a thread has checked is appended, though the broker may lead the partition no more."""
    produce = actors.broker.handlers.produce
    append_checked = produce._append_checked

    def whoever_leads(context: Any, part: Any, admitted: Any, acks: int, version: int, waits: Any) -> None:
        found = context.broker.metadata.partition(part.topic, part.index)
        if isinstance(admitted, Refusal) or found is None:
            append_checked(context, part, admitted, acks, version, waits)
        else:
            produce._append(context, part, found, admitted, acks, waits)

    return [(produce, "_append_checked", whoever_leads)]


@bug
def nothing_committed_while_loading() -> Changes:
    """OffsetFetch is answered with -1 while the shard loads."""
    unavailable, assign = GroupCoordinator.unavailable, ShardHub.assign

    def answered(self: GroupCoordinator, request: Any, *, loading: bool) -> Any:
        if isinstance(request, OffsetFetchRequest):
            return OffsetFetchResponse(Error.NONE, tuple(FetchedOffset(*at) for at in request.partitions or ()))
        return unavailable(self, request, loading=loading)

    def active_at_once(self: ShardHub, link: Any, partition: int) -> bool:
        assigned = assign(self, link, partition)
        if link.partition == partition:
            link.activate()
        return assigned

    return [(GroupCoordinator, "unavailable", answered), (ShardHub, "assign", active_at_once)]


@bug
def generation_reused() -> Changes:
    """After a reload the group goes on from the generation before its last."""
    resume = ClassicOperations.resume

    def resumed(self: ClassicOperations, group_id: str, persisted: GroupMetadata, now: Any) -> None:
        resume(self, group_id, replace(persisted, generation_id=persisted.generation_id - 1), now)

    return [(ClassicOperations, "resume", resumed)]


@bug
def fenced_generation_commits() -> Changes:
    """A commit of a generation that is over is taken."""
    check = ClassicGroup.check_commit

    def check_commit(self: ClassicGroup, request: Any, timers: Any, now: Any) -> int:
        code = check(self, request, timers, now)
        return 0 if code == Error.ILLEGAL_GENERATION else code

    return [(ClassicGroup, "check_commit", check_commit)]


@bug
def last_but_one_offset_kept() -> Changes:
    """Loading replays the log in the wrong order."""
    add = Loader.add
    return [(Loader, "add", lambda self, records: add(self, list(records)[::-1]))]


@bug
def heartbeats_not_heard() -> Changes:
    """After a failover heartbeats do not renew the session the member was given then."""
    heartbeat, resume, arm = Membership.heartbeat, ClassicOperations.resume, Timers.arm
    loaded: set[str] = set()
    is_deaf = False

    def resumed(self: ClassicOperations, group_id: str, persisted: GroupMetadata, now: Any) -> None:
        loaded.update(member.member_id for member in persisted.members)
        resume(self, group_id, persisted, now)

    def deaf(self: Membership, token: Any, request: Any, now: Any) -> None:
        nonlocal is_deaf
        is_deaf = request.member_id in loaded
        heartbeat(self, token, request, now)
        is_deaf = False

    def armed(self: Timers, timer: Timer, due_ms: int) -> None:
        if not is_deaf or timer.due_ms is None:
            arm(self, timer, due_ms)

    return [(ClassicOperations, "resume", resumed), (Membership, "heartbeat", deaf), (Timers, "arm", armed)]


@bug
def parked_sync_forgotten() -> Changes:
    """A rebalance that begins anew does not answer those who wait for the assignment."""
    prepare = Rebalancer.prepare

    def forgets(self: Rebalancer, group: ClassicGroup, *others: Any) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.parked_sync = None
        prepare(self, group, *others)

    return [(Rebalancer, "prepare", forgets)]


# --- sleep --------------------------------------------------------------------------------------------------------


@bug
def expiry_lost_by_sleep() -> Changes:
    """A partition that sleeps is not woken when something of it expires."""
    return [(Sleeping, "due", lambda self, now_ms: [])]


@bug
def commit_lost_by_sleep() -> Changes:
    """A shard goes to sleep with requests on their way to it, which are answered as if they had been done."""
    sleeps = ShardHub._sleeps

    def answered(self: Idling, link: ShardLink, partition: int, question: int, payload: bytes) -> None:
        answer = PAYLOADS.read(MaySleepResponse, payload)
        if link.state is LinkState.DROWSY:
            link.rouse()
            if answer.busy:
                link.idle.ask_at += self._idle_s
            else:
                self._sleeps(link, answer)

    def done(self: ShardHub, link: ShardLink, rest: MaySleepResponse) -> None:
        owed, link.pending = link.pending, {}
        for waiter, frame in owed.values():
            self._relaying.answer(self.kind, waiter, frame, ErrorCode.NONE)
        sleeps(self, link, rest)

    return [(Idling, "answered", answered), (ShardHub, "_sleeps", done)]


@bug
def woken_twice() -> Changes:
    """A partition that is being woken is given to another process when a request comes meanwhile."""

    class Again(Readiness):
        def __init__(
            self, context: Any, kind: Any, partitions: Partitions, processes: Processes, parking: Any, flush: Any
        ) -> None:
            super().__init__(context, kind, partitions, processes, parking, flush)
            self.kind, self.partitions, self.processes = kind, partitions, processes

        def start(self, partition: int, *, urgent: bool) -> None:
            if urgent and partition in self.partitions.links:
                self.processes.want(Place(self.kind, partition), urgent=True)
            super().start(partition, urgent=urgent)

    return [(actors.broker.coordinators.hub, "Readiness", Again)]
