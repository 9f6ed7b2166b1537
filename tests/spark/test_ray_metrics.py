"""Ray's own exporter shows what the Monitor gives it (`coterie.metrics.ray`).

In this folder, since its Ray has what Ray's exporter needs (ray[default]).
"""

from __future__ import annotations

import urllib.request

import pytest
import ray
from prometheus_client.parser import text_string_to_metric_families

from actors.cluster import Cluster
from tests.ray.support import commit, consumer, produce, topic, wait_until
from tests.spark.support import JOB_SERVER

LAG = "ray_coterie_group_lag"


@pytest.mark.skipif(not JOB_SERVER.is_dir(), reason=f"what Ray's exporter needs is not in {JOB_SERVER}: make setup")
def test_rays_exporter_shows_the_lag_of_a_group(cluster: Cluster, name: str, topic_name: str) -> None:
    servers = cluster.bootstrap_servers
    produce(servers, topic(servers, topic_name, 1), (b"%d" % number for number in range(10)))
    client = consumer(servers, name)
    commit(client, topic_name, 4)
    client.close()
    assert wait_until(lambda: lag_of(name), what=f"{LAG} of group {name}") == ("spark", 6.0)


def lag_of(group: str) -> tuple[str, float] | None:
    """The cluster and the lag of a group, as Ray's exporter on this node says them."""
    (node,) = ray.nodes()
    address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    with urllib.request.urlopen(address, timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples if sample.name == LAG]
    found = [sample for sample in samples if sample.labels["consumergroup"] == group]
    return (found[0].labels["cluster"], found[0].value) if found else None
