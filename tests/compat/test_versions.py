"""The versions of APIs that Kafka serves are served here, and what a client learns that meant another broker."""

from __future__ import annotations

import pytest

from actors.broker.handlers.registry import ADVERTISED
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest
from tests.compat.peers import Peer
from tests.compat.raw import Raw, api_versions
from tests.compat.support import ONE_PROCESS, against
from tools.kafka_versions import BESIDES, LEFT_OUT

pytestmark = ONE_PROCESS
brokers = against("kafka", "coterie")


@against("kafka")
@pytest.mark.conformance("K-I-01", "K-I-02", "K-I-03", "K-I-04", "K-I-05", "K-I-06", "K-I-07", "K-I-08", "K-I-09")
@pytest.mark.conformance("K-I-10", "K-I-11", "K-I-12")
def test_versions_begin_and_end_where_those_of_kafka_do(kafka: Peer) -> None:
    ours = {key: versions for key, versions in ADVERTISED.items() if key not in BESIDES}
    left_out = {int(key): (first, last) for key, (first, last, _) in LEFT_OUT.items()}
    assert api_versions(kafka.bootstrap_servers) == ours | left_out


def _asked(address: str, cluster_id: str | None, node_id: int, version: int = 5) -> ApiVersionsResponse:
    """ApiVersions for this node of this cluster; the connection is used once more afterwards."""
    named = ApiVersionsRequest(
        client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    with Raw(address) as raw:
        answer: ApiVersionsResponse = raw.call(named, version)
        assert raw.call(DescribeClusterRequest(), 0).error_code == 0
    return answer


@brokers
@pytest.mark.conformance("K-I-25", "K-I-26")
def test_a_client_that_meant_another_broker_is_told_to_begin_anew(kafka: Peer) -> None:
    address = kafka.bootstrap_servers.split(",")[0]
    with Raw(address) as raw:
        cluster = raw.call(DescribeClusterRequest(), 0)
    here = next(b.broker_id for b in cluster.brokers if f"{b.host}:{b.port}" == address)
    there = 1 + max(b.broker_id for b in cluster.brokers)
    for name, node, code in (
        (cluster.cluster_id, here, ErrorCode.NONE),
        (None, -1, ErrorCode.NONE),
        (cluster.cluster_id, there, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", here, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("", here, ErrorCode.REBOOTSTRAP_REQUIRED),
        (cluster.cluster_id, -1, ErrorCode.INVALID_REQUEST),
        (None, here, ErrorCode.INVALID_REQUEST),
    ):
        answer = _asked(address, name, node)
        assert (answer.error_code, bool(answer.api_keys)) == (code, code == ErrorCode.NONE), (name, node)
