"""Executors on RayDP that come with the lag of a stream and go after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray

from actors.cluster import Cluster
from actors.members.autoscale import Autoscale
from spark_bridge.executor_changes import SessionExecutors
from spark_bridge.executors import executor_count
from spark_bridge.ray_nodes import room_for
from tests.spark.streams import Seen, committed, ends, make_topic, running, send, stream
from tests.spark.support import executor_pids, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = Autoscale(min_size=2, max_size=4, target_lag=50, stabilization_s=2, interval_s=0.2)


def test_executors_come_with_the_lag_and_go_after_it(spark: SparkSession, cluster: Cluster, topic_name: str) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name)
    values = send(servers, topic_name, range(800))
    before = set(executor_pids(spark))
    most: list[dict[str, int]] = []

    def await_executors(df: Any, batch: Any) -> None:
        if int(batch) == 0:  # they were asked for before the first batch
            wait_until(lambda: executor_count(spark) == 4, what="two executors more")
            most.append(executor_pids(spark))

    seen = Seen(await_executors)
    built = stream(spark, servers, topic_name, seen, maxOffsetsPerTrigger=100).autoscale(QUICK)
    with running(built) as query:
        wait_until(lambda: committed(servers, topic_name) == ends(servers, topic_name), what="everything committed")
        wait_until(lambda: executor_count(spark) == 2, what="two executors fewer")
        wait_until(lambda: len(executor_pids(spark)) == 2, what="the end of their actors")
        wait_until(lambda: query.wanted_executors == 2, what="a look at what is left")
    assert len(most[0]) == 4
    assert set(executor_pids(spark)) == before, "the youngest have gone"
    assert sorted(seen.values) == sorted(values)
    assert query.exception() is None
    wanted = [progress["executors"]["wanted"] for progress in query.recent_progress]
    assert wanted[0] == 4
    assert "a lag of 800 records in 4 of 4 partitions" in query.recent_progress[0]["executors"]["reason"]


def test_no_more_are_asked_for_than_ray_has_room_for(spark: SparkSession) -> None:
    executors = SessionExecutors(spark)
    found = executors.look()
    taken: list[Any] = []

    def full() -> bool:
        """True if all CPUs are taken. CPUs that earlier tests give back late are taken, too."""
        free = int(ray.available_resources().get("CPU", 0))
        if free and all(each.wait(1) for each in taken):
            taken.append(ray.util.placement_group([{"CPU": free}]))
        return room_for(1, 1, 1 << 20) == 0

    try:
        wait_until(full, what="what Ray says of it")
        assert executors.resize(found.ids, len(found.ids) + 1) == len(found.ids)
    finally:
        for each in taken:
            ray.util.remove_placement_group(each)
    assert executors.fixed is None
    assert (len(found.ids), found.slots) == (2, 1)
    wait_until(lambda: room_for(1, 1, 1 << 20) == 1, what="the room that is free again")
