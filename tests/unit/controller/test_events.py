"""The events by which an operator hears of changes to the metadata."""

from __future__ import annotations

from actors.controller.metadata.events import EACH_MAX, Changes
from actors.links.chronicle import Chronicle
from placement.metadata import (
    NO_LEADER,
    BrokerInfo,
    ClusterMetadata,
    Directory,
    PartitionInfo,
    Removal,
    TopicInfo,
)
from placement.records import (
    BrokerDirectoryRecord,
    BrokerRecord,
    BrokerRemovalRecord,
    PartitionRecord,
    PartitionsRecord,
    Record,
    RemoveTopicRecord,
    TopicConfigsRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

THREE = PartitionInfo(0, 4, (0, 1, 2), (0, 1, 2))


class World:
    def __init__(self, *records: Record) -> None:
        self.metadata = ClusterMetadata()
        for record in records:
            self.metadata.apply(record)
        self.chronicle = Chronicle(lambda: 7)

    def told(self, *records: Record) -> list[tuple[str, str, str]]:
        """The events of these records: kind, subject and text."""
        before = self.chronicle.last
        changes = Changes(self.metadata, list(records))
        for record in records:
            self.metadata.apply(record)
        for said in changes.said():
            self.chronicle.note(*said)
        told = self.chronicle.since(self.chronicle.run, before).events
        return [(event.kind, event.subject, event.text) for event in told]


def broker(epoch: int, *, alive: bool = True, leaving: bool = False) -> BrokerRecord:
    return BrokerRecord(BrokerInfo(1, "h", 9, None, epoch, alive, pid=41, leaving=leaving))


def test_brokers_come_leave_and_die() -> None:
    world = World()
    assert world.told(broker(0)) == [("start", "broker 1", "The broker serves at epoch 0, as process 41.")]
    assert [kind for kind, _, _ in world.told(broker(0, leaving=True))] == ["leaving"]
    assert world.told(broker(0, alive=False)) == [
        ("death", "broker 1", "The broker's process 41 has ended, or was given up.")
    ]
    assert world.told(broker(0, alive=False)) == [], "it was told"
    assert [kind for kind, _, _ in world.told(broker(1))] == ["start"]


def test_of_a_process_that_is_replaced_by_one_change_the_death_is_told_then_the_start_then_elections() -> None:
    world = World(broker(0), TopicRecord(TopicInfo("t", b"t" * 16, (PartitionInfo(1, 4, (1,), (1,)),))))
    nobody, again = (PartitionInfo(leader, epoch, (1,), (1,)) for leader, epoch in ((NO_LEADER, 5), (1, 6)))
    told = world.told(
        *(broker(0, alive=False), PartitionRecord("t", 0, nobody)), *(broker(1), PartitionRecord("t", 0, again))
    )
    assert [(kind, text) for kind, _, text in told] == [
        ("death", "The broker's process 41 has ended, or was given up."),
        ("election", "Nobody can lead it, after broker 1, at leader epoch 5."),
        ("start", "The broker serves at epoch 1, as process 41."),
        ("election", "Broker 1 leads it, where nobody led, at leader epoch 6."),
    ]


def test_one_record_of_several_partitions_is_told_of_as_one_for_each() -> None:
    both = [TopicRecord(TopicInfo(name, name.encode() * 16, (THREE,))) for name in ("t", "s")]
    changed = PartitionInfo(1, 5, (0, 1, 2), (0, 1, 2))
    told = World(*both).told(PartitionsRecord((PartitionRecord("t", 0, changed), PartitionRecord("s", 0, changed))))
    assert [(kind, subject) for kind, subject, _ in told] == [("election", "t-0"), ("election", "s-0")]


def test_elections_in_sync_sets_and_moves() -> None:
    world = World(TopicRecord(TopicInfo("t", b"t" * 16, (THREE,))))
    changed = PartitionInfo(1, 5, (0, 1, 2), (1, 2))
    assert world.told(PartitionRecord("t", 0, changed)) == [
        ("election", "t-0", "Broker 1 leads it, after broker 0, at leader epoch 5."),
        ("shrink", "t-0", "Broker 0 left the in-sync set; in it: 1, 2."),
    ]
    nobody = PartitionInfo(NO_LEADER, 6, (0, 1, 2), (1,))
    assert world.told(PartitionRecord("t", 0, nobody))[0][2] == (
        "Nobody can lead it, after broker 1, at leader epoch 6."
    )
    back = PartitionInfo(0, 7, (0, 1, 2), (0, 1), unclean=True)
    told = world.told(PartitionRecord("t", 0, back))
    assert told[0][2] == (
        "Broker 0 leads it, where nobody led, at leader epoch 7; records may have been lost (unclean)."
    )
    assert told[1] == ("expand", "t-0", "Broker 0 came into the in-sync set; in it: 0, 1.")
    moving = PartitionInfo(0, 7, (0, 1, 3), (0, 1), adding=(3,), unclean=True)
    assert [kind for kind, _, _ in world.told(PartitionRecord("t", 0, moving))] == ["move"]
    moved = PartitionInfo(0, 7, (0, 1, 3), (0, 1), unclean=True)
    assert world.told(PartitionRecord("t", 0, moved)) == [("moved", "t-0", "Its replicas are on brokers 0, 1, 3 now.")]


def test_of_many_partitions_one_event_tells_how_many() -> None:
    partitions = (THREE,) * (EACH_MAX + 1)
    world = World(TopicRecord(TopicInfo("t", b"t" * 16, partitions)))
    records = [PartitionRecord("t", at, PartitionInfo(1, 5, (0, 1, 2), (0, 1, 2))) for at in range(EACH_MAX + 1)]
    assert world.told(*records) == [
        ("election", "11 partitions", "11 partitions have another leader: t-0, t-1, t-2, and so on.")
    ]


def test_a_replacement_is_told_once_however_often_it_goes_to_another_node() -> None:
    world = World(BrokerDirectoryRecord(1, Directory("a")))
    told = [world.told(BrokerDirectoryRecord(1, Directory(each, awaited=True))) for each in ("b", "c")]
    assert told == [[("replaced", "broker 1", "Its data is gone: it is filled from other brokers.")], []]


def test_a_removal_is_told_at_its_beginning_and_its_end_and_when_it_is_called_off() -> None:
    world = World()
    removal = Removal(1, 12)
    assert world.told(BrokerRemovalRecord(1, removal)) == [
        ("removal", "broker 1", "It is being removed: 12 partitions move to other brokers.")
    ]
    assert world.told(BrokerRemovalRecord(1, Removal(1, 12, throttle=100))) == [], "another throttle is no news"
    assert world.told(BrokerRemovalRecord(1, None)) == [
        ("removal", "broker 1", "Its removal was called off: it stays, with what it still has.")
    ]
    world.told(BrokerRemovalRecord(1, removal))
    assert world.told(UnregisterBrokerRecord(1)) == [
        ("removed", "broker 1", "It was removed, and its id is never used again.")
    ]


def test_topics_and_settings() -> None:
    world = World()
    created = TopicRecord(TopicInfo("t", b"t" * 16, (THREE,)))
    assert world.told(created) == [("created", "t", "The topic was created with 1 partition.")]
    more = [PartitionRecord("t", at, THREE) for at in (1, 2)]
    assert world.told(*more) == [("grown", "t", "The topic has 3 partitions now, after 1.")]
    assert [kind for kind, _, _ in world.told(TopicConfigsRecord("t", {"retention.ms": "1"}))] == ["settings"]
    assert world.told(RemoveTopicRecord("t")) == [("deleted", "t", "The topic was deleted.")]


def test_many_topics_are_not_called_partitions() -> None:
    world = World()
    many = [TopicRecord(TopicInfo(f"t{at}", bytes([at]) * 16, (THREE,))) for at in range(EACH_MAX + 1)]
    assert world.told(*many) == [("created", "11 topics", "11 topics were created: t0, t1, t2, and so on.")]
    deleted = world.told(*(RemoveTopicRecord(f"t{at}") for at in range(EACH_MAX + 1)))
    assert deleted == [("deleted", "11 topics", "11 topics were deleted: t0, t1, t2, and so on.")]
