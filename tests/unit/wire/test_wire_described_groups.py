"""Descriptions of consumer groups that are cut up as bytes, against the messages of schema.json."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.wire.described_groups import PIECE_VALUES, GroupBytes, read_groups
from actors.wire.framing import encode_response
from actors.wire.messages import ConsumerGroupDescribeResponse as R
from tests.support.examples import examples

# A text's length is a varint of two bytes from 127 on.
TEXTS = st.one_of(st.text(max_size=5), st.integers(126, 129).map(lambda size: "x" * size))
MAYBE = st.none() | TEXTS
I32 = st.integers(-(2**31), 2**31 - 1)
TOPICS = st.builds(
    R.TopicPartitions,
    topic_id=st.binary(min_size=16, max_size=16),
    topic_name=TEXTS,
    partitions=st.lists(I32, max_size=2) | st.integers(126, 129).map(lambda size: [*range(size)]),
)
ASSIGNMENTS = st.builds(R.Assignment, topic_partitions=st.lists(TOPICS, max_size=2))
MEMBERS = st.builds(
    R.Member,
    member_id=TEXTS,
    instance_id=MAYBE,
    rack_id=MAYBE,
    member_epoch=I32,
    client_id=TEXTS,
    client_host=TEXTS,
    subscribed_topic_names=st.lists(TEXTS, max_size=2),
    subscribed_topic_regex=MAYBE,
    assignment=ASSIGNMENTS,
    target_assignment=ASSIGNMENTS,
    member_type=st.integers(-1, 1),
)
GROUPS = st.builds(
    R.DescribedGroup,
    error_code=st.integers(-1, 127),
    error_message=MAYBE,
    group_id=TEXTS,
    group_state=TEXTS,
    group_epoch=I32,
    assignment_epoch=I32,
    assignor_name=TEXTS,
    members=st.lists(MEMBERS, max_size=3),
    authorized_operations=I32,
)


def cut(answer: R, version: int) -> tuple[list[GroupBytes], int]:
    """The groups, and in how many pieces they were read."""
    found: list[GroupBytes] = []
    return found, 1 + sum(1 for _ in read_groups(encode_response(answer, version, 7), version, found))


@examples(200)
@given(st.lists(GROUPS, max_size=3), st.integers(0, 1))
def test_the_groups_of_an_answer_are_its_bytes(groups: list[R.DescribedGroup], version: int) -> None:
    found, _ = cut(R(groups=groups), version)
    assert [(each.group_id, each.error_code) for each in found] == [(g.group_id, g.error_code) for g in groups]
    for each, group in zip(found, groups, strict=True):
        (alone,) = R.decode(bytes(4) + b"\2" + each.before + each.operations + each.tags + b"\0", version).groups
        (same,) = R.decode(R(groups=[group]).encode(version), version).groups
        assert alone == same
        assert int.from_bytes(each.operations, "big", signed=True) == group.authorized_operations
        by_id: dict[bytes, str] = {}
        for member in group.members:
            for assignment in (member.assignment, member.target_assignment):
                for topic in assignment.topic_partitions if assignment is not None else ():
                    by_id.setdefault(topic.topic_id, topic.topic_name)
        assert each.topics == frozenset(by_id.values())


def test_many_members_are_read_in_pieces() -> None:
    one = R.Assignment(topic_partitions=[R.TopicPartitions(topic_id=bytes(16), topic_name="t", partitions=[1])])
    members = [R.Member(assignment=one, target_assignment=one, subscribed_topic_names=["t"])] * PIECE_VALUES
    found, pieces = cut(R(groups=[R.DescribedGroup(group_id="g", members=members)]), 1)
    assert [each.topics for each in found] == [{"t"}]
    assert 5 <= pieces <= 8


def test_many_groups_without_members_are_read_in_pieces() -> None:
    groups = [R.DescribedGroup(group_id=f"g-{n}", error_code=69) for n in range(3 * PIECE_VALUES)]
    found, pieces = cut(R(groups=groups), 1)
    assert [each.group_id for each in found] == [each.group_id for each in groups]
    assert pieces == 4
