"""ListPartitionReassignments: the partitions that are being moved to other brokers (KIP-455)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from placement.metadata import PartitionInfo

API = ListPartitionReassignmentsRequest
VERSIONS = (0, 0)

Topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
Partition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


def handle(context: HandlerContext, request: Request) -> ListPartitionReassignmentsResponse:
    """Answered at once, from the last image."""
    m: ListPartitionReassignmentsRequest = request.message
    topics = context.broker.metadata.topics
    if m.topics is None:
        asked = [(name, i) for name, topic in topics.items() for i in range(len(topic.partitions))]
    else:
        asked = [(topic.name, i) for topic in m.topics for i in topic.partition_indexes]
    found: dict[str, Topic] = {}
    for name, index in asked:
        partition = context.broker.metadata.partition(name, index)
        if partition is not None and (partition.adding or partition.removing):
            found.setdefault(name, Topic(name=name, partitions=[])).partitions.append(_described(index, partition))
    return ListPartitionReassignmentsResponse(topics=list(found.values()))


def _described(index: int, p: PartitionInfo) -> Partition:
    return Partition(
        partition_index=index,
        replicas=list(p.replicas),
        adding_replicas=list(p.adding),
        removing_replicas=list(p.removing),
    )


def failed(
    message: ApiMessage, version: int, code: ErrorCode, text: str | None = None
) -> ListPartitionReassignmentsResponse:
    """The whole request refused."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=text)
