"""ListGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from actors.coordinator.errors import Error
from actors.coordinator.groups.group import Group
from actors.coordinator.groups.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from actors.coordinator.groups.offset_records import OffsetsDeleted
from actors.coordinator.groups.offsets import Offsets
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.groups.sweep import in_writes
from actors.coordinator.turn import Now, Token
from actors.coordinator.writer import Write


class Admin:
    def __init__(self, runtime: GroupRuntime, offsets: Offsets) -> None:
        self._runtime = runtime
        self._offsets = offsets

    # -- ListGroups, versions 0 to 5

    def list_groups(self, token: Token, request: ListGroupsRequest, now: Now) -> None:
        """Lists the groups that exist by records that have committed."""
        self._runtime.replies.append((token, list_response(request, map(listing, self._committed()))))

    def _committed(self) -> list[Group]:
        groups = self._runtime.groups
        return [groups[group_id].shown for group_id, _ in self._runtime.durable.items() if group_id in groups]

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
        if group is None or group.is_dead:
            return Error.GROUP_ID_NOT_FOUND
        return Error.NONE if group.is_empty else Error.NON_EMPTY_GROUP

    def _write_tombstones(self, deletion: _Deletion, group: Group, now: Now) -> None:
        """Write the offsets' tombstones before the group's, so that none outlives it, in appends that the log takes."""
        stored = sorted(self._offsets.stored(group.group_id))
        pieces = in_writes(OffsetsDeleted(group.group_id, stored), self._runtime.config)
        parts: list[list[Any]] = [[piece] for piece in pieces] or [[]]
        parts[-1] += group.tombstones()
        self._runtime.write(DeleteGroupWrite(deletion, group, parts), now)


def listing(group: Group) -> ListedGroup:
    """A group as it is listed."""
    return ListedGroup(group.group_id, group.listed_protocol_type, group.state_name, group.type_name)


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


class _Deletion:
    """One DeleteGroups request. It is answered when the outcome of all its groups is known, or one has timed out."""

    def __init__(
        self, runtime: GroupRuntime, token: Token, results: list[tuple[str, int]], undecided: set[str]
    ) -> None:
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

    def __init__(self, deletion: _Deletion, group: Group, parts: list[list[Any]]) -> None:
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
        runtime.bury(self._group)
        self._deletion.decided(self._group.group_id, Error.NONE)

    def failed(self, error: int, now: Now) -> None:
        self._deletion.decided(self._group.group_id, error)
        self._deletion.runtime.revive(self._group)

    def timed_out(self, now: Now) -> None:
        self._deletion.timed_out()
