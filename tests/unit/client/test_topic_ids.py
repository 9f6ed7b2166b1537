"""Topics by id: what metadata says of them, which offsets may be committed, and who is asked by name or by id."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from actors.client.errors import CommitFailedError, UnknownTopicOrPartitionError
from actors.client.group.topic_ids import divide, known_ids
from actors.client.net.metadata import ClusterMetadata
from actors.client.net.versions import choose_version
from actors.client.records import OffsetAndMetadata, TopicPartition
from actors.wire import messages as m

OLD, NEW, NONE = b"o" * 16, b"n" * 16, bytes(16)
T0, U0, V0 = (TopicPartition(topic, 0) for topic in "tuv")
AT = {tp: OffsetAndMetadata(5) for tp in (T0, U0, V0)}
UNKNOWN = 3


def told(cluster: ClusterMetadata, ids: Mapping[str, bytes]) -> ClusterMetadata:
    """A broker answers with these topics; an id of zeros is a topic that does not exist."""
    part = m.MetadataResponse.MetadataResponseTopic
    topics = [part(name=t, topic_id=i, error_code=0 if any(i) else UNKNOWN) for t, i in ids.items()]
    cluster.update(m.MetadataResponse(topics=topics), frozenset(ids))
    return cluster


def test_a_broker_that_has_not_heard_of_the_new_topic_does_not_bring_the_old_one_back() -> None:
    cluster = told(ClusterMetadata(), {"t": OLD})
    assert told(cluster, {"t": NEW}).topic_id("t") == NEW
    assert told(cluster, {"t": OLD}).topic_id("t") == NEW
    assert told(cluster, {"t": NONE}).topic_id("t") == b""
    assert cluster.is_missing("t")


def test_offsets_of_topics_that_are_gone_are_not_sent() -> None:
    cluster = told(ClusterMetadata(), {"t": NEW, "u": NONE, "v": OLD})
    found = divide(AT, lambda tp: OLD, cluster)
    assert (set(found.offsets), found.ids) == ({V0}, {V0: OLD})
    assert isinstance(found.withheld, CommitFailedError)
    assert "t-0 belonged to a topic that was deleted" in str(found.withheld)


def test_a_topic_that_is_missing_may_only_not_be_known_yet() -> None:
    found = divide(AT, lambda tp: OLD, told(ClusterMetadata(), {"t": OLD, "u": NONE}))
    assert isinstance(found.withheld, UnknownTopicOrPartitionError)
    assert found.withheld.retriable


@pytest.mark.parametrize("position", [b"", OLD], ids=["no position", "a position"])
def test_topics_go_by_name_unless_all_ids_are_known(position: bytes) -> None:
    cluster = told(ClusterMetadata(), {"t": OLD, "u": OLD})
    found = divide(AT, lambda tp: b"" if tp is V0 else position, cluster)
    assert (set(found.offsets), found.ids, found.withheld) == (set(AT), {}, None)
    del (some := dict(AT))[V0]
    assert divide(some, lambda tp: position, cluster).ids == {T0: OLD, U0: OLD}
    assert known_ids(some, cluster) == {T0: OLD, U0: OLD}
    assert known_ids(AT, cluster) == {}


@pytest.mark.parametrize("request_class", [m.FetchRequest, m.OffsetCommitRequest, m.OffsetFetchRequest])
def test_a_version_that_knows_ids_alone_is_chosen_by_those_alone_who_know_them(
    request_class: type[m.ApiMessage],
) -> None:
    last_by_name = {m.FetchRequest: 12}.get(request_class, 9)
    everything = {request_class.api_key: (0, 99)}
    assert choose_version(request_class, everything) == last_by_name
    assert choose_version(request_class, everything, at_most=last_by_name + 1) == last_by_name + 1
    older = {request_class.api_key: (0, last_by_name)}
    assert choose_version(request_class, older, at_most=last_by_name + 1) == last_by_name
