"""OffsetCommit as columns reads every byte string as the protocol's own message does, errors included."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.wire.errors import WireError
from actors.wire.messages import OffsetCommitRequest, OffsetCommitResponse
from actors.wire.offset_columns import OffsetCommitAnswer, OffsetCommitColumns
from tests.support.examples import examples

VERSIONS = (OffsetCommitRequest.min_version, OffsetCommitRequest.max_version)
VERSION = st.integers(*VERSIONS)
NAME = st.text(max_size=6) | st.sampled_from(["x" * 126, "x" * 127, "é" * 100, "y" * 300])
METADATA = st.sampled_from([None, "", "", "", "m"]) | NAME
ID = st.binary(min_size=16, max_size=16)


@st.composite
def topics(draw: st.DrawFn) -> OffsetCommitRequest.OffsetCommitRequestTopic:
    texts = draw(st.just(st.sampled_from([None, ""])) | st.just(METADATA))
    partition = st.builds(
        OffsetCommitRequest.OffsetCommitRequestPartition,
        partition_index=st.integers(-(2**31), 2**31 - 1),
        committed_offset=st.integers(-(2**63), 2**63 - 1),
        committed_leader_epoch=st.integers(-(2**31), 2**31 - 1),
        committed_metadata=texts,
    )
    partitions = draw(st.lists(partition, max_size=5)) * draw(st.sampled_from([1, 1, 1, 60]))
    return OffsetCommitRequest.OffsetCommitRequestTopic(name=draw(NAME), topic_id=draw(ID), partitions=partitions)


REQUESTS = st.builds(
    OffsetCommitRequest,
    group_id=NAME,
    generation_id_or_member_epoch=st.integers(-(2**31), 2**31 - 1),
    member_id=NAME,
    group_instance_id=st.none() | NAME,
    retention_time_ms=st.integers(-1, 2**40),
    topics=st.lists(topics(), max_size=3),
)


def as_columns(m: OffsetCommitRequest) -> list[object]:
    """The values that the columns of this message must have."""
    rows: list[object] = [m.group_id, m.generation_id_or_member_epoch, m.member_id, m.group_instance_id]
    rows.append(m.retention_time_ms)
    for topic in m.topics:
        rows.append((topic.name, topic.topic_id))
        rows += [
            (p.partition_index, p.committed_offset, p.committed_leader_epoch, p.committed_metadata or "")
            for p in topic.partitions
        ]
    return rows


def read(m: OffsetCommitColumns) -> list[object]:
    rows: list[object] = [*m.by, m.retention_time_ms]
    for topic in m.topics:
        rows.append((topic.name, topic.topic_id))
        texts = topic.metadata or [b""] * len(topic.partitions)
        rows += [
            (*struct.unpack(">i", partition), *struct.unpack(">qi", offset), text.decode())
            for partition, offset, text in zip(topic.partitions, topic.offsets, texts, strict=True)
        ]
    assert m.partition_count == sum(len(topic.partitions) for topic in m.topics)
    return rows


def agree(data: bytes, version: int, offset: int = 0) -> None:
    """Both take these bytes and say the same of them, or both refuse them."""
    try:
        expected = as_columns(OffsetCommitRequest.decode(data, version, offset))
    except WireError:
        with pytest.raises(WireError):
            OffsetCommitColumns.decode(data, version, offset)
    else:
        assert read(OffsetCommitColumns.decode(data, version, offset)) == expected


@given(REQUESTS, VERSION, st.binary(max_size=3))
def test_a_request_is_read_as_its_message(message: OffsetCommitRequest, version: int, before: bytes) -> None:
    agree(before + message.encode(version) + b"more", version, len(before))


@given(REQUESTS, VERSION, st.data())
def test_a_request_for_some_of_the_topics_is_the_same_without_the_others(
    message: OffsetCommitRequest, version: int, data: st.DataObject
) -> None:
    """Null metadata becomes empty: readers do not distinguish the two."""
    columns = OffsetCommitColumns.decode(message.encode(version), version)
    kept = [data.draw(st.booleans()) for _ in message.topics]
    made = columns.request_for(topic for topic, keep in zip(columns.topics, kept, strict=True) if keep)
    message.topics = [topic for topic, keep in zip(message.topics, kept, strict=True) if keep]
    whole = OffsetCommitRequest.decode(message.encode(version), version)
    assert as_columns(OffsetCommitRequest.decode(made.encode(version), version)) == as_columns(whole)


@given(REQUESTS, VERSION, st.data())
def test_a_request_cut_short_is_refused(message: OffsetCommitRequest, version: int, data: st.DataObject) -> None:
    whole = message.encode(version)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(WireError):
        OffsetCommitColumns.decode(whole[:cut], version)


@examples(500)
@given(REQUESTS, VERSION, st.data())
def test_damaged_bytes_are_read_or_refused_alike(
    message: OffsetCommitRequest, version: int, data: st.DataObject
) -> None:
    """Lengths that are negative or reach past the end, tagged fields, bytes that are no UTF-8."""
    damaged = bytearray(message.encode(version))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        what = data.draw(st.sampled_from([b"\xff", b"\x80", b"\x7f", b"\xff\xff", b"\0", b"\1", b"\xff\xff\xff\xff"]))
        if data.draw(st.booleans()):
            damaged[at : at + len(what)] = what
        else:
            damaged[at:at] = what
    agree(bytes(damaged), version)


@given(st.binary(max_size=120), VERSION)
@example(b"\x02g" + bytes(4) + b"\x01\x00\xff\xff\xff\xff\x0f", 8)
@example(b"\x02g" + bytes(4) + b"\x01\x00\x02\x02t\xff\xff\xff\xff\x0f", 9)
@example(b"\0\1g" + bytes(4) + b"\0\0" + bytes(8) + b"\x7f\xff\xff\xff", 2)
@example(b"\0\1g" + bytes(4) + b"\0\0" + b"\xff\xff\xff\xff", 5)
def test_any_bytes_are_read_or_refused_alike(data: bytes, version: int) -> None:
    agree(data, version)


TAGS = b"\x01\x05\x03abc"


@pytest.mark.parametrize("where", ["partition", "topic", "request"])
def test_tagged_fields_are_skipped(where: str) -> None:
    tags = {name: TAGS if name == where else b"\0" for name in ("partition", "topic", "request")}
    row = bytes(4) + (42).to_bytes(8, "big") + bytes(4) + b"\x01" + tags["partition"]
    data = b"\x02g" + bytes(4) + b"\x01\x00\x02\x02t\x03" + row + row + tags["topic"] + tags["request"]
    agree(data, 9)
    (topic,) = OffsetCommitColumns.decode(data, 9).topics
    assert list(topic.offsets) == [(42).to_bytes(8, "big") + bytes(4)] * 2


@pytest.mark.parametrize("version", [VERSIONS[0] - 1, VERSIONS[1] + 1])
def test_a_version_that_is_not_known_is_refused(version: int) -> None:
    with pytest.raises(WireError):
        OffsetCommitColumns.decode(bytes(50), version)


@given(REQUESTS, VERSION, st.sampled_from([[0], [25], [0, 12], [3, 0, 100]]))
def test_an_answer_is_written_as_its_message(message: OffsetCommitRequest, version: int, codes: list[int]) -> None:
    request = OffsetCommitColumns.decode(message.encode(version), version)
    errors = [codes[number % len(codes)] for number in range(request.partition_count)]
    left = iter(errors)
    rows = [
        OffsetCommitResponse.OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponse.OffsetCommitResponsePartition(
                    partition_index=p.partition_index, error_code=next(left)
                )
                for p in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    expected = OffsetCommitResponse(topics=rows).encode(version)
    assert OffsetCommitAnswer(request, errors).encode(version) == expected
