"""Answers about groups and offsets by the rights of the client."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.coordinator.consumer.validation import NAMES_MAX
from actors.runtime.logs import AUDIT
from actors.security.acl import AclOperation, PatternType
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_response
from actors.wire.operations import GROUP_OPERATIONS
from tests.support.acl_requests import commit
from tests.support.acl_world import RELAYED, World, name_id
from tests.support.acl_world import answer as made_answer
from tests.support.acls import CLUSTER, GROUP, TOPIC, allowed, forbidden

READ, DELETE, DESCRIBE, ALL = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, AclOperation.ALL
DENIED_TOPIC, DENIED_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
PREFIXED = PatternType.PREFIXED
NOT_ASKED = -(2**31)


@pytest.mark.conformance("XC-34")
def test_a_commit_of_two_topics_of_which_one_is_denied(tmp_path: Path) -> None:
    """The other one is committed."""
    world = World(tmp_path, [allowed(READ, GROUP, "g"), allowed(READ, TOPIC, "t")], ["t", "secret"])
    answer = world.ask(commit("secret", "t", "none"), 9)
    rows = [(topic.name, [part.error_code for part in topic.partitions]) for topic in answer.topics]
    assert rows == [("secret", [DENIED_TOPIC] * 2), ("t", [0, 0]), ("none", [DENIED_TOPIC] * 2)]
    (asked,) = world.shards.asked
    assert [topic.name for topic in asked.topics] == ["t"]
    assert (asked.group_id, asked.member_id) == ("g", "mine")


@pytest.mark.conformance("XC-34")
def test_a_commit_by_ids(tmp_path: Path) -> None:
    """An id is judged by its name; one that no topic has is told as such."""
    world = World(tmp_path, [allowed(READ, GROUP, "g"), allowed(READ, TOPIC, "t")], ["t", "secret"])
    answer = world.ask(commit("secret", "none", "t", version=10), 10)
    assert [topic.partitions[0].error_code for topic in answer.topics] == [DENIED_TOPIC, ErrorCode.UNKNOWN_TOPIC_ID, 0]
    assert [topic.topic_id for topic in answer.topics] == [name_id(name) for name in ("secret", "none", "t")]


@pytest.mark.conformance("XC-82")
@pytest.mark.parametrize("version", [2, 5, 8, 9])
def test_who_may_read_every_topic_commits_as_ever(tmp_path: Path, version: int) -> None:
    """The request goes to its shard as it came."""
    for acls in ([allowed(READ, TOPIC, "*")], [allowed(READ, TOPIC, "t")]):
        world = World(tmp_path, [allowed(READ, GROUP, "g"), *acls])
        assert world.ask(commit("t"), version) == RELAYED
    world = World(tmp_path, [allowed(READ, GROUP, "g"), allowed(READ, TOPIC, "*"), forbidden(READ, TOPIC, "t")])
    assert world.ask(commit("t"), version).topics[0].partitions[0].error_code == DENIED_TOPIC


def all_offsets(version: int) -> m.OffsetFetchRequest:
    r = m.OffsetFetchRequest
    if version < 8:
        return r(group_id="g", topics=None)
    return r(groups=[r.OffsetFetchRequestGroup(group_id="g", topics=None)])


@pytest.mark.conformance("XC-35", "XC-83")
@pytest.mark.parametrize("version", range(2, 11))
def test_a_fetch_of_all_offsets_leaves_out_what_may_not_be_seen(tmp_path: Path, version: int) -> None:
    world = World(tmp_path, [allowed(DESCRIBE, GROUP, "g"), allowed(DESCRIBE, TOPIC, "t")], ["t", "other"])
    answer = world.ask(all_offsets(version), version)
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    assert [topic.topic_id == name_id("t") if version >= 10 else topic.name == "t" for topic in topics] == [True]
    assert topics[0].partitions[0].error_code == 0
    everywhere = World(tmp_path, [allowed(ALL, GROUP, "*"), allowed(ALL, TOPIC, "*")])
    assert everywhere.ask(all_offsets(version), version) == RELAYED


@pytest.mark.conformance("XC-35")
@pytest.mark.parametrize("version", range(1, 11))
def test_a_fetch_of_two_topics_of_which_one_is_denied(tmp_path: Path, version: int) -> None:
    world = World(tmp_path, [allowed(READ, GROUP, "g"), allowed(READ, TOPIC, "t")], ["t", "secret"])
    r = m.OffsetFetchRequest
    make: Any = r.OffsetFetchRequestTopic if version < 8 else r.OffsetFetchRequestTopics
    topics = [
        make(partition_indexes=[0], **({"topic_id": name_id(name)} if version >= 10 else {"name": name}))
        for name in ("secret", "t")
    ]
    request = r(group_id="g", topics=topics) if version < 8 else r(
        groups=[r.OffsetFetchRequestGroup(group_id="g", topics=topics)]
    )  # fmt: skip
    answer = world.ask(request, version)
    found = answer.groups[0].topics if version >= 8 else answer.topics
    rows = [(t.topic_id if version >= 10 else t.name, t.partitions[0]) for t in found]
    mine, secret = (name_id("t"), name_id("secret")) if version >= 10 else ("t", "secret")
    assert [(name, p.error_code, p.committed_offset) for name, p in rows] == [(mine, 0, 5), (secret, DENIED_TOPIC, -1)]


@pytest.mark.conformance("K-D-15")
@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize(("member_id", "epoch", "asked"), [("A", 3, 1), ("", -1, 1), (None, 3, 1), (None, -1, 0)])
def test_a_member_that_may_read_no_topic_was_not_judged(
    tmp_path: Path, version: int, member_id: str | None, epoch: int, asked: int
) -> None:
    """The shard judges the member's epoch, even if all of its topics are denied."""
    world = World(tmp_path, [allowed(READ, GROUP, "g")], ["secret"])
    r = m.OffsetFetchRequest
    name: dict[str, Any] = {"topic_id": name_id("secret")} if version >= 10 else {"name": "secret"}
    topics = [r.OffsetFetchRequestTopics(partition_indexes=[0], **name)]
    group = r.OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=topics)
    (answer,) = world.ask(r(groups=[group]), version).groups
    assert [(t.partitions[0].error_code, t.partitions[0].committed_offset) for t in answer.topics] == [
        (DENIED_TOPIC, -1)
    ]
    assert [
        (each.groups[0].member_id, each.groups[0].member_epoch, each.groups[0].topics) for each in world.shards.asked
    ] == [(member_id, epoch, [])] * asked


@pytest.mark.conformance("XC-35")
@pytest.mark.parametrize("version", range(1, 11))
def test_a_denied_fetch_of_offsets(tmp_path: Path, version: int) -> None:
    """Versions 0 and 1 have no field for the group's error, so each partition has it."""
    r = m.OffsetFetchRequest
    topic: Any = (r.OffsetFetchRequestTopic if version < 8 else r.OffsetFetchRequestTopics)(partition_indexes=[0, 1])
    if version < 10:
        topic.name = "t"
    request = r(group_id="g", topics=[topic]) if version < 8 else r(
        groups=[r.OffsetFetchRequestGroup(group_id="g", topics=[topic])]
    )  # fmt: skip
    answer = World(tmp_path).ask(request, version)
    if version >= 8:
        assert [(g.error_code, g.topics) for g in answer.groups] == [(DENIED_GROUP, [])]
    elif version >= 2:
        assert (answer.error_code, answer.topics) == (DENIED_GROUP, [])
    else:
        assert [p.error_code for p in answer.topics[0].partitions] == [DENIED_GROUP] * 2


@pytest.mark.conformance("XC-60")
def test_a_deletion_of_offsets_of_two_topics_of_which_one_is_denied(tmp_path: Path) -> None:
    r = m.OffsetDeleteRequest
    topics = [
        r.OffsetDeleteRequestTopic(name=name, partitions=[r.OffsetDeleteRequestPartition(partition_index=0)])
        for name in ("secret", "t")
    ]
    world = World(tmp_path, [allowed(DELETE, GROUP, "g"), allowed(READ, TOPIC, "t")])
    answer = world.ask(r(group_id="g", topics=topics), 0)
    assert [(t.name, t.partitions[0].error_code) for t in answer.topics] == [("secret", DENIED_TOPIC), ("t", 0)]


@pytest.mark.conformance("XC-41")
def test_groups_that_may_not_be_seen_are_not_listed(tmp_path: Path) -> None:
    acls = [allowed(READ, GROUP, "oth", pattern=PatternType.PREFIXED)]
    assert [g.group_id for g in World(tmp_path, acls).ask(m.ListGroupsRequest(), 5).groups] == ["other"]
    all_groups = World(tmp_path, [allowed(DESCRIBE, CLUSTER)]).ask(m.ListGroupsRequest(), 5)
    assert [g.group_id for g in all_groups.groups] == ["g", "other"]


@pytest.mark.conformance("XC-41")
def test_groups_of_shards_that_are_awake_are_listed_by_rights_too(tmp_path: Path) -> None:
    for rights, seen in ((READ, ["other"]), (None, ["g", "other"])):
        acls = [allowed(DESCRIBE, CLUSTER)] if rights is None else [allowed(rights, GROUP, "other")]
        world = World(tmp_path, acls)
        world.shards.awake = {3: ["g"], 7: ["other"]}
        assert [group.group_id for group in world.ask(m.ListGroupsRequest(), 5).groups] == seen
        assert len(world.shards.asked) == 2


@pytest.mark.conformance("XC-40", "XC-56", "XC-84")
def test_denied_groups_keep_their_places(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(DELETE, GROUP, "g")])
    described = world.ask(
        m.DescribeGroupsRequest(groups=["no", "g", "nor"], include_authorized_operations=True), 5
    ).groups
    assert [(g.group_id, g.error_code, g.group_state, g.authorized_operations) for g in described] == [
        ("no", DENIED_GROUP, "", NOT_ASKED),
        ("g", 0, "Stable", 1 << 6 | 1 << 8),
        ("nor", DENIED_GROUP, "", NOT_ASKED),
    ]
    for version in range(4):
        deleted = world.ask(m.DeleteGroupsRequest(groups_names=["no", "g", "no"]), version).results
        assert [(r.group_id, r.error_code) for r in deleted] == [("no", DENIED_GROUP), ("g", 0)]
    assert [asked.groups_names for asked in world.shards.asked[1:]] == [["g"]] * 4


@pytest.mark.conformance("K-A-80", "K-I-33")
def test_a_shard_of_an_older_build_is_asked_to_delete_in_a_version_that_it_knows(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(DELETE, GROUP, "g")])
    for version in range(4):
        (deleted,) = world.ask(m.DeleteGroupsRequest(groups_names=["g"]), version).results
        assert (deleted.error_code, deleted.error_message) == (0, None)
    assert world.shards.versions == [0, 1, 2, 2]


def consumer_heartbeat(*names: str, epoch: int = 0) -> m.ConsumerGroupHeartbeatRequest:
    return m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="mine", member_epoch=epoch, subscribed_topic_names=list(names) or None
    )


@pytest.mark.conformance("K-A-19", "K-A-20")
@pytest.mark.parametrize("version", [0, 1])
def test_a_consumer_groups_heartbeat_that_names_a_topic_which_may_not_be_seen_is_refused_whole(
    tmp_path: Path, version: int
) -> None:
    """The group's shard does not hear of it: a refused heartbeat is no sign of life."""
    world = World(tmp_path, [allowed(READ, GROUP, "g"), allowed(DESCRIBE, TOPIC, "t")], ["t", "secret"])
    for asked in (consumer_heartbeat("t"), consumer_heartbeat(epoch=3), consumer_heartbeat(epoch=-1)):
        assert world.ask(asked, version) == RELAYED
    for epoch in (0, 3, -1):
        for names in (("secret",), ("t", "secret"), ("t", "none")):
            answer = world.ask(consumer_heartbeat(*names, epoch=epoch), version)
            said = (answer.error_code, answer.error_message, answer.member_id, answer.member_epoch, answer.assignment)
            assert said == (DENIED_TOPIC, None, None, 0, None)
    assert (len(world.shards.relayed), world.shards.asked) == (3, [])
    denied = World(tmp_path, [allowed(DESCRIBE, TOPIC, "t")]).ask(consumer_heartbeat("t", "secret"), version)
    assert denied.error_code == DENIED_GROUP, "the group is judged first"


def test_a_heartbeat_of_a_million_topics_held_up_all_clients_of_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each was judged, which took six seconds. Now they are judged up to the first denial, and too many not at all."""
    caplog.set_level(logging.INFO, AUDIT)
    world = World(tmp_path, [allowed(READ, GROUP, "g"), allowed(DESCRIBE, TOPIC, "t")], ["t"])
    many = [f"no-{number}" for number in range(NAMES_MAX)]
    assert world.ask(consumer_heartbeat("t", *many[1:]), 1).error_code == DENIED_TOPIC
    (line,) = [record.getMessage() for record in caplog.records if record.name == AUDIT]
    assert "'no-1'" in line
    caplog.clear()
    assert world.ask(consumer_heartbeat("t", *many), 1) == RELAYED
    assert [record for record in caplog.records if record.name == AUDIT] == []


@pytest.mark.conformance("K-A-59", "K-A-60", "K-A-66")
def test_a_consumer_group_with_a_topic_that_may_not_be_seen_is_not_described(tmp_path: Path) -> None:
    acls = [allowed(DESCRIBE, GROUP, "with-", pattern=PatternType.PREFIXED), allowed(DESCRIBE, TOPIC, "t")]
    world = World(tmp_path, acls, ["t", "secret"])
    names = ["no", "with-t", "with-secret", "with-none", "with-t"]
    asked = m.ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=True)
    described = world.ask(asked, 1).groups
    assert [(g.group_id, g.error_code, len(g.members), g.authorized_operations) for g in described] == [
        ("no", DENIED_GROUP, 0, NOT_ASKED),
        ("with-t", 0, 1, 1 << 8),
        ("with-secret", DENIED_TOPIC, 0, NOT_ASKED),
        ("with-none", 0, 1, 1 << 8),
    ]
    assert described[2].error_message
    assert (described[2].group_state, described[2].group_epoch) == ("", 0)


def without_acls(tmp_path: Path) -> World:
    return World(tmp_path, authorizer_class_name="")


@pytest.mark.parametrize("authorizer", [True, False])
@pytest.mark.parametrize("groups", [["with-t"], ["with-t", "with-none"]])
def test_a_description_was_made_for_a_client_that_had_gone(tmp_path: Path, authorizer: bool, groups: list[str]) -> None:
    """Its answer was judged and encoded for nobody; to ask and go was a cheap way to keep a broker at work."""
    everything = [allowed(ALL, GROUP, "*"), allowed(ALL, TOPIC, "*")]
    world = World(tmp_path, everything) if authorizer else without_acls(tmp_path)
    slots: list[Any] = []
    make = world.connection.slots.make
    world.connection.slots.make = lambda *of: slots.append(make(*of)) or slots[-1]  # type: ignore[func-returns-value]
    world.shards.holds = True
    assert world.ask(m.ConsumerGroupDescribeRequest(group_ids=groups), 1) is None
    world.connection.connection_lost(None)
    world.shards.release()
    assert [slot.answer for slot in slots] == [None]


def test_a_long_description_of_one_group_was_decoded_and_encoded_again(tmp_path: Path) -> None:
    """It took a quarter of a second of the broker's loop, in one turn, for some hundred thousand partitions."""
    sees_all = World(tmp_path, [allowed(ALL, GROUP, "*"), allowed(ALL, TOPIC, "*")])
    for world in (without_acls(tmp_path), sees_all):
        answer = world.bytes_for(m.ConsumerGroupDescribeRequest(group_ids=["with-long"]), 1)
        assert isinstance(answer, bytes)
        assert world.shards.frames == [answer]
        assert decode_response(m.ConsumerGroupDescribeResponse, 1, answer[4:])[0] == 7
    (group,) = without_acls(tmp_path).ask(m.ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (group.group_id, group.group_state) == ("g", "Stable")


def in_pieces(world: World, version: int, *groups: str, also: bool = False) -> tuple[Any, int]:
    """A description, and the number of loop turns it takes."""
    asked = m.ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=also)
    written = world.connection.transport.written  # type: ignore[union-attr]
    before, turns = len(written), 0
    world.bytes_for(asked, version)
    while len(written) == before:
        turns += 1
        assert turns < 1000
        world.broker.loop.turn()
    world.broker.loop.turn()  # in this turn its client is read again
    (answer,) = written[before:]
    return decode_response(m.ConsumerGroupDescribeResponse, version, answer[4:])[1], turns


def whole(version: int, *groups: str, also: bool) -> Any:
    """The answer of the shards, before rights are applied to it."""
    asked = m.ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=also)
    return made_answer(asked, version)


@pytest.mark.parametrize("version", [0, 1])
def test_a_long_description_that_has_to_be_judged_was_one_piece_of_work(tmp_path: Path, version: int) -> None:
    """It took 60 ms of the broker's loop to decode, judge and encode some thousand members."""
    acls = [allowed(DESCRIBE, GROUP, "*"), allowed(DESCRIBE, TOPIC, "t", pattern=PatternType.PREFIXED)]
    world = World(tmp_path, acls)
    for also in (False, True):
        found, turns = in_pieces(world, version, "with-many", "with-t", also=also)
        wanted = whole(version, "with-many", "with-t", also=also)
        for each in wanted.groups:
            each.authorized_operations = 1 << 8 if also else NOT_ASKED
        assert (
            found
            == decode_response(m.ConsumerGroupDescribeResponse, version, encode_response(wanted, version, 7)[4:])[1]
        )
        assert turns > 6, "members, and then names"
    assert len(world.broker.context.turns) == 0
    assert world.connection.transport.reading  # type: ignore[union-attr]


def test_a_long_description_without_acls_is_merged_in_pieces(tmp_path: Path) -> None:
    found, turns = in_pieces(without_acls(tmp_path), 1, "with-many", "g", also=True)
    assert [(g.group_id, len(g.members), g.authorized_operations) for g in found.groups] == [
        ("with-many", 6_000, GROUP_OPERATIONS),
        ("g", 1, GROUP_OPERATIONS),
    ]
    assert turns > 3


def test_refusals_have_their_places_in_a_long_description_and_are_counted(tmp_path: Path) -> None:
    acls = [allowed(ALL, GROUP, "with-", pattern=PatternType.PREFIXED), allowed(ALL, TOPIC, "t", pattern=PREFIXED)]
    world = World(tmp_path, acls)
    found, _ = in_pieces(world, 1, "no", "with-secret", "with-many", "with-t")
    assert [(g.group_id, g.error_code, len(g.members)) for g in found.groups] == [
        ("no", DENIED_GROUP, 0),
        ("with-secret", DENIED_TOPIC, 0),
        ("with-many", 0, 6_000),
        ("with-t", 0, 1),
    ]
    assert found.groups[1].error_message
    hidden = World(tmp_path, [allowed(ALL, GROUP, "*"), allowed(ALL, TOPIC, "t-1", pattern=PREFIXED)])
    (group,) = in_pieces(hidden, 1, "with-many")[0].groups
    assert (group.error_code, group.members) == (DENIED_TOPIC, [])
    for each in (world, hidden):
        (figures,) = [row for row in each.broker.context.counts.requests.figures(Counter()) if row.api_key == 69]
        assert figures.errors == 1


def test_a_long_description_was_judged_to_the_end_for_a_client_that_had_gone(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(ALL, GROUP, "*"), allowed(ALL, TOPIC, "t", pattern=PREFIXED)])
    world.bytes_for(m.ConsumerGroupDescribeRequest(group_ids=["with-many"]), 1)
    assert len(world.broker.context.turns) == 1
    world.connection.connection_lost(None)
    world.broker.loop.turn()
    assert len(world.broker.context.turns) == 0


def test_a_long_description_of_one_classic_group_was_decoded_and_encoded_again(tmp_path: Path) -> None:
    asked = m.DescribeGroupsRequest(groups=["with-long"])
    judged = World(tmp_path, [allowed(DESCRIBE, GROUP, "with-long")])
    for world, may_do in ((without_acls(tmp_path), GROUP_OPERATIONS), (judged, 1 << 8)):
        answer = world.bytes_for(asked, 5)
        assert isinstance(answer, bytes)
        assert world.shards.frames == [answer]
        also = m.DescribeGroupsRequest(groups=["with-long"], include_authorized_operations=True)
        assert world.ask(also, 5).groups[0].authorized_operations == may_do, "which only the broker knows"
    denied = World(tmp_path, [allowed(DESCRIBE, GROUP, "other")]).ask(asked, 5).groups
    assert [(g.group_id, g.error_code) for g in denied] == [("with-long", DENIED_GROUP)]


@pytest.mark.conformance("K-A-02", "K-A-18")
@pytest.mark.parametrize("version", [0, 1])
def test_the_consumer_protocol_is_refused_before_anything_else_while_it_is_off(tmp_path: Path, version: int) -> None:
    """It is off by the settings, or because a process of the cluster may not know the records."""
    off = World(tmp_path, group_coordinator_rebalance_protocols="classic")
    old = World(tmp_path)
    old.broker.metadata.features.clear()
    for world in (off, old):
        answer = world.ask(consumer_heartbeat("secret"), version)
        assert (answer.error_code, answer.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
        described = world.ask(m.ConsumerGroupDescribeRequest(group_ids=["a", "b", "a"]), version).groups
        assert [(g.group_id, g.error_code, g.error_message) for g in described] == [
            ("a", ErrorCode.UNSUPPORTED_VERSION, None),
            ("b", ErrorCode.UNSUPPORTED_VERSION, None),
        ]
        listed = world.ask(m.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
        assert {68: (0, 1), 69: (0, 1)}.items() <= {
            each.api_key: (each.min_version, each.max_version) for each in listed.api_keys
        }.items()
    assert old.shards.touched == off.shards.touched == []


@pytest.mark.conformance("K-I-30")
def test_group_version_is_finalized_once_the_metadata_may_say_so(tmp_path: Path) -> None:
    for level, finalized in ((1, {}), (2, {"group.version": 1})):
        world = World(tmp_path)
        world.broker.metadata.features["metadata.version"] = level
        for version in (3, 4):
            request = m.ApiVersionsRequest(client_software_name="a", client_software_version="1")
            answer = world.ask(request, version)
            found = {f.name: f.max_version_level for f in answer.finalized_features if f.name == "group.version"}
            assert found == finalized
            shown = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
            assert shown.get("group.version") == ((0, 1) if version >= 4 else None)
