"""An offset belongs to a topic, not to whatever has its name: OffsetCommit and OffsetFetch with topic ids."""

from __future__ import annotations

from typing import Any

import pytest

from actors.group_api import decode, offset_commit, offset_fetch
from actors.group_api.topics import Topics
from actors.wire.framing import decode_request_header, encode_request
from actors.wire.messages import OffsetCommitRequest, OffsetFetchRequest
from tests.support.coordination import Driver

OLD, NEW, OTHER = b"o" * 16, b"n" * 16, b"x" * 16
BEFORE, AFTER = Topics([("orders", OLD, 2)]), Topics([("orders", NEW, 2)])
WITHOUT_IDS = Topics([("orders", b"", 2)])


def commit(driver: Driver, version: int, topics: Topics, topic_id: bytes, offset: int = 7, metadata: str = "") -> None:
    """Commit an offset of `orders`, partition 0."""
    row = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", topic_id=topic_id, partitions=[row])
    message = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])
    frame = encode_request(message, version, 1, None)[4:]
    header = decode_request_header(frame)
    request = offset_commit.parse(header, decode(header, frame), "", topics)  # type: ignore[arg-type]
    assert request is not None
    assert driver.call(request).error_codes == [0]


def fetched(driver: Driver, version: int, topics: Topics, *topic_ids: bytes) -> list[tuple[Any, ...]]:
    """(id or name, offset, error code) of partition 0 of each topic."""
    group = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id="g",
        member_id=None,
        member_epoch=-1,
        topics=[
            OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", topic_id=topic_id, partition_indexes=[0])
            for topic_id in topic_ids
        ],
    )
    frame = encode_request(OffsetFetchRequest(groups=[group]), version, 1, None)[4:]
    header = decode_request_header(frame)
    message: Any = decode(header, frame)
    answer = offset_fetch.answer(message, driver.call(offset_fetch.parse(header, message, "", topics)), version, topics)
    assert answer.groups[0].error_code == 0
    return [
        (topic.topic_id if version >= 10 else topic.name, row.committed_offset, row.error_code)
        for topic in answer.groups[0].topics
        for row in topic.partitions
    ]


@pytest.mark.conformance("K-D-19", "K-D-14")
@pytest.mark.parametrize("metadata", ["", "m"])
@pytest.mark.parametrize("version", [8, 10])
def test_an_offset_of_a_topic_that_was_made_anew_is_none_for_who_asks_by_id(version: int, metadata: str) -> None:
    driver = Driver()
    commit(driver, version, BEFORE, OLD, metadata=metadata)
    assert fetched(driver, 10, BEFORE, OLD) == [(OLD, 7, 0)]
    assert fetched(driver, 10, AFTER, NEW) == [(NEW, -1, 0)]
    assert fetched(driver, 9, AFTER, NEW) == [("orders", 7, 0)]
    driver.fail_over()
    assert fetched(driver, 10, AFTER, NEW) == [(NEW, -1, 0)]
    commit(driver, version, AFTER, NEW, 9, metadata)
    assert fetched(driver, 10, AFTER, NEW) == [(NEW, 9, 0)]


@pytest.mark.conformance("K-D-19")
def test_an_id_that_nobody_knows_is_100_and_the_others_are_answered() -> None:
    driver = Driver()
    commit(driver, 10, BEFORE, OLD)
    assert fetched(driver, 10, BEFORE, OTHER, OLD) == [(OLD, 7, 0), (OTHER, -1, 100)]


@pytest.mark.conformance("K-D-14")
def test_an_offset_that_was_committed_without_an_id_is_of_whatever_has_the_name() -> None:
    driver = Driver()
    commit(driver, 8, WITHOUT_IDS, bytes(16))
    assert fetched(driver, 10, AFTER, NEW) == [(NEW, 7, 0)]
