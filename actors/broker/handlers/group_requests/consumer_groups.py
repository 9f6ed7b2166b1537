"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848), as far as the broker has a part in them.

A heartbeat goes to its group's shard as it came, unless the protocol is off, or a topic that it names may not be
described: then the whole of it is refused. Descriptions are cut by shards, and their answers merged; long ones as
bytes, a piece in each turn of the broker's loop. That of one group goes on as its shard has made it, if there are no
ACLs by which it has to be judged: none at all, or none that could hide a topic from the client.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from typing import Final

from actors.broker.handlers.authorization import denied, hidden, may, operations, sees_all_topics
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.features import serves_consumer_groups
from actors.broker.handlers.group_requests.cutting import Cut, by_partition
from actors.broker.handlers.in_turns import Work, in_turns
from actors.broker.handlers.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC
from actors.broker.turns import PLACES_A_TURN
from actors.coordinator.consumer.validation import names_too_many
from actors.group_api.consumer_group_describe import body_of, encoded_group
from actors.security.acl import ResourceType
from actors.wire.described_groups import OPERATIONS_BYTES, GroupBytes, read_groups
from actors.wire.errors import ErrorCode
from actors.wire.framing import frame_response
from actors.wire.messages import (
    ApiMessage,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
)
from actors.wire.operations import NOT_ASKED

_Group = ConsumerGroupDescribeResponse.DescribedGroup
_NOT_ASKED: Final = NOT_ASKED.to_bytes(OPERATIONS_BYTES, "big", signed=True)

# -- ConsumerGroupHeartbeat


def refuse_heartbeat(context: HandlerContext, request: Request) -> ConsumerGroupHeartbeatResponse:
    """The answer while the protocol is off: no shard is asked."""
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


def cut(context: HandlerContext, request: Request) -> Cut | None:
    """The refusal of a heartbeat that names a topic which the client may not describe; None if it names none.

    One that names too many is not looked at, because other clients wait meanwhile: its shard refuses it.
    """
    names: list[str] = request.message.subscribed_topic_names or []
    if names_too_many(names) or all(may(context, request, DESCRIBE_TOPIC, name) for name in dict.fromkeys(names)):
        return None
    return Cut((), lambda _: ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))


# -- ConsumerGroupDescribe


def describe(context: HandlerContext, request: Request) -> ConsumerGroupDescribeResponse | None:
    """Sent to the shards of its groups."""
    m: ConsumerGroupDescribeRequest = request.message
    named = dict.fromkeys(m.group_ids)
    if not serves_consumer_groups(context.broker):
        return _refused(named, ErrorCode.UNSUPPORTED_VERSION)
    forbidden = denied(context, request, DESCRIBE_GROUP, named)
    also = m.include_authorized_operations
    parts: list[tuple[int, ApiMessage]] = [
        (partition, ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=also))
        for partition, groups in by_partition(context, [each for each in named if each not in forbidden]).items()
    ]

    def merge(answers: list[ConsumerGroupDescribeResponse]) -> ConsumerGroupDescribeResponse:
        found = {g.group_id: _judged(context, request, g) for a in answers for g in a.groups}
        found |= {g.group_id: g for g in _refused(forbidden, ErrorCode.GROUP_AUTHORIZATION_FAILED).groups}
        lost = ErrorCode.COORDINATOR_NOT_AVAILABLE  # if an answer leaves a group out
        return ConsumerGroupDescribeResponse(
            groups=[found.get(each) or _Group(group_id=each, error_code=lost) for each in named]
        )

    def merge_long(frames: list[bytes]) -> None:
        answer = in_turns(context, request, _merged(context, request, named, forbidden, frames), _failed)
        if answer is not None:
            request.reply(answer)

    cut = Cut(parts, merge)
    if len(named) == len(parts) == 1 and _goes_on(context, request):
        cut.pass_on(context, request)  # an error is short
    else:
        cut.describe(context, request, merge_long)
    return None


def _merged(
    context: HandlerContext, request: Request, named: Iterable[str], forbidden: Collection[str], frames: Sequence[bytes]
) -> Work:
    """Merge long answers of shards as `describe` merges short ones, and answer the request."""
    groups: dict[str, bytes] = {}
    refusals = {g.group_id: g for g in _refused(forbidden, ErrorCode.GROUP_AUTHORIZATION_FAILED).groups}
    judged = 0
    for frame in frames:
        found: list[GroupBytes] = []
        yield from read_groups(frame, request.version, found)
        yield None
        for group in found:
            judged += 1 + len(group.topics)
            if judged > PLACES_A_TURN:
                judged = 0
                yield None
            if (yield from _has_hidden(context, request, group.topics)):
                refusals[group.group_id] = _hidden_group(group.group_id)
                continue
            if group.error_code:
                refusals[group.group_id] = _Group(group_id=group.group_id, error_code=group.error_code)
            may_do = group.operations
            if may_do != _NOT_ASKED:
                allowed = operations(context, request, ResourceType.GROUP, group.group_id)
                may_do = allowed.to_bytes(OPERATIONS_BYTES, "big", signed=True)
            groups[group.group_id] = b"".join([group.before, may_do, group.tags])
    for group_id in named:
        if group_id not in groups:
            lost = _Group(group_id=group_id, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            groups[group_id] = encoded_group(refusals.setdefault(group_id, lost), request.version)
    body = body_of([groups[each] for each in named])
    header = request.header
    frame = frame_response(body, header.api_key, header.api_version, header.correlation_id)
    request.reply_frame(frame, ConsumerGroupDescribeResponse(groups=list(refusals.values())))
    return None


def _has_hidden(context: HandlerContext, request: Request, topics: Iterable[str]) -> Generator[None, None, bool]:
    """Finds out whether the client may not describe one of these topics."""
    names = list(topics)
    for first in range(0, len(names), PLACES_A_TURN):
        if first:
            yield None
        if hidden(context, request, DESCRIBE_TOPIC, names[first : first + PLACES_A_TURN]):
            return True
    return False


def _failed(m: ConsumerGroupDescribeRequest, version: int, code: ErrorCode) -> ConsumerGroupDescribeResponse:
    return _refused(dict.fromkeys(m.group_ids), code)


def _goes_on(context: HandlerContext, request: Request) -> bool:
    """True if a description, whatever topics its group has, needs neither judgement nor additions."""
    return not context.broker.authorizer.checks or (
        not request.message.include_authorized_operations and sees_all_topics(context, request)
    )


def _refused(groups: Iterable[str], code: ErrorCode) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_Group(group_id=each, error_code=code) for each in groups])


def _judged(context: HandlerContext, request: Request, group: _Group) -> _Group:
    """A group as the client may see it: not at all if it has a topic that the client may not describe."""
    if hidden(context, request, DESCRIBE_TOPIC, _topics(group)):
        return _hidden_group(group.group_id)
    if group.authorized_operations != NOT_ASKED:
        group.authorized_operations = operations(context, request, ResourceType.GROUP, group.group_id)
    return group


def _hidden_group(group_id: str) -> _Group:
    text = "The group has topics that the client may not describe."
    return _Group(group_id=group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=text)


def _topics(group: _Group) -> Iterable[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            if assignment is not None:
                yield from (each.topic_name for each in assignment.topic_partitions)
