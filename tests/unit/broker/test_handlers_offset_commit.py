"""The short way of an OffsetCommit says what the long way says, byte for byte, or steps aside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator import FetchedOffset
from actors.coordinator.messages import OffsetCommitResponse
from actors.group_api import Topics, decode, offset_commit
from actors.wire.framing import decode_request_header, encode_request
from actors.wire.messages import OffsetCommitRequest
from tests.support.coordination import Driver

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


@pytest.mark.conformance("C-09")
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
    sent = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=rows)
    frame = encode_request(sent, version, 7, None)[4:]
    header = decode_request_header(frame)
    message = decode(header, frame)
    request = offset_commit.parse(header, message, "", TOPICS)
    assert request is not None
    answer = offset_commit.answer(message, driver.call(request), version, TOPICS)
    missing = 100 if version >= 10 else 3
    assert [[(p.partition_index, p.error_code) for p in topic.partitions] for topic in answer.topics] == [
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


def ordinary(message: OffsetCommitRequest) -> bool:
    """What the short way must not step aside for."""
    if message.topics and not any(t.partitions for t in message.topics):
        return False
    texts = [message.group_id, message.member_id, message.group_instance_id or ""]
    texts += [p.committed_metadata or "" for t in message.topics for p in t.partitions]
    return all(len(text.encode()) < 127 for text in texts) and all(
        t.name in TOPICS.counts and all(0 <= p.partition_index < TOPICS.counts[t.name] for p in t.partitions)
        for t in message.topics
    )


@given(requests, st.sampled_from(offset_commit.COMPACT_VERSIONS), st.sampled_from([0, 12, 25, 27]))
def test_short_and_long_way_agree(message: OffsetCommitRequest, version: int, code: int) -> None:
    frame = encode_request(message, version, 7, "client")[4:]
    header = decode_request_header(frame)
    short = offset_commit.parse_compact(frame, header.body_offset, version, TOPICS)
    if short is None:
        assert not ordinary(message)
        return
    decoded = decode(header, frame)
    request = offset_commit.parse(header, decoded, "", TOPICS)
    parsed, layout = short
    assert request == parsed
    codes = [code] * len(parsed.offsets)
    expected = offset_commit.answer(decoded, OffsetCommitResponse(codes), version, TOPICS).encode(version)
    assert offset_commit.encode_compact(layout, codes) == expected


@given(requests, st.data())
def test_truncated_requests_go_the_long_way(message: OffsetCommitRequest, data: st.DataObject) -> None:
    frame = encode_request(message, 8, 7, None)[4:]
    header = decode_request_header(frame)
    cut = data.draw(st.integers(header.body_offset, len(frame) - 1))
    assert offset_commit.parse_compact(frame[:cut], header.body_offset, 8, TOPICS) is None
