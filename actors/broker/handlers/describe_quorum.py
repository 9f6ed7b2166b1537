"""DescribeQuorum: the controller, as the one voter of the metadata log, and the brokers that read it (KIP-595, 836)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.operations import DescribeQuorum, Observer, Quorum
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeQuorumRequest, DescribeQuorumResponse

API = DescribeQuorumRequest
VERSIONS = (0, 2)

METADATA_TOPIC = "__cluster_metadata"
CONTROLLER_ID = 3000
"""The controller's node id in the answer, which needs one: as in Kafka's examples, far from those of brokers."""

Topic = DescribeQuorumResponse.TopicData
Partition = DescribeQuorumResponse.PartitionData
Replica = DescribeQuorumResponse.ReplicaState
Node = DescribeQuorumResponse.Node
Listener = DescribeQuorumResponse.Listener


def handle(context: HandlerContext, request: Request) -> DescribeQuorumResponse | None:
    """Answered by the controller: where its log ends, and how far each broker has it."""
    m: DescribeQuorumRequest = request.message
    if [(t.topic_name, [p.partition_index for p in t.partitions]) for t in m.topics] != [(METADATA_TOPIC, [0])]:
        return _unknown(m)
    forward(context.broker, request, DescribeQuorum(), _answer, failed)
    return None


def _answer(quorum: Quorum) -> DescribeQuorumResponse:
    """The answer. The high watermark is the log's end, because there is no other voter."""
    end, now_ms = quorum.log_end_offset, quorum.now_ms
    partition = Partition(
        error_message=None,
        leader_id=CONTROLLER_ID,
        leader_epoch=quorum.controller_epoch,
        high_watermark=end,
        current_voters=[_replica(Observer(CONTROLLER_ID, end, now_ms, now_ms))],
        observers=[_replica(each) for each in quorum.brokers],
    )
    listener = Listener(name="CONTROLLER", host=quorum.host, port=quorum.port)
    return DescribeQuorumResponse(
        error_message=None,
        topics=[Topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=[Node(node_id=CONTROLLER_ID, listeners=[listener])],
    )


def _replica(node: Observer) -> Replica:
    return Replica(
        replica_id=node.broker_id,
        log_end_offset=node.log_end_offset,
        last_fetch_timestamp=node.heard_ms,
        last_caught_up_timestamp=node.caught_up_ms,
    )


def _unknown(m: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    text = f"only partition 0 of {METADATA_TOPIC} has a quorum, and it has to be asked for alone"
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            Topic(
                topic_name=topic.topic_name,
                partitions=[
                    Partition(partition_index=p.partition_index, error_code=code, error_message=text)
                    for p in topic.partitions
                ],
            )
            for topic in m.topics
        ],
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DescribeQuorumResponse:
    """The whole request refused."""
    return DescribeQuorumResponse(error_code=code, error_message=text)
