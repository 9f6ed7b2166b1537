"""Admin describes consumer groups: by ConsumerGroupDescribe, where DescribeGroups knows no such group."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from actors.cli.group_rows import foreign_rows, remarks
from actors.client import Admin, TopicPartition
from actors.client.admin.lookups import described_groups
from actors.client.admin.types import GroupDescription
from actors.client.errors import GroupAuthorizationError, KafkaError, TopicAuthorizationError
from actors.wire import messages as m
from tests.support.client_broker import ScriptedBroker, broker

D, C = m.DescribeGroupsResponse, m.ConsumerGroupDescribeResponse
DEAD = D.DescribedGroup(group_id="g", group_state="Dead")
BARE = D.DescribedGroup(group_id="g", group_state="Stable")
NO_SUCH_GROUP = D.DescribedGroup(group_id="g", error_code=69, error_message="Group g is not a classic group.")


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as made:
        made.versions |= {m.DescribeGroupsRequest: (0, 6), m.ConsumerGroupDescribeRequest: (0, 1)}
        yield made


def partitions(*indexes: int) -> C.Assignment:
    return C.Assignment(topic_partitions=[C.TopicPartitions(topic_id=b"1" * 16, topic_name="t", partitions=[*indexes])])


NEW = C.Member(
    member_id="m-1",
    rack_id="r",
    member_epoch=6,
    client_id="c",
    client_host="/h",
    subscribed_topic_names=["t"],
    subscribed_topic_regex="",
    assignment=partitions(1, 0),
    target_assignment=partitions(0, 2),
    member_type=1,
)
OLD = C.Member(
    member_id="m-2",
    instance_id="i",
    member_epoch=7,
    subscribed_topic_regex="t.*",
    assignment=partitions(),
    target_assignment=partitions(),
    member_type=0,
)
GROUP = C.DescribedGroup(
    group_id="g",
    group_state="Reconciling",
    group_epoch=8,
    assignment_epoch=7,
    assignor_name="uniform",
    members=[NEW, OLD],
)


def described(kafka: ScriptedBroker) -> GroupDescription:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        (group,) = admin.describe_consumer_groups(["g"])
    return group


@pytest.mark.parametrize(("version", "answer"), [(5, DEAD), (6, NO_SUCH_GROUP), (5, BARE)])
def test_a_consumer_group_is_described_with_epochs_and_targets(
    kafka: ScriptedBroker, version: int, answer: D.DescribedGroup
) -> None:
    kafka.versions[m.DescribeGroupsRequest] = (0, version)
    kafka.script(m.DescribeGroupsRequest, D(groups=[answer]))
    kafka.script(m.ConsumerGroupDescribeRequest, C(groups=[GROUP]))
    group = described(kafka)
    assert (group.type, group.protocol_type, group.protocol) == ("consumer", "consumer", "uniform")
    assert (group.state, group.epoch, group.assignment_epoch, group.tells_members) == ("Reconciling", 8, 7, True)
    new, old = group.members
    t = [TopicPartition("t", index) for index in range(3)]
    assert (new.assignment, new.target, new.topics, new.regex) == ((t[0], t[1]), (t[0], t[2]), ("t",), None)
    assert (new.epoch, new.to_give_back, new.to_come, new.rack_id, new.is_classic) == (6, (t[1],), (t[2],), "r", False)
    assert (old.group_instance_id, old.regex, old.assignment, old.is_classic) == ("i", "t.*", (), True)


@pytest.mark.parametrize("code", [69, 35])
def test_a_group_that_is_neither_does_not_exist(kafka: ScriptedBroker, code: int) -> None:
    kafka.script(m.DescribeGroupsRequest, D(groups=[DEAD]), D(groups=[DEAD]))
    kafka.script(m.ConsumerGroupDescribeRequest, C(groups=[C.DescribedGroup(group_id="g", error_code=code)]))
    assert described(kafka).state == "Dead"


@pytest.mark.parametrize(("state", "protocol_type"), [("Empty", ""), ("Stable", "consumer"), ("Stable", "connect")])
def test_a_classic_group_is_asked_for_once(kafka: ScriptedBroker, state: str, protocol_type: str) -> None:
    classic = D.DescribedGroup(group_id="g", group_state=state, protocol_type=protocol_type)
    kafka.script(m.DescribeGroupsRequest, D(groups=[classic]))
    assert described(kafka).state == state
    assert kafka.requests(m.ConsumerGroupDescribeRequest) == []


def test_a_broker_that_knows_no_consumer_groups_is_not_asked_for_them(kafka: ScriptedBroker) -> None:
    del kafka.versions[m.ConsumerGroupDescribeRequest]
    kafka.script(m.DescribeGroupsRequest, D(groups=[DEAD]))
    assert described(kafka).state == "Dead"


def test_a_group_that_was_downgraded_between_the_two_questions_did_not_exist(kafka: ScriptedBroker) -> None:
    stable = D.DescribedGroup(group_id="g", group_state="Stable", protocol_type="consumer")
    kafka.script(m.DescribeGroupsRequest, D(groups=[DEAD]), D(groups=[stable]))
    kafka.script(m.ConsumerGroupDescribeRequest, C(groups=[C.DescribedGroup(group_id="g", error_code=69)]))
    group = described(kafka)
    assert (group.state, group.type) == ("Stable", "classic")


def script_hidden_and_seen(kafka: ScriptedBroker) -> None:
    """A consumer group `g` with a topic that may not be seen, and a classic one, `h`."""
    kafka.versions[m.ListGroupsRequest] = (0, 5)
    seen = D.DescribedGroup(group_id="h", group_state="Stable", protocol_type="consumer")
    kafka.script(m.DescribeGroupsRequest, D(groups=[NO_SUCH_GROUP, seen]))
    kafka.script(m.ConsumerGroupDescribeRequest, C(groups=[C.DescribedGroup(group_id="g", error_code=29)]))
    row = partial(m.ListGroupsResponse.ListedGroup, protocol_type="consumer", group_state="Stable")
    listed = [row(group_id="g", group_type="consumer"), row(group_id="h", group_type="classic")]
    kafka.script(m.ListGroupsRequest, m.ListGroupsResponse(groups=listed))


def test_a_group_whose_topics_may_not_be_seen_hid_all_others_from_tools(kafka: ScriptedBroker) -> None:
    script_hidden_and_seen(kafka)
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        found = described_groups(admin, ["g", "h"])
    hidden, seen = found["g"], found["h"]
    assert (hidden.state, hidden.type, hidden.tells_members, hidden.is_hidden) == ("Stable", "consumer", False, True)
    assert (seen.state, seen.type, seen.is_hidden) == ("Stable", "classic", False)
    assert hidden.coordinator == seen.coordinator
    assert [row["state"] for row in foreign_rows(hidden)] == ["Stable"]
    assert list(remarks(hidden)) == [
        "Group 'g' has topics that you may not describe: its members and what they have are not shown."
    ]


@pytest.mark.parametrize(("code", "error"), [(29, TopicAuthorizationError), (30, GroupAuthorizationError)])
def test_what_may_not_be_seen_of_a_consumer_group_is_an_error(
    kafka: ScriptedBroker, code: int, error: type[KafkaError]
) -> None:
    kafka.script(m.DescribeGroupsRequest, D(groups=[DEAD]))
    kafka.script(m.ConsumerGroupDescribeRequest, C(groups=[C.DescribedGroup(group_id="g", error_code=code)]))
    with pytest.raises(error):
        described(kafka)


def test_a_consumer_group_where_it_cannot_be_described_is_shown_as_it_is_listed(kafka: ScriptedBroker) -> None:
    del kafka.versions[m.ConsumerGroupDescribeRequest]
    kafka.versions[m.ListGroupsRequest] = (0, 5)
    kafka.script(m.DescribeGroupsRequest, D(groups=[DEAD]))
    listed = m.ListGroupsResponse.ListedGroup(
        group_id="g", protocol_type="consumer", group_state="Stable", group_type="consumer"
    )
    kafka.script(m.ListGroupsRequest, m.ListGroupsResponse(groups=[listed]))
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        group = described_groups(admin, ["g"])["g"]
    assert (group.state, group.type, group.tells_members) == ("Stable", "consumer", False)
