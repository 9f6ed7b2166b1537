"""AlterReplicaLogDirs: refused, because a broker has one directory (KIP-113)."""

from __future__ import annotations

from pathlib import Path

from actors.broker.context import BrokerContext
from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, ApiMessage

API = AlterReplicaLogDirsRequest
VERSIONS = (1, 2)

Topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
Partition = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


def handle(context: HandlerContext, request: Request) -> AlterReplicaLogDirsResponse:
    """Answered at once. It is no error to name the directory that the replica is in."""
    m: AlterReplicaLogDirsRequest = request.message
    topics: dict[str, Topic] = {}
    for directory in m.dirs:
        here = Path(directory.path) == context.broker.data_dir.path.absolute()
        for topic in directory.topics:
            answer = topics.setdefault(topic.name, Topic(topic_name=topic.name, partitions=[]))
            for index in topic.partitions:
                code = _code(context.broker, topic.name, index) if here else ErrorCode.LOG_DIR_NOT_FOUND
                answer.partitions.append(Partition(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _code(broker: BrokerContext, topic: str, index: int) -> ErrorCode:
    return ErrorCode.NONE if broker.holds(topic, index) else ErrorCode.REPLICA_NOT_AVAILABLE


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> AlterReplicaLogDirsResponse:
    """The whole request refused."""
    assert isinstance(message, AlterReplicaLogDirsRequest)
    return AlterReplicaLogDirsResponse(
        results=[
            Topic(
                topic_name=topic.name,
                partitions=[Partition(partition_index=index, error_code=code) for index in topic.partitions],
            )
            for directory in message.dirs
            for topic in directory.topics
        ]
    )
