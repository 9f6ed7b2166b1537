"""AlterPartitionReassignments: other brokers for partitions, or an end to a move that is under way (KIP-455)."""

from __future__ import annotations

from functools import partial
from typing import Any

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
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
    """Answered when the move has begun; ListPartitionReassignments tells when it has ended."""
    m: AlterPartitionReassignmentsRequest = request.message
    arguments = {
        "partitions": [[t.name, p.partition_index, p.replicas] for t in m.topics for p in t.partitions],
        "allow_factor_change": request.version < 1 or m.allow_replication_factor_change,
    }
    forward(context.broker, request, "alter_reassignments", arguments, partial(_answer, m), failed)


def _answer(
    m: AlterPartitionReassignmentsRequest, results: list[dict[str, Any]]
) -> AlterPartitionReassignmentsResponse:
    topics: dict[str, Topic] = {}
    for r in results:
        topic = topics.setdefault(r["topic"], Topic(name=r["topic"], partitions=[]))
        topic.partitions.append(
            Partition(partition_index=r["index"], error_code=r["error_code"], error_message=r["error_message"])
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=m.allow_replication_factor_change, responses=list(topics.values())
    )


def failed(
    message: ApiMessage, version: int, code: ErrorCode, text: str | None = None
) -> AlterPartitionReassignmentsResponse:
    """The whole request refused."""
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=text)
