"""Topics that Coterie makes for itself are nobody's own, wherever topics are listed or counted."""

from __future__ import annotations

import pytest

from actors.client.admin.types import TopicDescription
from actors.console.kafka import topic_row as row_of_kafka
from actors.members.deployment.names import TOPIC
from actors.monitor.partitions import Partitions
from actors.monitor.topic_views import topic_row
from placement.metadata import INTERNAL_TOPICS, OUR_TOPICS, TopicInfo


def test_the_topic_of_pools_is_one_of_ours_and_to_clients_no_internal_one() -> None:
    assert TOPIC in OUR_TOPICS
    assert TOPIC not in INTERNAL_TOPICS


@pytest.mark.parametrize("name", sorted(OUR_TOPICS))
def test_ours_are_not_listed_among_yours(name: str) -> None:
    assert topic_row(TopicInfo(name, b"1" * 16, ()), Partitions(), {}).is_internal
    assert row_of_kafka(TopicDescription(name, b"1" * 16, False, ()), None).is_internal


@pytest.mark.parametrize("name", ["orders", "__orders", "_coterie_pools"])
def test_yours_are(name: str) -> None:
    assert not topic_row(TopicInfo(name, b"1" * 16, ()), Partitions(), {}).is_internal
    assert not row_of_kafka(TopicDescription(name, b"1" * 16, False, ()), None).is_internal
