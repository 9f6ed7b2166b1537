"""Classic groups as a type of group: how a shard carries out their requests."""

from __future__ import annotations

from actors.coordinator.classic.describe import Describe
from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.join import Join
from actors.coordinator.classic.membership import HEARTBEAT_OK, Membership
from actors.coordinator.classic.messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from actors.coordinator.classic.rebalance import Rebalancer
from actors.coordinator.classic.records import CLASSIC, GROUP_RECORD, GroupMetadata
from actors.coordinator.classic.sync import Sync
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.groups.types import Requests
from actors.coordinator.turn import Now


class ClassicOperations:
    """Carries out what one shard does for classic groups."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime
        self.rebalancer = self._rebalancer = rebalancer = Rebalancer(runtime)
        join, sync, membership = Join(runtime, rebalancer), Sync(runtime, rebalancer), Membership(runtime, rebalancer)
        self.requests = Requests(
            handlers={
                HeartbeatRequest: membership.heartbeat,
                JoinGroupRequest: join.handle,
                SyncGroupRequest: sync.handle,
                LeaveGroupRequest: membership.leave,
                DescribeGroupsRequest: Describe(runtime).handle,
            },
            entry_errors={
                JoinGroupRequest: join.entry_error,
                SyncGroupRequest: sync.entry_error,
                HeartbeatRequest: _unless_empty,
                LeaveGroupRequest: _unless_empty,
            },
            while_loading={
                # Members need not look for another coordinator.
                HeartbeatRequest: lambda _: HEARTBEAT_OK,
                # A rebalance that was under way is lost with the old leader. On REBALANCE_IN_PROGRESS clients join
                # again; COORDINATOR_LOAD_IN_PROGRESS is fatal to some of them here.
                SyncGroupRequest: lambda request: request.refused(Error.REBALANCE_IN_PROGRESS),
            },
            parked={"join": JoinGroupRequest, "sync": SyncGroupRequest},
        )

    def resume(self, group_id: str, persisted: GroupMetadata, now: Now) -> None:
        """Let a group that was loaded go on. Its members have a whole session to find this shard."""
        group = self._runtime.groups[group_id] = ClassicGroup.from_record(group_id, persisted)
        self._resume(group, now)

    def forget(self) -> None:
        """All that is known of classic groups is in the groups."""

    def _resume(self, group: ClassicGroup, now: Now) -> None:
        for member in group.members.values():
            self._rebalancer.watch(group, member)
            self._rebalancer.arm_session(member, now)
        if len(group.members) > self._runtime.config.group_max_size:
            self._rebalancer.prepare(group, "group is larger than group.max.size", "", now)


def _unless_empty(request: HeartbeatRequest | LeaveGroupRequest) -> Error:
    return Error.NONE if request.group_id else Error.INVALID_GROUP_ID


class Classic:
    """The type. A group that has offsets alone is of it, too."""

    name = CLASSIC
    record_types = (GROUP_RECORD,)

    def operations(self, runtime: GroupRuntime) -> ClassicOperations:
        """Make what a new shard does for classic groups."""
        return ClassicOperations(runtime)
