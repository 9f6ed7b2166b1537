"""Authorised operations: with no authoriser, clients that ask are told all of Kafka's for the kind of resource."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.handlers.group_requests import whole_groups
from actors.coordinator.classic import messages as core
from actors.group_api import describe_groups
from actors.wire.framing import encode_response
from actors.wire.messages import (
    DescribeClusterRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    MetadataRequest,
)
from tests.support.handler_helpers import Broker

# The operations of Kafka 4.4's AclEntry.supportedOperations, which its brokers answer without an authorizer.
TOPIC, GROUP, CLUSTER = 3576, 3400, 8096
NOT_ASKED = -(2**31)


@pytest.mark.parametrize(("asked", "expected"), [(True, CLUSTER), (False, NOT_ASKED)])
def test_what_may_be_done_with_the_cluster(tmp_path: Path, asked: bool, expected: int) -> None:
    broker = Broker(tmp_path)
    request = DescribeClusterRequest(include_cluster_authorized_operations=asked)
    assert broker.ask(request, 2).cluster_authorized_operations == expected
    metadata = MetadataRequest(topics=[], include_cluster_authorized_operations=asked)
    assert broker.ask(metadata, 10).cluster_authorized_operations == expected


@pytest.mark.parametrize("version", range(8, 14))
@pytest.mark.parametrize(("asked", "expected"), [(True, TOPIC), (False, NOT_ASKED)])
def test_what_may_be_done_with_a_topic(tmp_path: Path, version: int, asked: bool, expected: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    topics = [MetadataRequest.MetadataRequestTopic(name="t")]
    for names in (topics, None):
        request = MetadataRequest(topics=names, include_topic_authorized_operations=asked)
        (topic,) = broker.ask(request, version).topics
        assert topic.topic_authorized_operations == expected


def _group(request: DescribeGroupsRequest, version: int, state: str = "Stable", error: int = 0) -> Any:
    found = core.DescribeGroupsResponse((core.DescribedGroup(error, "g", state),))  # type: ignore[arg-type]
    no_topics: Any = None
    return describe_groups.answer(request, found, version, no_topics).groups[0]


def test_what_may_be_done_with_a_group() -> None:
    asked = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    assert _group(asked, 5).authorized_operations == GROUP
    assert _group(DescribeGroupsRequest(groups=["g"]), 5).authorized_operations == NOT_ASKED
    assert _group(asked, 5, "Dead").authorized_operations == GROUP
    assert _group(asked, 6, "Dead").authorized_operations == NOT_ASKED  # from version 6 on, an error
    assert _group(asked, 5, "", 14).authorized_operations == NOT_ASKED


def test_the_shard_is_told_that_operations_are_asked_for(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    told: list[DescribeGroupsRequest] = []

    def ask_for(slot: Any, partition: int, message: Any, version: int, done: Any) -> None:
        told.append(message)
        described = DescribeGroupsResponse.DescribedGroup(group_id="g", authorized_operations=GROUP)
        done(encode_response(DescribeGroupsResponse(groups=[described]), version, slot.correlation_id))

    broker.shards.ask_for = ask_for  # type: ignore[method-assign]
    answers: list[DescribeGroupsResponse] = []
    message = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    request: Any = SimpleNamespace(
        message=message,
        version=5,
        connection=broker.connection,
        header=SimpleNamespace(api_key=message.api_key),
        slot=SimpleNamespace(correlation_id=7),
        reply=answers.append,
        is_moot=False,
    )
    whole_groups.describe_groups(broker.handlers, request)
    assert told[0].include_authorized_operations
    assert [group.authorized_operations for group in answers[0].groups] == [GROUP]
