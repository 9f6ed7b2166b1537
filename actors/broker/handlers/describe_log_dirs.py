"""DescribeLogDirs: how large this broker's logs are, how far they lag, and how full their volume is (KIP-113, 827)."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator

from actors.broker.context import BrokerContext
from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeLogDirsRequest, DescribeLogDirsResponse

log = logging.getLogger(__name__)

API = DescribeLogDirsRequest
VERSIONS = (1, 5)  # no directory is ever cordoned (KIP-1066)

Result = DescribeLogDirsResponse.DescribeLogDirsResult
Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
Partition = DescribeLogDirsResponse.DescribeLogDirsPartition


def handle(context: HandlerContext, request: Request) -> DescribeLogDirsResponse:
    """Answered at once. A broker has one directory. If its disk fails, that is the directory's error."""
    m: DescribeLogDirsRequest = request.message
    path = str(context.broker.data_dir.path.absolute())
    try:
        volume = shutil.disk_usage(path)
    except OSError as error:
        log.error("%s: %s", path, error)
        return DescribeLogDirsResponse(results=[Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)])
    wanted = None if m.topics is None else {(t.topic, index) for t in m.topics for index in t.partitions}
    topics: dict[str, Topic] = {}
    for name, index in _held(context.broker):
        if wanted is None or (name, index) in wanted:
            topics.setdefault(name, Topic(name=name, partitions=[])).partitions.append(_partition(context, name, index))
    result = Result(log_dir=path, topics=list(topics.values()), total_bytes=volume.total, usable_bytes=volume.free)
    return DescribeLogDirsResponse(results=[result])


def _held(broker: BrokerContext) -> Iterator[tuple[str, int]]:
    """The partitions of which this broker has a replica, without those whose log cannot be opened."""
    for name, topic in broker.metadata.topics.items():
        for index in range(len(topic.partitions)):
            if broker.holds(name, index) and (name, index) not in broker.data_dir.not_opened:
                yield name, index


def _partition(context: HandlerContext, topic: str, index: int) -> Partition:
    found = context.broker.held_log(topic, index)
    if found is None:  # a log is made when it is first used
        return Partition(partition_index=index)
    lag = context.replication.lag(topic, index)
    return Partition(partition_index=index, partition_size=found.size_bytes, offset_lag=lag)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DescribeLogDirsResponse:
    """The whole request refused. Before version 3 there is no field for the error."""
    return DescribeLogDirsResponse(error_code=code)
