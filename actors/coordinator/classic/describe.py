"""DescribeGroups, versions 0 to 5. A group of another type is shown as one that does not exist, as by Kafka."""

from __future__ import annotations

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.member import Member
from actors.coordinator.classic.messages import (
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from actors.coordinator.classic.states import GroupState
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.turn import Now, Token


class Describe:
    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime

    def handle(self, token: Token, request: DescribeGroupsRequest, now: Now) -> None:
        described = tuple(self._describe(group_id) for group_id in request.group_ids)
        self._runtime.replies.append((token, DescribeGroupsResponse(described)))

    def _describe(self, group_id: str | None) -> DescribedGroup:
        if group_id is None:
            return DescribedGroup(Error.INVALID_GROUP_ID, "")
        found = self._runtime.groups.get(group_id)
        group = None if found is None else found.shown
        if (
            not isinstance(group, ClassicGroup)
            or group.state is GroupState.DEAD
            or self._runtime.durable.get(group_id) is None
        ):
            is_other = group is not None and not isinstance(group, ClassicGroup)
            other_type = group.type_name if group is not None and is_other else ""
            return DescribedGroup(Error.NONE, group_id, GroupState.DEAD.value, other_type=other_type)
        stable = group.state is GroupState.STABLE
        return DescribedGroup(
            error_code=Error.NONE,
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if stable else "",
            members=tuple(_described(m, group.protocol_name, stable) for m in group.members.values()),
        )


def _described(member: Member, protocol_name: str | None, stable: bool) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol_name) if stable else b"",
        member_assignment=member.assignment,
    )
