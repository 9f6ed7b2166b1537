"""Commits of a client that repeats itself are read and answered as if each were its first."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.groups import messages as core
from actors.group_api import Topics, offset_commit
from actors.group_api.commits import Commits
from actors.wire.errors import WireError
from actors.wire.framing import encode_request
from actors.wire.messages import OffsetCommitRequest
from tests.support.examples import examples
from tests.support.offset_rows import commit_rows

IDS = {"orders": b"o" * 16, "payments-ü": b"p" * 16, "few": b"f" * 16}
TOPICS = Topics([("orders", IDS["orders"], 100), ("payments-ü", IDS["payments-ü"], 500), ("few", IDS["few"], 2)])
VERSION = st.integers(*offset_commit.VERSIONS)
TEXT = st.text(max_size=4)
OFFSETS = st.tuples(st.integers(-1, 2**62), st.integers(-1, 9))


@st.composite
def requests(draw: st.DrawFn) -> OffsetCommitRequest:
    partition = st.builds(
        OffsetCommitRequest.OffsetCommitRequestPartition,
        partition_index=st.integers(0, 2),
        committed_metadata=draw(st.just(st.sampled_from([None, ""])) | st.just(st.none() | TEXT)),
    )
    topics = []
    for name in draw(st.lists(st.sampled_from(sorted(IDS)), max_size=3)):
        rows = draw(st.lists(partition, max_size=4))
        rows = rows * (draw(st.sampled_from([1, 1, 1, 100])))
        topics.append(OffsetCommitRequest.OffsetCommitRequestTopic(name=name, topic_id=IDS[name], partitions=rows))
    return OffsetCommitRequest(
        group_id=draw(TEXT),
        generation_id_or_member_epoch=draw(st.integers(-1, 9)),
        member_id=draw(TEXT),
        group_instance_id=draw(st.none() | TEXT),
        retention_time_ms=draw(st.integers(-1, 2**40)),
        topics=topics,
    )


def with_offsets(request: OffsetCommitRequest, offset: int, epoch: int) -> OffsetCommitRequest:
    """The same with other offsets."""
    other = copy.deepcopy(request)
    for topic in other.topics:
        for row in topic.partitions:
            row.committed_offset, row.committed_leader_epoch = offset, epoch
            offset = (offset * 31 + 7) % 2**62
    return other


def said(commits: Commits, frame: bytes, topics: Topics = TOPICS) -> Any:
    """All that is made of a frame: what the coordinator is asked, and two answers; None if the frame is refused."""
    try:
        header, message, request = commits.read(frame, topics)
    except WireError:
        return None
    version = header.api_version
    if request is None:
        return header, offset_commit.answer(message, None, version, topics).encode(version)
    wanted = (request[:4], commit_rows(request), request[5:])
    count = sum(len(topic.partitions) for topic in request.topics)
    answers = [
        offset_commit.body(message, core.OffsetCommitResponse([code] * count), version, topics) for code in (0, 25, 0)
    ]
    return header, wanted, answers


@given(requests(), VERSION, st.data())
def test_what_is_repeated_is_read_as_if_it_were_new(
    request: OffsetCommitRequest, version: int, data: st.DataObject
) -> None:
    commits = Commits()
    for correlation_id in (-1, 7, 8, 2**31 - 1):
        frame = encode_request(with_offsets(request, *data.draw(OFFSETS)), version, correlation_id, "client")[4:]
        assert said(commits, frame) == said(Commits(), frame)


@examples(300)
@given(requests(), VERSION, st.data())
def test_what_is_nearly_repeated_is_read_as_if_it_were_new(
    request: OffsetCommitRequest, version: int, data: st.DataObject
) -> None:
    """Any byte may differ, the frame may be cut, and another version may have the same bytes."""
    frame = encode_request(with_offsets(request, *data.draw(OFFSETS)), version, 7, None)[4:]
    commits = Commits()
    for _ in range(3):
        assert said(commits, frame) == said(Commits(), frame)
    changed = bytearray(frame)
    changed[data.draw(st.integers(2, len(frame) - 1))] = data.draw(st.integers(0, 255))
    for other in (bytes(changed), frame[: data.draw(st.integers(8, len(frame)))], frame + b"\0"):
        assert said(commits, other) == said(Commits(), other)
        assert said(commits, frame) == said(Commits(), frame)


def frame_of(*partitions: int, offset: int = 5) -> bytes:
    rows = [
        OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=each, committed_offset=offset)
        for each in partitions
    ]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="few", partitions=rows)
    return encode_request(OffsetCommitRequest(group_id="g", topics=[topic]), 8, 7, "client")[4:]


def test_a_repeated_commit_is_checked_against_the_topics_of_its_time() -> None:
    """A topic was deleted, and then created with fewer partitions."""
    commits = Commits()
    for topics in (TOPICS, TOPICS, TOPICS, Topics(), Topics(), Topics([("few", b"f" * 16, 1)]), TOPICS, TOPICS):
        assert said(commits, frame_of(0, 1), topics) == said(Commits(), frame_of(0, 1), topics)


@pytest.mark.parametrize("rounds", range(3))
def test_commits_in_turns_are_kept_apart(rounds: int) -> None:
    commits = Commits()
    for number in range(rounds):
        assert said(commits, frame_of(0, 1, offset=number)) == said(Commits(), frame_of(0, 1, offset=number))
    for number in range(4):
        frame = frame_of(number % 2, 1, offset=number)
        assert said(commits, frame) == said(Commits(), frame)
