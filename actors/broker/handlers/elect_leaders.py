"""ElectLeaders: makes the first replica the leader, or one out of sync if no other may lead (KIP-183, KIP-460)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.operations import ElectedLeaders, ElectLeaders
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, ElectLeadersRequest, ElectLeadersResponse

API = ElectLeadersRequest
VERSIONS = (0, 2)

Topic = ElectLeadersResponse.ReplicaElectionResult
Partition = ElectLeadersResponse.PartitionResult

_TYPES = (0, 1)


def handle(context: HandlerContext, request: Request) -> ElectLeadersResponse | None:
    """Answered by the controller. Before version 1 all elections are of preferred leaders."""
    m: ElectLeadersRequest = request.message
    kind = m.election_type if request.version >= 1 else 0
    if kind not in _TYPES:
        return failed(m, request.version, ErrorCode.INVALID_REQUEST)
    asked = None
    if m.topic_partitions is not None:
        asked = tuple((t.topic, i) for t in m.topic_partitions for i in t.partitions)
    forward(context.broker, request, ElectLeaders(kind, asked), _answer, failed)
    return None


def _answer(elected: ElectedLeaders) -> ElectLeadersResponse:
    topics: dict[str, Topic] = {}
    for p in elected.partitions:
        topic = topics.setdefault(p.topic, Topic(topic=p.topic, partition_result=[]))
        topic.partition_result.append(
            Partition(partition_id=p.index, error_code=p.error_code, error_message=p.error_message)
        )
    return ElectLeadersResponse(replica_election_results=list(topics.values()))


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> ElectLeadersResponse:
    """The whole request refused. Before version 1 only partitions have a field for the error."""
    assert isinstance(message, ElectLeadersRequest)
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            Topic(
                topic=t.topic,
                partition_result=[Partition(partition_id=i, error_code=code, error_message=text) for i in t.partitions],
            )
            for t in message.topic_partitions or ()
        ],
    )
