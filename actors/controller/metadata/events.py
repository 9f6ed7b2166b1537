"""The events in a change of the metadata, for operators: elections, in-sync sets, moves, brokers that come and die.

A change may be about thousands of partitions, when a broker dies. Then one event stands for all of a kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from placement.metadata import NO_LEADER, BrokerInfo, ClusterMetadata, Directory, PartitionInfo, Removal
from placement.records import (
    BrokerConfigsRecord,
    BrokerDirectoryRecord,
    BrokerRecord,
    BrokerRemovalRecord,
    PartitionRecord,
    Record,
    RemoveTopicRecord,
    TopicConfigsRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    one_by_one,
)

EACH_MAX: Final = 10
"""Of so many subjects each gets an event of its own; of more, all together get one."""

Said = tuple[str, str, str]
"""The kind, the subject and the text of an event."""

_ALL: Final = {
    "election": "{} partitions have another leader: {}, and so on.",
    "shrink": "Replicas have left the in-sync sets of {} partitions: {}, and so on.",
    "expand": "Replicas have come into the in-sync sets of {} partitions: {}, and so on.",
    "move": "{} partitions are being moved: {}, and so on.",
    "moved": "{} partitions have been moved: {}, and so on.",
    "created": "{} topics were created: {}, and so on.",
    "grown": "{} topics have more partitions: {}, and so on.",
    "deleted": "{} topics were deleted: {}, and so on.",
    "settings": "Settings of {} subjects were changed: {}, and so on.",
}
_TOPICS: Final = frozenset(("created", "grown", "deleted"))


class Changes:
    """The changes that records make. An object is made before they are applied, and read afterwards."""

    def __init__(self, metadata: ClusterMetadata, records: Sequence[Record]) -> None:
        self._metadata = metadata
        self._records = list(one_by_one(records))
        self._before = list(_before(metadata, self._records))
        topics = {r.topic for r in self._records if isinstance(r, PartitionRecord)} & metadata.topics.keys()
        self._sizes = {name: len(metadata.topics[name].partitions) for name in topics}

    def said(self) -> Iterator[Said]:
        """The events of the change. Elections that a broker's start allows come after it."""
        by_kind: dict[str, list[Said]] = {}
        for each in self._each():
            if each[0] == "start":
                yield from _few(by_kind)
                by_kind = {}
            by_kind.setdefault(each[0], []).append(each)
        yield from _few(by_kind)

    def _each(self) -> Iterator[Said]:
        for record, before in zip(self._records, self._before, strict=True):
            match record:
                case BrokerRecord(broker):
                    yield from _broker(before if isinstance(before, BrokerInfo) else None, broker)
                case BrokerDirectoryRecord(broker_id, Directory(_, True)):
                    if not isinstance(before, Directory) or not before.awaited:  # else it only goes to another node
                        yield "replaced", f"broker {broker_id}", "Its data is gone: it is filled from other brokers."
                case BrokerRemovalRecord(broker_id, removal):
                    yield from _removal(f"broker {broker_id}", before if isinstance(before, Removal) else None, removal)
                case UnregisterBrokerRecord(broker_id):
                    yield "removed", f"broker {broker_id}", "It was removed, and its id is never used again."
                case PartitionRecord(topic, index, after):
                    if isinstance(before, PartitionInfo):
                        yield from _partition(f"{topic}-{index}", before, after)
                    elif self._is_last_new(topic, index):
                        text = f"The topic has {_partitions(index + 1)} now, after {self._sizes[topic]}."
                        yield "grown", topic, text
                case TopicRecord(created):
                    text = f"The topic was created with {_partitions(len(created.partitions))}."
                    yield "created", created.name, text
                case RemoveTopicRecord(name):
                    yield "deleted", name, "The topic was deleted."
                case TopicConfigsRecord(name):
                    yield "settings", name, "Settings of the topic were changed."
                case BrokerConfigsRecord(name):
                    yield "settings", f"broker {name}" if name else "brokers", "Settings were changed."

    def _is_last_new(self, topic: str, index: int) -> bool:
        """True if the partition is the last of those that were added to a topic that was there before."""
        now = self._metadata.topics.get(topic)
        return now is not None and self._sizes.get(topic, index + 1) <= index == len(now.partitions) - 1


def _before(
    metadata: ClusterMetadata, records: Sequence[Record]
) -> Iterator[BrokerInfo | PartitionInfo | Directory | Removal | None]:
    """The subject of each record: a broker or a partition as the records before have left it, or all else as it is."""
    changed: dict[int | tuple[str, int], BrokerInfo | PartitionInfo] = {}
    for record in records:
        match record:
            case BrokerRecord(broker):
                yield changed.get(broker.id, metadata.brokers.get(broker.id))
                changed[broker.id] = broker
            case PartitionRecord(topic, index, partition):
                yield changed.get((topic, index), metadata.partition(topic, index))
                changed[topic, index] = partition
            case BrokerDirectoryRecord(broker_id):
                yield metadata.directories.get(broker_id)
            case BrokerRemovalRecord(broker_id):
                yield metadata.removals.get(broker_id)
            case _:
                yield None


def _few(by_kind: Mapping[str, Sequence[Said]]) -> Iterator[Said]:
    """The same, with one event for all of a kind of which there are many."""
    for kind, all_said in by_kind.items():
        if len(all_said) > EACH_MAX and kind in _ALL:
            few = ", ".join(subject for _, subject, _ in all_said[:3])
            yield kind, _subject(kind, len(all_said)), _ALL[kind].format(len(all_said), few)
        else:
            yield from all_said


def _broker(before: BrokerInfo | None, after: BrokerInfo) -> Iterator[Said]:
    subject, was_alive = f"broker {after.id}", before is not None and before.alive
    if was_alive and not after.alive:
        yield "death", subject, f"The broker's process {after.pid} has ended, or was given up."
    elif after.alive and (not was_alive or (before is not None and before.epoch != after.epoch)):
        yield "start", subject, f"The broker serves at epoch {after.epoch}, as process {after.pid}."
    elif before is not None and after.leaving and not before.leaving:
        yield "leaving", subject, "The broker hands over what it leads, to stop or be restarted."


def _removal(subject: str, before: Removal | None, after: Removal | None) -> Iterator[Said]:
    if before is None and after is not None:
        yield "removal", subject, f"It is being removed: {_partitions(after.partitions)} move to other brokers."
    elif before is not None and after is None:
        yield "removal", subject, "Its removal was called off: it stays, with what it still has."


def _subject(kind: str, number: int) -> str:
    return f"{number} {'topics' if kind in _TOPICS else 'subjects' if kind == 'settings' else 'partitions'}"


def _partitions(number: int) -> str:
    return f"{number} partition{'' if number == 1 else 's'}"


def _partition(subject: str, before: PartitionInfo, after: PartitionInfo) -> Iterator[Said]:
    if after.leader != before.leader:
        who = "Nobody can lead it" if after.leader == NO_LEADER else f"Broker {after.leader} leads it"
        was = ", where nobody led" if before.leader == NO_LEADER else f", after broker {before.leader}"
        unclean = "; records may have been lost (unclean)" if after.unclean and not before.unclean else ""
        yield "election", subject, f"{who}{was}, at leader epoch {after.leader_epoch}{unclean}."
    gone, come = set(before.isr) - set(after.isr), set(after.isr) - set(before.isr)
    if gone:
        yield "shrink", subject, f"{_brokers(gone)} left the in-sync set; in it: {_ids(after.isr)}."
    if come:
        yield "expand", subject, f"{_brokers(come)} came into the in-sync set; in it: {_ids(after.isr)}."
    moving, moved = after.adding or after.removing, before.adding or before.removing
    if moving and not moved:
        yield "move", subject, f"Its replicas move from brokers {_ids(before.replicas)}; {_ids(after.adding)} come."
    elif moved and not moving:
        yield "moved", subject, f"Its replicas are on brokers {_ids(after.replicas)} now."


def _brokers(ids: set[int]) -> str:
    return f"Broker{'s' if len(ids) > 1 else ''} {_ids(sorted(ids))}"


def _ids(ids: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
