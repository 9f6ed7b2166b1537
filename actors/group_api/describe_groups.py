"""DescribeGroups: from Kafka's message to the coordinator and back. The broker asks each shard for its own groups."""

from __future__ import annotations

from actors.coordinator.classic import messages as core
from actors.group_api.topics import Topics
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader
from actors.wire.messages import DescribeGroupsRequest, DescribeGroupsResponse
from actors.wire.operations import GROUP_OPERATIONS, NOT_ASKED

API = DescribeGroupsRequest
VERSIONS = (0, 6)


def parse(header: RequestHeader, m: DescribeGroupsRequest, host: str, topics: Topics) -> core.DescribeGroupsRequest:
    return core.DescribeGroupsRequest(tuple(m.groups))


def answer(
    m: DescribeGroupsRequest, r: core.DescribeGroupsResponse, version: int, topics: Topics
) -> DescribeGroupsResponse:
    operations = GROUP_OPERATIONS if m.include_authorized_operations else NOT_ASKED
    return DescribeGroupsResponse(groups=[_described(group, version, operations) for group in r.groups])


def _described(g: core.DescribedGroup, version: int, operations: int) -> DescribeGroupsResponse.DescribedGroup:
    # From version 6 (KIP-1043) a group that does not exist is an error; before, it is a group that is Dead.
    missing = version >= 6 and g.error_code == 0 and g.group_state == "Dead"
    why = f"Group {g.group_id} is a {g.other_type} group." if g.other_type else f"Group {g.group_id} not found."
    return DescribeGroupsResponse.DescribedGroup(
        error_code=int(ErrorCode.GROUP_ID_NOT_FOUND) if missing else g.error_code,
        error_message=why if missing else None,
        group_id=g.group_id,
        group_state=g.group_state,
        protocol_type=g.protocol_type,
        protocol_data=g.protocol_data,
        members=[
            DescribeGroupsResponse.DescribedGroupMember(
                member_id=x.member_id,
                group_instance_id=x.group_instance_id,
                client_id=x.client_id,
                client_host=x.client_host,
                member_metadata=x.member_metadata,
                member_assignment=x.member_assignment,
            )
            for x in g.members
        ],
        authorized_operations=NOT_ASKED if missing or g.error_code else operations,
    )
