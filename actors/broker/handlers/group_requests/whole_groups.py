"""DescribeGroups, DeleteGroups and ListGroups: they are cut, sent to each shard, and the answers are merged.

The first two name groups. A group that is named twice is answered once: else a small request could have a huge answer.
ListGroups means all groups. A long description of one group goes on as its shard has made it.
"""

from __future__ import annotations

from actors.broker.handlers.authorization import denied, operations, would
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.group_requests.cutting import Cut, by_partition
from actors.broker.handlers.rights import DELETE_GROUP, DESCRIBE_CLUSTER, DESCRIBE_GROUP
from actors.coordinator_kinds.groups import GROUPS
from actors.group_api.list_groups import listed
from actors.security.acl import ResourceType
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    ApiMessage,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from actors.wire.operations import NOT_ASKED

_PLAIN_DELETIONS = 2
"""The last version of DeleteGroups without messages: there are none to tell, and shards of older builds know it."""


def describe_groups(context: HandlerContext, request: Request) -> None:
    """DescribeGroups: sent to the shards of its groups."""
    m: DescribeGroupsRequest = request.message
    also = m.include_authorized_operations
    named = dict.fromkeys(m.groups)
    forbidden = denied(context, request, DESCRIBE_GROUP, named)
    asked = [group for group in named if group not in forbidden]
    parts: list[tuple[int, ApiMessage]] = [
        (partition, DescribeGroupsRequest(groups=groups, include_authorized_operations=also))
        for partition, groups in by_partition(context, asked).items()
    ]

    def merge(answers: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        found = {g.group_id: g for a in answers for g in a.groups}
        for each in found.values():
            if each.authorized_operations != NOT_ASKED:
                each.authorized_operations = operations(context, request, ResourceType.GROUP, each.group_id)
        unknown = DescribeGroupsResponse.DescribedGroup
        for group in named:
            if group in forbidden:
                found[group] = unknown(group_id=group, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        lost = ErrorCode.COORDINATOR_NOT_AVAILABLE  # if an answer leaves a group out
        return DescribeGroupsResponse(
            groups=[found.get(group) or unknown(group_id=group, error_code=lost) for group in named]
        )

    cut = Cut(parts, merge)
    if len(named) == len(parts) == 1 and not also:
        cut.pass_on(context, request)  # a group without members, as one with an error, is short
    else:
        cut.describe(context, request)


def delete_groups(context: HandlerContext, request: Request) -> None:
    """DeleteGroups: sent to the shards of its groups."""
    m: DeleteGroupsRequest = request.message
    forbidden = denied(context, request, DELETE_GROUP, m.groups_names)
    asked = [group for group in dict.fromkeys(m.groups_names) if group not in forbidden]
    parts: list[tuple[int, ApiMessage]] = [
        (partition, DeleteGroupsRequest(groups_names=groups))
        for partition, groups in by_partition(context, asked).items()
    ]

    def merge(answers: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        found = {r.group_id: r for a in answers for r in a.results}
        refused = DeleteGroupsResponse.DeletableGroupResult
        for group in forbidden:
            found[group] = refused(group_id=group, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return DeleteGroupsResponse(results=[found[group] for group in dict.fromkeys(m.groups_names) if group in found])

    Cut(parts, merge, newest=_PLAIN_DELETIONS).ask(context, request)


def list_groups(context: HandlerContext, request: Request) -> None:
    """ListGroups: sent to all shards led here. One that has moved away is left out; any other error is answered.

    The groups of shards that sleep are known, so these sleep on.
    """
    shards = context.coordinators[GROUPS]
    asleep = listed(request.message, shards.asleep())
    parts: list[tuple[int, ApiMessage]] = [(partition, request.message) for partition in shards.led()]

    def merge(answers: list[ListGroupsResponse]) -> ListGroupsResponse:
        errors = [a.error_code for a in answers if a.error_code not in (0, ErrorCode.NOT_COORDINATOR)]
        if errors:
            return ListGroupsResponse(error_code=errors[0])
        groups = [g for a in answers for g in a.groups] + asleep.groups
        if not would(context, request, DESCRIBE_CLUSTER):
            groups = [group for group in groups if would(context, request, DESCRIBE_GROUP, group.group_id)]
        return ListGroupsResponse(groups=groups)

    Cut(parts, merge).ask(context, request)
