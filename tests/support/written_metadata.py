"""A metadata log with a record of each of some kinds, and what it says when it is opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.controller.metadata.log import MetadataLog
from placement.metadata import BrokerInfo, PartitionInfo, TopicInfo
from placement.records import (
    BrokerConfigsRecord,
    BrokerRecord,
    ClusterRecord,
    ControllerEpochRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    TopicRecord,
)

RECORDS: list[Record] = [
    ClusterRecord("the-cluster-id-of-tests"),
    ControllerEpochRecord(4),
    BrokerRecord(BrokerInfo(0, "127.0.0.1", 9092, None, 0)),
    TopicRecord(TopicInfo("t", b"i" * 16, (PartitionInfo(0, 0, (0,), (0,)),), {"retention.ms": "5"})),
    PartitionRecord("t", 1, PartitionInfo(0, 3, (0,), (0,))),
    BrokerConfigsRecord("0", {"message.max.bytes": "1000"}),
    ProducerIdsRecord(3000),
]


def written(path: Path) -> list[Any]:
    log = MetadataLog(path)
    for record in RECORDS:
        append(log, record)
    log.close()
    return log.committed.to_wire()


def append(log: MetadataLog, *records: Record) -> None:
    """Append as the present controller."""
    assert log.append(records, log.decided.controller_epoch).done
    assert log.committed == log.decided


def reopened(path: Path) -> MetadataLog:
    log = MetadataLog(path)
    log.close()
    return log
