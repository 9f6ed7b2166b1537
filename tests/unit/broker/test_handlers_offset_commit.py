"""An OffsetCommit between the wire and the coordinator, and its answer byte for byte."""

from __future__ import annotations

from itertools import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.groups import messages as core
from actors.coordinator.groups.messages import FetchedOffset
from actors.group_api import Topics, decode, offset_commit
from actors.wire.framing import RequestHeader, decode_request_header, encode_request
from actors.wire.messages import OffsetCommitRequest, OffsetCommitResponse
from actors.wire.offset_columns import OffsetCommitColumns
from tests.support.coordination import Driver
from tests.support.offset_rows import commit_rows

TOPICS = Topics([("orders", b"o" * 16, 100), ("payments-ü", b"p" * 16, 5)])
NAMES = st.sampled_from(["orders", "payments-ü", "unknown", ""])
TEXT = st.text(max_size=8) | st.just("x" * 200)

partitions = st.builds(
    OffsetCommitRequest.OffsetCommitRequestPartition,
    partition_index=st.integers(-1, 6),
    committed_offset=st.integers(-1, 2**62),
    committed_leader_epoch=st.integers(-1, 9),
    committed_metadata=st.none() | TEXT,
)
requests = st.builds(
    OffsetCommitRequest,
    group_id=TEXT,
    generation_id_or_member_epoch=st.integers(-1, 2**31 - 1),
    member_id=TEXT,
    group_instance_id=st.none() | TEXT,
    retention_time_ms=st.integers(-1, 2**40),
    topics=st.lists(
        st.builds(
            OffsetCommitRequest.OffsetCommitRequestTopic, name=NAMES, partitions=st.lists(partitions, max_size=4)
        ),
        max_size=3,
    ),
)


def row(name: str, topic_id: bytes, *indexes: int) -> OffsetCommitRequest.OffsetCommitRequestTopic:
    """Offset 10 plus the partition's index for each of these."""
    cls = OffsetCommitRequest.OffsetCommitRequestPartition
    rows = [cls(partition_index=index, committed_offset=10 + index) for index in indexes]
    return OffsetCommitRequest.OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=rows)


@pytest.mark.conformance("C-09", "K-D-13", "K-D-32")
@pytest.mark.parametrize("version", range(offset_commit.VERSIONS[0], offset_commit.VERSIONS[1] + 1))
def test_an_unknown_topic_fails_alone_wherever_it_stands(version: int) -> None:
    """From the request's bytes through the coordinator to its answer; from version 10 on topics have ids."""
    driver = Driver()
    rows = [
        row("unknown", b"u" * 16, 0, 1),
        row("orders", b"o" * 16, 99, 100, -1, 0),
        row("gone", b"g" * 16, 0),
        row("payments-ü", b"p" * 16, 4),
    ]
    wanted = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=rows)
    frame = encode_request(wanted, version, 7, None)[4:]
    header = decode_request_header(frame)
    message = decode(header, frame)
    request = offset_commit.parse(header, message, "", TOPICS)
    assert request is not None
    answer = offset_commit.answer(message, driver.call(request), version, TOPICS)
    missing = 100 if version >= 10 else 3
    told = OffsetCommitResponse.decode(answer.encode(version), version)
    assert [[(p.partition_index, p.error_code) for p in topic.partitions] for topic in told.topics] == [
        [(0, missing), (1, missing)],
        [(99, 0), (100, 3), (-1, 3), (0, 0)],
        [(0, missing)],
        [(4, 0)],
    ]
    assert set(driver.fetch("g")) == {
        FetchedOffset("orders", 0, 10),
        FetchedOffset("orders", 99, 109),
        FetchedOffset("payments-ü", 4, 14),
    }


VERSION = st.integers(*offset_commit.VERSIONS)
Topic = OffsetCommitRequest.OffsetCommitRequestTopic


def sent(message: OffsetCommitRequest, version: int) -> tuple[RequestHeader, OffsetCommitColumns]:
    """The header and the columns that a shard reads. Topics get their ids; unknown ones share an id of their own."""
    for topic in message.topics:
        topic.topic_id = TOPICS.ids.get(topic.name, b"u" * 16)
    frame = encode_request(message, version, 7, "client")[4:]
    header = decode_request_header(frame)
    read = decode(header, frame)
    assert isinstance(read, OffsetCommitColumns)
    return header, read


def exist(topic: Topic) -> list[bool]:
    """True for each partition of the topic that exists."""
    return [0 <= p.partition_index < TOPICS.counts.get(topic.name, 0) for p in topic.partitions]


@given(requests, VERSION)
def test_the_coordinator_is_asked_for_what_exists_and_nothing_else(message: OffsetCommitRequest, version: int) -> None:
    request = offset_commit.parse(*sent(message, version), "", TOPICS)
    rows = [
        (topic.name, p.partition_index, p.committed_offset, p.committed_leader_epoch, p.committed_metadata or "")
        for topic in message.topics
        for p in compress(topic.partitions, exist(topic))
    ]
    if version < 6:
        rows = [(name, index, offset, -1, text) for name, index, offset, _, text in rows]
    if request is None:
        assert message.topics
        assert not rows
        return
    assert commit_rows(request) == rows
    instance = message.group_instance_id if version >= 7 else None
    assert request[:4] == (message.group_id, message.generation_id_or_member_epoch, message.member_id, instance)
    assert request[5:] == (version, message.retention_time_ms if version <= 4 else -1)


@given(requests, VERSION, st.sampled_from([0, 12, 25, 27]))
def test_an_answer_has_the_coordinators_errors_and_ours(message: OffsetCommitRequest, version: int, code: int) -> None:
    """Every other one of the existing partitions gets `code`."""
    header, read = sent(message, version)
    request = offset_commit.parse(header, read, "", TOPICS)
    decided = [code * (n % 2) for n in range(sum(sum(exist(topic)) for topic in message.topics))]
    response = None if request is None else core.OffsetCommitResponse(decided)
    left = iter(decided)
    rows = []
    for topic in message.topics:
        missing = 100 if version >= 10 and topic.name not in TOPICS.ids else 3
        codes = [next(left) if exists else missing for exists in exist(topic)]
        partitions = [
            OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
            for p, error in zip(topic.partitions, codes, strict=True)
        ]
        rows.append(
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    answer = offset_commit.answer(read, response, version, TOPICS)
    assert answer.encode(version) == OffsetCommitResponse(topics=rows).encode(version)
