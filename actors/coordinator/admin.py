"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from actors.coordinator.errors import Error
from actors.coordinator.group import Group, GroupState, Member
from actors.coordinator.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    Now,
    Token,
)
from actors.coordinator.offsets import Offsets
from actors.coordinator.records import Change, GroupDeleted, OffsetsDeleted
from actors.coordinator.runtime import Runtime
from actors.coordinator.writer import Write


class Admin:
    def __init__(self, runtime: Runtime, offsets: Offsets) -> None:
        self._runtime = runtime
        self._offsets = offsets

    # -- ListGroups, versions 0 to 5

    def list_groups(self, token: Token, request: ListGroupsRequest, now: Now) -> None:
        """Groups whose existence has committed."""
        states = {state.strip().lower() for state in request.states_filter}
        types = {kind.strip().lower() for kind in request.types_filter}
        listed = tuple(
            ListedGroup(group.group_id, group.protocol_type or "", group.state.value)
            for group in self._committed()
            if (not states or group.state.lower() in states) and (not types or "classic" in types)
        )
        self._runtime.replies.append((token, ListGroupsResponse(Error.NONE, listed)))

    def _committed(self) -> list[Group]:
        groups = self._runtime.groups
        return [groups[group_id] for group_id, _ in self._runtime.durable.items() if group_id in groups]

    # -- DescribeGroups, versions 0 to 5

    def describe_groups(self, token: Token, request: DescribeGroupsRequest, now: Now) -> None:
        described = tuple(self._describe(group_id) for group_id in request.group_ids)
        self._runtime.replies.append((token, DescribeGroupsResponse(described)))

    def _describe(self, group_id: str | None) -> DescribedGroup:
        if group_id is None:
            return DescribedGroup(Error.INVALID_GROUP_ID, "")
        group = self._runtime.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD or self._runtime.durable.get(group_id) is None:
            return DescribedGroup(Error.NONE, group_id, GroupState.DEAD.value)
        stable = group.state is GroupState.STABLE
        return DescribedGroup(
            error_code=Error.NONE,
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if stable else "",
            members=tuple(_described(m, group.protocol_name, stable) for m in group.members.values()),
        )

    # -- DeleteGroups, versions 0 to 2

    def delete_groups(self, token: Token, request: DeleteGroupsRequest, now: Now) -> None:
        runtime = self._runtime
        runtime.park(token, request)
        results = []
        doomed: list[Group] = []
        for group_id in request.group_ids:
            group = runtime.groups.get(group_id) if group_id is not None else None
            error = self._check_delete(group_id, group)
            if not error and group is not None:
                group.transition(GroupState.DEAD, now.wall_ms)
                doomed.append(group)
            results.append((group_id or "", error))
        if not doomed:
            runtime.answer(token, DeleteGroupsResponse(tuple(results)))
            return
        changes = [change for group in doomed for change in self.tombstones(group)]
        runtime.write(DeleteGroupsWrite(runtime, token, tuple(results), doomed, changes), now)

    @staticmethod
    def _check_delete(group_id: str | None, group: Group | None) -> int:
        if group_id is None:
            return Error.INVALID_GROUP_ID
        if group is None or group.state is GroupState.DEAD:
            return Error.GROUP_ID_NOT_FOUND
        return Error.NONE if group.state is GroupState.EMPTY else Error.NON_EMPTY_GROUP

    def tombstones(self, group: Group) -> list[Change]:
        """Offsets first, so that none is left over when the group has gone."""
        group_id = group.group_id
        stored = sorted(self._offsets.stored(group_id))
        offsets: list[Change] = [OffsetsDeleted(group_id, stored)] if stored else []
        return [*offsets, GroupDeleted(group_id)]


def _described(member: Member, protocol_name: str | None, stable: bool) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol_name) if stable else b"",
        member_assignment=member.assignment,
    )


def bury(runtime: Runtime, group: Group) -> None:
    """The group's tombstone has committed."""
    runtime.cancel_timers(group)
    if runtime.groups.get(group.group_id) is group:
        del runtime.groups[group.group_id]


def revive(runtime: Runtime, group: Group) -> None:
    """The group's tombstone could not be written: there is an Empty group again, as before.

    Dead is final for an object, hence a new one. Ids that were pending are forgotten; their clients get 25
    and ask again.
    """
    bury(runtime, group)
    again = runtime.groups[group.group_id] = Group(group.group_id, group.state_timestamp_ms)
    again.protocol_type = group.protocol_type
    again.generation_id = group.generation_id
    again.history = group.history
    again.note_subscribed_topics()
    runtime.reap(group.group_id)


class DeleteGroupsWrite(Write):
    __slots__ = ("_groups", "_results", "_runtime", "_token")

    def __init__(
        self,
        runtime: Runtime,
        token: Token,
        results: tuple[tuple[str, int], ...],
        groups: list[Group],
        changes: list[Change],
    ) -> None:
        super().__init__(changes)
        self._runtime = runtime
        self._token = token
        self._results = results
        self._groups = groups

    def committed(self, now: Now) -> None:
        self._runtime.metrics.group_deletions += len(self._groups)
        self._runtime.metrics.offset_deletions += sum(
            len(c.partitions) for c in self.changes if isinstance(c, OffsetsDeleted)
        )
        for group in self._groups:
            bury(self._runtime, group)
        self._runtime.answer(self._token, DeleteGroupsResponse(self._results))

    def failed(self, error: int, now: Now) -> None:
        self.timed_out(now, error)
        for group in self._groups:
            revive(self._runtime, group)

    def timed_out(self, now: Now, error: int = Error.COORDINATOR_NOT_AVAILABLE) -> None:
        """Until it is decided the groups stay Dead, and answer as such."""
        results = tuple((group_id, code or error) for group_id, code in self._results)
        self._runtime.answer(self._token, DeleteGroupsResponse(results))
