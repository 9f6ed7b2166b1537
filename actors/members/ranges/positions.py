"""The offsets at which a range member's partitions go on, and their topics. A name may get a topic with another id."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from actors.client import OffsetAndMetadata, TopicPartition
from actors.client.errors import RetriableError, WakeupError
from actors.members.ranges.group import Held, RangeMemberSpec

_LOOK_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Place:
    """An offset, and the topic in which it is."""

    offset: int
    topic_id: bytes


def find(
    consumer: Any, spec: RangeMemberSpec, asked: Collection[TopicPartition], recreated: Collection[TopicPartition]
) -> dict[TopicPartition, Place]:
    """Find where these partitions go on. The start of one without a committed offset is committed at once.

    Otherwise "latest" would be a later offset for the next owner, and the records in between would be lost. The
    partitions of `recreated` were held in a topic that was deleted: they begin with the new topic, whatever an old
    broker still has of the old one. Raises KafkaError.
    """
    ids = consumer.topic_ids({tp.topic for tp in asked})
    stored = consumer.committed_offsets(sorted(asked))
    committed = {tp: at.offset for tp, at in stored.items() if at is not None and tp not in recreated}
    fresh = _starts(consumer, spec, [tp for tp in sorted(asked) if tp not in committed], recreated, ids)
    if fresh:
        consumer.commit({tp: OffsetAndMetadata(offset) for tp, offset in fresh.items()})
    return {tp: Place(offset, ids.get(tp.topic, b"")) for tp, offset in (committed | fresh).items()}


def _starts(
    consumer: Any,
    spec: RangeMemberSpec,
    partitions: Collection[TopicPartition],
    recreated: Collection[TopicPartition],
    ids: Mapping[str, bytes],
) -> dict[TopicPartition, int]:
    def given(tp: TopicPartition) -> bool:
        same = spec.start_ids.get(tp.topic, b"") == ids.get(tp.topic, b"") or tp.topic not in spec.start_ids
        return tp in spec.starts and same and tp not in recreated

    starts = {tp: spec.starts[tp] for tp in partitions if given(tp)}
    new = [tp for tp in partitions if tp not in starts]
    return starts | (consumer.beginning_offsets(new) if new else {})


def in_deleted_topics(consumer: Any, held: Mapping[TopicPartition, Held]) -> set[TopicPartition]:
    """Those of the partitions held whose topic was deleted, while another one has its name. A broker is asked.

    None, as far as is known, if no broker answers.
    """
    try:
        ids = consumer.topic_ids({tp.topic for tp in held}, timeout_ms=_LOOK_MS)
    except (WakeupError, RetriableError):
        return set()
    return {tp for tp, each in held.items() if each.topic_id and ids.get(tp.topic, each.topic_id) != each.topic_id}
