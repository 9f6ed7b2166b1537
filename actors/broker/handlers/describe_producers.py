"""DescribeProducers: the idempotent producers a partition's log remembers (KIP-664)."""

from __future__ import annotations

from actors.broker.context import BrokerContext
from actors.broker.handlers.authorization import denied
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.rights import READ_TOPIC
from actors.log.partition_log import PartitionLog
from actors.records.batch import NO_SEQUENCE, NO_TIMESTAMP
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeProducersRequest, DescribeProducersResponse
from placement.metadata import topic_name_error

API = DescribeProducersRequest
VERSIONS = (0, 0)

Topic = DescribeProducersResponse.TopicResponse
Partition = DescribeProducersResponse.PartitionResponse
Producer = DescribeProducersResponse.ProducerState


def handle(context: HandlerContext, request: Request) -> DescribeProducersResponse:
    """Answered at once, by any broker that has a replica, from its own log; once for what is named twice."""
    m: DescribeProducersRequest = request.message
    named: dict[str, dict[int, None]] = {}
    for topic in m.topics:
        named.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    forbidden = denied(context, request, READ_TOPIC, (name for name in named if not topic_name_error(name)))
    return DescribeProducersResponse(
        topics=[
            Topic(
                name=name,
                partitions=[
                    _refused(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
                    if name in forbidden
                    else _partition(context.broker, name, index)
                    for index in indexes
                ],
            )
            for name, indexes in named.items()
        ]
    )


def _partition(broker: BrokerContext, topic: str, index: int) -> Partition:
    if wrong := topic_name_error(topic):
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    if broker.metadata.partition(topic, index) is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index} does not exist")
    if not broker.holds(topic, index):
        text = f"broker {broker.broker_id} has no replica of {topic}-{index}"
        return _refused(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
    if (topic, index) in broker.data_dir.not_opened:
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{index} cannot be opened")
    found = broker.held_log(topic, index)
    return Partition(partition_index=index, active_producers=[] if found is None else _active(found))


def _active(found: PartitionLog) -> list[Producer]:
    """The producers. `coordinator_epoch` and `current_txn_start_offset` stay -1, as they concern transactions."""
    producers = []
    for producer_id, entry in found.producers.items():
        last = entry.batches[-1] if entry.batches else None
        producers.append(
            Producer(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=last.last_sequence if last else NO_SEQUENCE,
                last_timestamp=last.timestamp_ms if last else NO_TIMESTAMP,
                coordinator_epoch=-1,
            )
        )
    return producers


def _refused(index: int, code: ErrorCode, text: str | None) -> Partition:
    return Partition(partition_index=index, error_code=code, error_message=text)


def _all_refused(topic: DescribeProducersRequest.TopicRequest, code: ErrorCode, text: str | None) -> Topic:
    return Topic(name=topic.name, partitions=[_refused(index, code, text) for index in topic.partition_indexes])


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DescribeProducersResponse:
    """The whole request refused."""
    assert isinstance(message, DescribeProducersRequest)
    return DescribeProducersResponse(topics=[_all_refused(t, code, text) for t in message.topics])
