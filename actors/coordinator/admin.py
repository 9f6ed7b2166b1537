"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable

from actors.coordinator.errors import Error
from actors.coordinator.group import Group, GroupState
from actors.coordinator.member import Member
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
from actors.coordinator.sweep import in_writes
from actors.coordinator.writer import Write


class Admin:
    def __init__(self, runtime: Runtime, offsets: Offsets) -> None:
        self._runtime = runtime
        self._offsets = offsets

    # -- ListGroups, versions 0 to 5

    def list_groups(self, token: Token, request: ListGroupsRequest, now: Now) -> None:
        """Lists the groups that exist by records that have committed."""
        listed = [
            ListedGroup(group.group_id, group.protocol_type or "", group.state.value) for group in self._committed()
        ]
        self._runtime.replies.append((token, list_response(request, listed)))

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
                group.begin_deletion()
                doomed.append(group)
            results.append((group_id or "", error))
        if not doomed:
            runtime.answer(token, DeleteGroupsResponse(tuple(results)))
            return
        deletion = _Deletion(runtime, token, results, {group.group_id for group in doomed})
        for group in doomed:
            self._write_tombstones(deletion, group, now)

    @staticmethod
    def _check_delete(group_id: str | None, group: Group | None) -> int:
        if group_id is None:
            return Error.INVALID_GROUP_ID
        if group is None or group.state is GroupState.DEAD:
            return Error.GROUP_ID_NOT_FOUND
        return Error.NONE if group.state is GroupState.EMPTY else Error.NON_EMPTY_GROUP

    def _write_tombstones(self, deletion: _Deletion, group: Group, now: Now) -> None:
        """Write the offsets' tombstones before the group's, so that none outlives it, in appends that the log takes."""
        stored = sorted(self._offsets.stored(group.group_id))
        pieces = in_writes(OffsetsDeleted(group.group_id, stored), self._runtime.config)
        parts: list[list[Change]] = [[piece] for piece in pieces] or [[]]
        parts[-1].append(GroupDeleted(group.group_id))
        self._runtime.write(DeleteGroupWrite(deletion, group, parts), now)


def list_response(request: ListGroupsRequest, groups: Iterable[ListedGroup]) -> ListGroupsResponse:
    """Those of the groups that the request asks for."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    listed = tuple(
        group
        for group in groups
        if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
    )
    return ListGroupsResponse(Error.NONE, listed)


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
    """Drop a group whose tombstone has committed."""
    runtime.cancel_timers(group)
    if runtime.groups.get(group.group_id) is group:
        del runtime.groups[group.group_id]


def revive(runtime: Runtime, group: Group) -> None:
    """Put an Empty group back in the place of one whose tombstone could not be written."""
    bury(runtime, group)
    runtime.groups[group.group_id] = group.reborn()
    runtime.reap(group.group_id)


class _Deletion:
    """One DeleteGroups request. It is answered when the outcome of all its groups is known, or one has timed out."""

    def __init__(self, runtime: Runtime, token: Token, results: list[tuple[str, int]], undecided: set[str]) -> None:
        self.runtime = runtime
        self._token = token
        self._results = results
        self._undecided = undecided
        self._errors: dict[str, int] = {}

    def decided(self, group_id: str, error: int) -> None:
        self._undecided.discard(group_id)
        self._errors[group_id] = error
        if not self._undecided:
            self._answer()

    def timed_out(self) -> None:
        """Answer the request. Groups whose tombstones may still commit stay Dead until that is known."""
        self._answer()

    def _answer(self) -> None:
        open_ = dict.fromkeys(self._undecided, int(Error.COORDINATOR_NOT_AVAILABLE)) | self._errors
        results = tuple((group_id, code or open_.get(group_id, 0)) for group_id, code in self._results)
        self.runtime.answer(self._token, DeleteGroupsResponse(results))


class DeleteGroupWrite(Write):
    """The first part of a group's tombstones. Each of the others waits until the one before has committed."""

    __slots__ = ("_deletion", "_group", "_rest")

    def __init__(self, deletion: _Deletion, group: Group, parts: list[list[Change]]) -> None:
        super().__init__(parts[0])
        self._deletion = deletion
        self._group = group
        self._rest = parts[1:]

    def committed(self, now: Now) -> None:
        runtime = self._deletion.runtime
        runtime.metrics.offset_deletions += sum(
            len(change.partitions) for change in self.changes if isinstance(change, OffsetsDeleted)
        )
        if self._rest:
            runtime.write(DeleteGroupWrite(self._deletion, self._group, self._rest), now)
            return
        runtime.metrics.group_deletions += 1
        bury(runtime, self._group)
        self._deletion.decided(self._group.group_id, Error.NONE)

    def failed(self, error: int, now: Now) -> None:
        self._deletion.decided(self._group.group_id, error)
        revive(self._deletion.runtime, self._group)

    def timed_out(self, now: Now) -> None:
        self._deletion.timed_out()
