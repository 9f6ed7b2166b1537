"""A running broker's answers about itself: the versions that it serves, and the id that others give it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.wire import messages as m
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from tests.support.three_brokers import Client, World, until_async, world

VERSIONS = {
    ApiKey.API_VERSIONS: (0, 5),
    ApiKey.METADATA: (0, 13),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.FETCH: (4, 18),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DELETE_GROUPS: (0, 3),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
}
"""The versions of Kafka 4.4.0."""


@pytest.mark.conformance("K-I-01", "K-I-02", "K-I-03", "K-I-04", "K-I-05", "K-I-06", "K-I-07", "K-I-08", "K-I-09")
@pytest.mark.conformance("K-I-10", "K-I-11", "K-I-12")
async def test_versions_that_clients_of_the_consumer_protocol_use_are_those_of_kafka(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=1) as w:
        client = await w.client(0)
        answer = await client.ask(named(None, -1), 5)
        client.close()
    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert {key: served[key] for key in VERSIONS} == VERSIONS


@pytest.mark.conformance("K-I-28")
async def test_each_broker_accepts_the_id_that_any_broker_gives_for_its_address(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        told = {node for broker_id in w.servers for node in await nodes_by(w, broker_id)}
        assert {port for _, _, port in told} == {server.port for server in w.servers.values()}
        (cluster_id,) = {cluster_id for cluster_id, _, _ in told}
        assert cluster_id
        for _, node_id, port in told:
            assert [await refusal(port, cluster_id, node_id + more) for more in (0, 1)] == [
                ErrorCode.NONE,
                ErrorCode.REBOOTSTRAP_REQUIRED,
            ]


async def nodes_by(w: World, broker_id: int) -> list[tuple[str, int, int]]:
    """Cluster, id and port of each node that a broker tells of, by all three ways."""
    client = await w.client(broker_id)
    found = m.FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b", "c", "d", "e", "f"])
    coordinators: list[Any] = []

    async def are_known() -> bool:
        coordinators[:] = (await client.ask(found, 6)).coordinators
        return not any(each.error_code for each in coordinators)

    await until_async(are_known, True)
    metadata = await client.ask(m.MetadataRequest(topics=[]), 12)
    cluster = await client.ask(m.DescribeClusterRequest(), 0)
    client.close()
    return [
        *((metadata.cluster_id, each.node_id, each.port) for each in (*metadata.brokers, *coordinators)),
        *((cluster.cluster_id, each.broker_id, each.port) for each in cluster.brokers),
    ]


async def refusal(port: int, cluster_id: str, node_id: int) -> int:
    client = await Client.to(port)
    answer = await client.ask(named(cluster_id, node_id), 5)
    client.close()
    return int(answer.error_code)


def named(cluster_id: str | None, node_id: int) -> m.ApiVersionsRequest:
    return m.ApiVersionsRequest(
        client_software_name="tests", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
