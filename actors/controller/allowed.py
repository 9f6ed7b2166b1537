"""The operations that brokers and Monitors may ask of the controller. A broker speaks for itself alone."""

from __future__ import annotations

from typing import Any, Final

from actors.controller.sessions import Session
from actors.links.acl_operations import CreateAcls, DeleteAcls
from actors.links.observations import LookAround, Watch
from actors.links.operations import (
    AllocateProducerIds,
    AlterConfigs,
    AlterPartitions,
    AlterReassignments,
    AlterScram,
    BrokerLeaving,
    CreateOffsetsTopic,
    CreatePartitions,
    CreateStatePartition,
    CreateTopics,
    DeleteTopics,
    DescribeQuorum,
    ElectLeaders,
    Operation,
    RaiseMetadataVersion,
    ReplicaTorn,
    UnregisterBroker,
)
from actors.links.quota_operations import AlterQuotas
from actors.links.reading import ForBroker, ReadHeads, ReadLog, ReadPartitions

OF_ITSELF: Final = (AlterPartitions, ReplicaTorn, BrokerLeaving)
"""A broker's reports about itself."""
OF_CLIENTS: Final = (
    *(CreateTopics, DeleteTopics, CreatePartitions, AlterConfigs, CreateOffsetsTopic),
    *(AlterReassignments, ElectLeaders, AlterScram, CreateAcls, DeleteAcls),
    *(AlterQuotas, DescribeQuorum, AllocateProducerIds, RaiseMetadataVersion, CreateStatePartition),
    UnregisterBroker,
)
"""Requests of clients, for the most part. The broker has judged whether the client may make them."""

OF_MONITORS: Final[tuple[type, ...]] = (LookAround, Watch)
"""Requests of a Monitor to the controller itself."""
OF_BROKERS_FOR_MONITORS: Final[tuple[type, ...]] = (ReadPartitions, ReadLog, ReadHeads)
"""Reads that a Monitor may ask of a broker, through the controller. They change nothing."""


def check_allowed(operation: Operation[Any], by: Session) -> None:
    """Raises PermissionError if this is not for the broker at the other end to ask."""
    if isinstance(operation, OF_ITSELF):
        if operation.broker_id != by.broker_id:
            who = "a broker that has not registered" if by.broker_id < 0 else f"broker {by.broker_id}"
            raise PermissionError(f"{who} speaks for broker {operation.broker_id}")
    elif not isinstance(operation, OF_CLIENTS):
        raise PermissionError(f"{type(operation).__name__} is nothing that a broker asks for")
    elif max(by.joins, by.broker_id) < 0:
        raise PermissionError("who asks has not said which broker it is")


def check_allowed_to_monitor(operation: Operation[Any]) -> None:
    """Raises PermissionError if this is not for a Monitor to ask."""
    if isinstance(operation, ForBroker):
        asked, is_allowed = operation.operation, isinstance(operation.operation, OF_BROKERS_FOR_MONITORS)
    else:
        asked, is_allowed = operation, isinstance(operation, OF_MONITORS)
    if not is_allowed:
        raise PermissionError(f"{type(asked).__name__} is nothing that a Monitor asks for")
