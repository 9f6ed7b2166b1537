"""Requests about groups of several shards: they are cut, sent to each shard, and the answers are merged.

DescribeGroups and DeleteGroups name groups, and so does OffsetFetch from version 8 on; ListGroups means all. A group
that is named twice is answered once: else a small request could have a huge answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from actors.broker.context import BrokerContext
from actors.broker.handlers import judged_offsets
from actors.broker.handlers.authorization import denied, operations, would
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.rights import DELETE_GROUP, DESCRIBE_CLUSTER, DESCRIBE_GROUP
from actors.coordinator_kinds.groups import GROUPS
from actors.group_api import offset_fetch
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
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from actors.wire.operations import NOT_ASKED


def _gather(
    context: HandlerContext,
    version: int,
    parts: list[tuple[int, ApiMessage]],
    merge: Callable[[list[Any]], ApiMessage],
    reply: Callable[[ApiMessage], None],
) -> None:
    """Send each (partition, message). When all have answered, merge the answers, in the order of the parts."""
    answers: list[Any] = [None] * len(parts)
    missing = len(parts)
    if not parts:
        reply(merge([]))

    def collect(index: int) -> Callable[[ApiMessage], None]:
        def done(answer: ApiMessage) -> None:
            nonlocal missing
            answers[index] = answer
            missing -= 1
            if missing == 0:
                reply(merge(answers))

        return done

    for index, (partition, message) in enumerate(parts):
        context.coordinators[GROUPS].ask(partition, message, version, collect(index))


def _by_partition(broker: BrokerContext, groups: Iterable[str]) -> dict[int, list[str]]:
    shares: dict[int, list[str]] = {}
    for group in groups:
        shares.setdefault(broker.partition_of(GROUPS, group), []).append(group)
    return shares


def describe_groups(context: HandlerContext, request: Request) -> None:
    """DescribeGroups: sent to the shards of its groups."""
    m: DescribeGroupsRequest = request.message
    also = m.include_authorized_operations
    named = dict.fromkeys(m.groups)
    forbidden = denied(context, request, DESCRIBE_GROUP, named)
    asked = [group for group in named if group not in forbidden]
    parts: list[tuple[int, ApiMessage]] = [
        (partition, DescribeGroupsRequest(groups=groups, include_authorized_operations=also))
        for partition, groups in _by_partition(context.broker, asked).items()
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

    _gather(context, request.version, parts, merge, request.reply)


def delete_groups(context: HandlerContext, request: Request) -> None:
    """DeleteGroups: sent to the shards of its groups."""
    m: DeleteGroupsRequest = request.message
    forbidden = denied(context, request, DELETE_GROUP, m.groups_names)
    asked = [group for group in dict.fromkeys(m.groups_names) if group not in forbidden]
    parts: list[tuple[int, ApiMessage]] = [
        (partition, DeleteGroupsRequest(groups_names=groups))
        for partition, groups in _by_partition(context.broker, asked).items()
    ]

    def merge(answers: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        found = {r.group_id: r for a in answers for r in a.results}
        refused = DeleteGroupsResponse.DeletableGroupResult
        for group in forbidden:
            found[group] = refused(group_id=group, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return DeleteGroupsResponse(results=[found[group] for group in dict.fromkeys(m.groups_names) if group in found])

    _gather(context, request.version, parts, merge, request.reply)


def list_groups(context: HandlerContext, request: Request) -> None:
    """ListGroups: sent to all shards led here. One that has moved away is left out; any other error is answered.

    The groups of shards that sleep are known, so these sleep on.
    """
    asleep = listed(request.message, context.coordinators[GROUPS].asleep())
    parts: list[tuple[int, ApiMessage]] = [
        (partition, request.message) for partition in context.coordinators[GROUPS].led()
    ]

    def merge(answers: list[ListGroupsResponse]) -> ListGroupsResponse:
        errors = [a.error_code for a in answers if a.error_code not in (0, ErrorCode.NOT_COORDINATOR)]
        if errors:
            return ListGroupsResponse(error_code=errors[0])
        groups = [g for a in answers for g in a.groups] + asleep.groups
        if not would(context, request, DESCRIBE_CLUSTER):
            groups = [group for group in groups if would(context, request, DESCRIBE_GROUP, group.group_id)]
        return ListGroupsResponse(groups=groups)

    _gather(context, request.version, parts, merge, request.reply)


def offset_fetch_groups(context: HandlerContext, request: Request) -> None:
    """OffsetFetch of several groups (KIP-709): one request for each group."""
    m: OffsetFetchRequest = request.message
    first = {group.group_id: group for group in reversed(m.groups)}
    m.groups = list(reversed(first.values()))
    if context.broker.authorizer is not None:
        _judged_groups(context, request)
        return
    parts: list[tuple[int, ApiMessage]] = [
        (context.broker.partition_of(GROUPS, part.groups[0].group_id), part) for part in offset_fetch.split(m)
    ]

    def merge(answers: list[OffsetFetchResponse]) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=[g for a in answers for g in a.groups])

    _gather(context, request.version, parts, merge, request.reply)


def _judged_groups(context: HandlerContext, request: Request) -> None:
    """The same where ACLs are checked: each group, and each topic of a group."""
    m: OffsetFetchRequest = request.message
    forbidden = denied(context, request, DESCRIBE_GROUP, (group.group_id for group in m.groups))
    answers: list[OffsetFetchResponse.OffsetFetchResponseGroup | None] = [
        judged_offsets.GroupAnswer(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if group.group_id in forbidden
        else None
        for group in m.groups
    ]
    waiting = [index for index, answer in enumerate(answers) if answer is None]
    missing = len(waiting)

    def reply() -> None:
        request.reply(OffsetFetchResponse(groups=[answer for answer in answers if answer is not None]))

    def found(index: int) -> Callable[[OffsetFetchResponse.OffsetFetchResponseGroup], None]:
        def done(answer: OffsetFetchResponse.OffsetFetchResponseGroup) -> None:
            nonlocal missing
            answers[index] = answer
            missing -= 1
            if not missing:
                reply()

        return done

    if not waiting:
        reply()
    for index in waiting:
        judged_offsets.Judged(context, request, m.groups[index]).find(found(index))
