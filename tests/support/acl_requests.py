"""Requests about topics, for tests of what clients may."""

from __future__ import annotations

from actors.wire import messages as m
from tests.support.acl_world import name_id


def commit(*names: str, version: int = 9) -> m.OffsetCommitRequest:
    """A commit of partitions 0 and 1 of each topic, by the member `mine` of group `g`."""
    r = m.OffsetCommitRequest
    parts = [r.OffsetCommitRequestPartition(partition_index=i, committed_offset=5) for i in (0, 1)]
    return r(
        group_id="g",
        member_id="mine",
        topics=[
            r.OffsetCommitRequestTopic(
                name=name, topic_id=name_id(name) if version >= 10 else bytes(16), partitions=parts
            )
            for name in names
        ],
    )


def metadata(*names: str, create: bool = True) -> m.MetadataRequest:
    """A question for these topics, or for all, and for what may be done with them."""
    topics = [m.MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return m.MetadataRequest(
        topics=topics or None,
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
