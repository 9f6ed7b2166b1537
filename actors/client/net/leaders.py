"""Asks partition leaders for offsets: at a time, at the ends, and of a leader epoch. Runs on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from actors.client.error_codes import error_for, is_retriable
from actors.client.errors import KafkaError, KafkaTimeoutError, LeaderNotAvailableError
from actors.client.net.network import Network
from actors.client.records import Node, OffsetAndTimestamp, TopicPartition
from actors.wire.messages import ListOffsetsRequest, ListOffsetsResponse

T = TypeVar("T")

_FIRST_PAUSE_MS = 20  # metadata of a topic that nobody has asked for is there as soon as this


def by_leader(network: Network, partitions: Iterable[TopicPartition]) -> dict[Node | None, list[TopicPartition]]:
    """The partitions by their leader's node; those whose leader is not known are under None."""
    groups: dict[Node | None, list[TopicPartition]] = {}
    for tp in partitions:
        groups.setdefault(network.cluster.leader(tp), []).append(tp)
    return groups


def by_topic(partitions: Iterable[TopicPartition], make: Callable[[TopicPartition], T]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for tp in partitions:
        groups.setdefault(tp.topic, []).append(make(tp))
    return groups


async def list_offsets(
    network: Network,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation: int = 0,
    timeout_ms: int = 60_000,
    partial: bool = False,
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """The offset of each partition at a time (-1: end, -2: beginning); None where no record is that young.

    Asks until every leader has answered. Raises KafkaTimeoutError, or a leader's error that is not retriable. With
    `partial`, it returns at the timeout what was found until then, if anything was.
    """
    retries = network.retries(network.now_ms() + timeout_ms)
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    last: KafkaError = LeaderNotAvailableError("no leader is known")
    while True:
        missing = {tp: at for tp, at in wanted.items() if tp not in found}
        if not missing:
            return found
        groups = by_leader(network, missing)
        orphans = groups.pop(None, [])
        answers = await asyncio.gather(
            *(_ask(network, node, {tp: missing[tp] for tp in tps}, isolation) for node, tps in groups.items() if node),
            return_exceptions=True,
        )
        for answer in answers:
            if isinstance(answer, KafkaError):
                if not answer.retriable:
                    raise answer
                last = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found |= answer[0]
                last = answer[1] or last
        if len(found) < len(wanted):
            network.refresh()
            if not await retries.pause_to_deadline(_FIRST_PAUSE_MS if orphans else None):
                if partial and found:
                    return found
                raise KafkaTimeoutError(f"offsets of {sorted(missing)[:5]} not known within {timeout_ms} ms: {last}")


async def _ask(
    network: Network, node: Node, wanted: Mapping[TopicPartition, int], isolation: int
) -> tuple[dict[TopicPartition, OffsetAndTimestamp | None], KafkaError | None]:
    def partition(tp: TopicPartition) -> ListOffsetsRequest.ListOffsetsPartition:
        info = network.cluster.partition(tp)
        return ListOffsetsRequest.ListOffsetsPartition(
            partition_index=tp.partition,
            current_leader_epoch=info.leader_epoch if info else -1,
            timestamp=wanted[tp],
        )

    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=parts)
            for topic, parts in by_topic(wanted, partition).items()
        ],
    )
    response: ListOffsetsResponse = await network.ask(node, request)
    return _read(response)


def _read(response: Any) -> tuple[dict[TopicPartition, OffsetAndTimestamp | None], KafkaError | None]:
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    trouble: KafkaError | None = None
    for topic in response.topics:
        for p in topic.partitions:
            if p.error_code == 0:
                at = OffsetAndTimestamp(p.offset, p.timestamp, p.leader_epoch) if p.offset >= 0 else None
                found[TopicPartition(topic.name, p.partition_index)] = at
                continue
            error = error_for(p.error_code, f"offsets of {topic.name}-{p.partition_index}", topics=[topic.name])
            if not is_retriable(p.error_code):
                raise error
            trouble = error
    return found, trouble
