"""ConsumerGroupHeartbeat: from Kafka's message to the coordinator and back."""

from __future__ import annotations

from collections.abc import Iterable

from actors.coordinator.consumer import messages as core
from actors.coordinator.consumer.values import Partitions
from actors.group_api.topics import Topics
from actors.wire.framing import RequestHeader
from actors.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

API = ConsumerGroupHeartbeatRequest
VERSIONS = (0, 1)

_Owned = ConsumerGroupHeartbeatRequest.TopicPartitions
_Assignment = ConsumerGroupHeartbeatResponse.Assignment
_Assigned = ConsumerGroupHeartbeatResponse.TopicPartitions


def parse(
    header: RequestHeader, m: ConsumerGroupHeartbeatRequest, host: str, topics: Topics
) -> core.ConsumerGroupHeartbeatRequest:
    return core.ConsumerGroupHeartbeatRequest(
        group_id=m.group_id,
        member_id=m.member_id,
        member_epoch=m.member_epoch,
        instance_id=m.instance_id,
        rack_id=m.rack_id,
        rebalance_timeout_ms=m.rebalance_timeout_ms,
        subscribed_topic_names=None if m.subscribed_topic_names is None else tuple(m.subscribed_topic_names),
        subscribed_topic_regex=m.subscribed_topic_regex if header.api_version >= 1 else None,
        server_assignor=m.server_assignor,
        topic_partitions=None if m.topic_partitions is None else _partitions(m.topic_partitions),
        client_id=header.client_id or "",
        client_host=host,
        api_version=header.api_version,
        process=m.process,
    )


def _partitions(owned: Iterable[_Owned]) -> Partitions:
    """By topic. A client may name a topic more than once, or without any partitions: that is not to own nothing."""
    found: dict[bytes, frozenset[int]] = {}
    for each in owned:
        found[each.topic_id] = found.get(each.topic_id, frozenset()).union(each.partitions)
    return found


def answer(
    m: ConsumerGroupHeartbeatRequest, r: core.ConsumerGroupHeartbeatResponse, version: int, topics: Topics
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=r.error_code,
        error_message=r.error_message,
        member_id=r.member_id,
        member_epoch=r.member_epoch,
        heartbeat_interval_ms=r.heartbeat_interval_ms,
        assignment=None if r.assignment is None else _assignment(r.assignment),
    )


def _assignment(partitions: Partitions) -> _Assignment:
    rows = [_Assigned(topic_id=topic_id, partitions=sorted(each)) for topic_id, each in partitions.items()]
    return _Assignment(topic_partitions=rows)
