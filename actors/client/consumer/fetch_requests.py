"""The fetches of a consumer: how much to ask for, of which topics, and in which version. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from actors.client.consumer.positions import RESET_TO, PartitionState
from actors.client.net.metadata import ClusterMetadata
from actors.client.settings import ConsumerConfig
from actors.wire.messages import FetchRequest

# A fetch that leaves out partitions whose buffers are full must not keep them waiting once they are drained.
_SHORT_WAIT_MS: Final = 20
NO_ID: Final = bytes(16)
BY_ID: Final = 13
"""From this version on Fetch names topics by id, and a topic that was created again is not the one that is read."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The amounts to fetch and the time to wait."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    partition_bytes: int
    isolation: int
    rack: str
    reset_to: int | None
    retry_ms: int

    @classmethod
    def of(cls, config: ConsumerConfig) -> FetchSettings:
        """These settings, out of those of a consumer."""
        return cls(
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            max_wait_ms=config.fetch_max_wait_ms,
            partition_bytes=config.max_partition_fetch_bytes,
            isolation=int(config.reads_committed),
            rack=config.client_rack,
            reset_to=RESET_TO[config.auto_offset_reset],
            retry_ms=config.retry_backoff_ms,
        )


def fetch_request(
    settings: FetchSettings, cluster: ClusterMetadata, states: Iterable[PartitionState], *, short: bool
) -> FetchRequest:
    """A fetch of these partitions. `short`: the broker does not wait long for records."""
    topics: dict[tuple[str, bytes], list[FetchRequest.FetchPartition]] = {}
    for state in states:
        info = cluster.partition(state.tp)
        topics.setdefault((state.tp.topic, state.topic_id or NO_ID), []).append(
            FetchRequest.FetchPartition(
                partition=state.tp.partition,
                current_leader_epoch=info.leader_epoch if info else -1,
                fetch_offset=state.fetch_at,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=settings.partition_bytes,
            )
        )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=min(settings.max_wait_ms, _SHORT_WAIT_MS) if short else settings.max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=settings.isolation,
        session_id=0,
        session_epoch=-1,
        topics=[
            FetchRequest.FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)
            for (topic, topic_id), partitions in topics.items()
        ],
        rack_id=settings.rack,
    )


def fetch_version(request: FetchRequest) -> int | None:
    """The highest version for a fetch: by id if the ids of all its topics are known, else as long as names go."""
    return BY_ID if all(any(topic.topic_id) for topic in request.topics) else None
