"""AlterPartitionReassignments: moves partitions to other brokers, or ends a move that is under way (KIP-455)."""

from __future__ import annotations

from functools import partial

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.operations import AlteredReassignments, AlterReassignments, Reassignment
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ApiMessage,
)

API = AlterPartitionReassignmentsRequest
VERSIONS = (0, 1)

Topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
Partition = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse


def handle(context: HandlerContext, request: Request) -> None:
    """Answered when the moves have begun; ListPartitionReassignments tells when they have ended."""
    m: AlterPartitionReassignmentsRequest = request.message
    moves = tuple(
        Reassignment(t.name, p.partition_index, None if p.replicas is None else tuple(p.replicas))
        for t in m.topics
        for p in t.partitions
    )
    operation = AlterReassignments(moves, request.version < 1 or m.allow_replication_factor_change)
    forward(context.broker, request, operation, partial(_answer, m), failed)


def _answer(
    m: AlterPartitionReassignmentsRequest, altered: AlteredReassignments
) -> AlterPartitionReassignmentsResponse:
    topics: dict[str, Topic] = {}
    for p in altered.partitions:
        topic = topics.setdefault(p.topic, Topic(name=p.topic, partitions=[]))
        topic.partitions.append(
            Partition(partition_index=p.index, error_code=p.error_code, error_message=p.error_message)
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=m.allow_replication_factor_change, responses=list(topics.values())
    )


def failed(
    message: ApiMessage, version: int, code: ErrorCode, text: str | None = None
) -> AlterPartitionReassignmentsResponse:
    """The whole request refused. Each partition has the error, too."""
    assert isinstance(message, AlterPartitionReassignmentsRequest)
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=text,
        responses=[
            Topic(
                name=topic.name,
                partitions=[
                    Partition(partition_index=p.partition_index, error_code=code, error_message=text)
                    for p in topic.partitions
                ],
            )
            for topic in message.topics
        ],
    )
