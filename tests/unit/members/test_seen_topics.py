"""The topics that a job has read: a deleted and recreated one is noticed, whichever member says so first."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pytest

from actors.client import TopicPartition
from actors.client.errors import DataLossError, TopicRecreatedError
from actors.client.records import OffsetRange
from actors.members.ranges.group import Held, SeenTopics, limited, positions_and_ends

OLD, NEW = b"o" * 16, b"n" * 16


def held(topic_id: bytes, partition: int = 0) -> Held:
    return Held("t", partition, 5, "token", topic_id)


class Client:
    def __init__(self, topic_id: bytes, end: int = 10) -> None:
        self.topic_id = topic_id
        self.end = end

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation_level: int | None = None
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.end)

    def topic_ids(self, topics: set[str]) -> dict[str, bytes]:
        return dict.fromkeys(topics, self.topic_id)


def look(seen: SeenTopics, *partitions: Held, fail: bool = False) -> list[Held]:
    return seen.look(partitions, fail=fail, setting="failOnDataLoss")


def test_a_topic_that_was_created_again_is_a_loss() -> None:
    seen = SeenTopics()
    look(seen, held(OLD), fail=True)
    with pytest.raises(TopicRecreatedError, match=r"deleted and created again: t.*set failOnDataLoss to false") as lost:
        look(seen, held(NEW), fail=True)
    assert isinstance(lost.value, DataLossError)


def test_members_that_have_not_heard_of_the_new_topic_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    seen = SeenTopics()
    assert look(seen, held(OLD), held(OLD, 1)) == [held(OLD), held(OLD, 1)]
    with caplog.at_level(logging.WARNING):
        assert look(seen, held(OLD), held(NEW, 1)) == [held(NEW, 1)]
        assert look(seen, held(OLD), held(NEW, 1)) == [held(NEW, 1)]
        assert look(seen, held(NEW), held(NEW, 1)) == [held(NEW), held(NEW, 1)]
    assert caplog.text.count("created again") == 1


def test_brokers_that_give_no_ids_are_read_by_name() -> None:
    seen = SeenTopics()
    assert look(seen, held(b""), fail=True) == [held(b"")]
    client: Any = Client(b"")
    ranges = [OffsetRange("t", 0, 0, 5)]
    assert seen.still(client, ranges, fail=True, setting="x") == ranges


@pytest.mark.parametrize("fail", [True, False])
def test_ends_of_a_topic_that_was_created_again_meanwhile_are_no_ends_of_the_old_one(fail: bool) -> None:
    """The topic is created again after the members have told their positions, before its ends are asked for by name."""
    seen = SeenTopics()
    look(seen, held(OLD))
    ranges = limited({("t", 0): 5}, {("t", 0): 10}, None, seen.ids)
    assert [each.topic_id for each in ranges] == [OLD]
    same: Any = Client(OLD)
    other: Any = Client(NEW)
    assert seen.still(same, ranges, fail=fail, setting="x") == ranges
    if fail:
        with pytest.raises(TopicRecreatedError):
            seen.still(other, ranges, fail=fail, setting="x")
    else:
        assert seen.still(other, ranges, fail=fail, setting="x") == []
        assert seen.still(other, [], fail=True, setting="x") == []


@pytest.mark.parametrize("fail", [True, False])
def test_a_new_topic_that_was_still_empty_was_told_as_records_deleted_from_the_old_one(fail: bool) -> None:
    """Its ends, which are asked for by name, were below the position, and the reader was told of a shortened log."""
    seen = SeenTopics()
    before = look(seen, held(OLD))
    client: Any = Client(NEW, end=0)
    if fail:
        with pytest.raises(TopicRecreatedError):
            positions_and_ends(client, seen, before, fail=fail, setting="x")
    else:
        assert positions_and_ends(client, seen, before, fail=fail, setting="x") == ({}, {})
        assert look(seen, held(OLD)) == []


@pytest.mark.parametrize("topic_id", [OLD, b""])
def test_a_log_that_lost_its_end_is_a_loss(topic_id: bytes) -> None:
    seen = SeenTopics()
    before = look(seen, held(topic_id))
    client: Any = Client(topic_id, end=3)
    with pytest.raises(DataLossError, match="goes on at offset 5, the log has 0 to 3") as lost:
        positions_and_ends(client, seen, before, fail=True, setting="x")
    assert not isinstance(lost.value, TopicRecreatedError)
    assert positions_and_ends(client, seen, before, fail=False, setting="x") == ({("t", 0): 0}, {("t", 0): 3})
