"""DescribeQuorum: the controllers, which vote on the metadata log, and the brokers that read it (KIP-595, 836, 853)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.operations import DescribeQuorum, Observer, Quorum, QuorumNode
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeQuorumRequest, DescribeQuorumResponse

API = DescribeQuorumRequest
VERSIONS = (0, 2)

METADATA_TOPIC = "__cluster_metadata"
CONTROLLER_ID = 3000
"""The first controller's node id in the answer, far from those of brokers, as in Kafka's examples. Others follow it."""

Topic = DescribeQuorumResponse.TopicData
Partition = DescribeQuorumResponse.PartitionData
Replica = DescribeQuorumResponse.ReplicaState
Node = DescribeQuorumResponse.Node
Listener = DescribeQuorumResponse.Listener


def handle(context: HandlerContext, request: Request) -> DescribeQuorumResponse | None:
    """Answered by the controller that leads: where its log ends, and how far each controller and broker has it."""
    m: DescribeQuorumRequest = request.message
    if [(t.topic_name, [p.partition_index for p in t.partitions]) for t in m.topics] != [(METADATA_TOPIC, [0])]:
        return _unknown(m)
    forward(context.broker, request, DescribeQuorum(), _answer, failed)
    return None


def _answer(quorum: Quorum) -> DescribeQuorumResponse:
    """The answer. A controller that is the only one is the one voter, and its log has committed to its end."""
    now_ms = quorum.now_ms
    alone = QuorumNode(0, "", quorum.host, quorum.port, quorum.log_end_offset, now_ms, now_ms, votes=True, leads=True)
    nodes = quorum.controllers or (alone,)
    leader = next((node for node in nodes if node.leads), alone)
    partition = Partition(
        error_message=None,
        leader_id=_id(leader),
        leader_epoch=quorum.controller_epoch,
        high_watermark=quorum.log_end_offset if quorum.high_watermark < 0 else quorum.high_watermark,
        current_voters=[_node(each) for each in nodes if each.votes],
        observers=[*(_node(each) for each in nodes if not each.votes), *map(_replica, quorum.brokers)],
    )
    return DescribeQuorumResponse(
        error_message=None,
        topics=[Topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=[
            Node(node_id=_id(each), listeners=[Listener(name="CONTROLLER", host=each.host, port=each.port)])
            for each in nodes
            if each.votes and each.host
        ],
    )


def _id(node: QuorumNode) -> int:
    return CONTROLLER_ID + node.controller_id


def _node(node: QuorumNode) -> Replica:
    return Replica(
        replica_id=_id(node),
        replica_directory_id=bytes.fromhex(node.directory) or bytes(16),
        log_end_offset=node.log_end_offset,
        last_fetch_timestamp=node.heard_ms,
        last_caught_up_timestamp=node.caught_up_ms,
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
