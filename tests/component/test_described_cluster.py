"""Log directories and the quorum as brokers of a running cluster describe them, over real sockets and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.broker.handlers.describe_quorum import CONTROLLER_ID, METADATA_TOPIC
from actors.log.errors import StorageError
from actors.wire.messages import DescribeLogDirsRequest, DescribeQuorumRequest
from tests.support.runtime_helpers import until
from tests.support.three_brokers import World, world


async def sizes_and_lags(w: World, topic: str) -> dict[int, tuple[int, int]]:
    """By broker, the size and the lag that it tells of the topic's first partition."""
    found = {}
    for broker_id in w.servers:
        client = await w.client(broker_id)
        asked = DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[0])
        (result,) = (await client.ask(DescribeLogDirsRequest(topics=[asked]), 4)).results
        client.close()
        (partition,) = result.topics[0].partitions
        found[broker_id] = (partition.partition_size, partition.offset_lag)
    return found


async def test_a_replica_that_cannot_append_lags_behind_what_has_committed(tmp_path: Path) -> None:
    def full(*arguments: Any) -> None:
        raise StorageError("no space left")

    async with world(tmp_path, replica_lag_time_max_ms="1000") as w:
        await w.create("t", min_insync_replicas="2")
        assert await w.produce("t", b"a") == 0
        leader, _, behind = w.partition("t").replicas
        size = (await sizes_and_lags(w, "t"))[leader][0]
        assert await sizes_and_lags(w, "t") == dict.fromkeys(w.servers, (size, 0))
        log = w.servers[behind].context.data_dir.get("t", 0)
        assert log is not None
        log.append_as_follower = full  # type: ignore[method-assign]
        for value in (b"b", b"c"):
            assert await w.produce("t", value, timeout_ms=60_000) == 0
        await until(lambda: w.servers[behind].replicas.lag("t", 0) == 2, what="what the leader says to be heard")
        assert await sizes_and_lags(w, "t") == {b: (size, 2) if b == behind else (3 * size, 0) for b in w.servers}


async def test_any_broker_describes_the_quorum_as_the_controller_knows_it(tmp_path: Path) -> None:
    async with world(tmp_path, brokers=2) as w:
        await w.create("t", factor=1)
        partition = DescribeQuorumRequest.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        end = w.metadata.version
        await until(
            lambda: all(o.log_end_offset == end for o in w.controller.quorum(0).brokers), what="both to have it"
        )
        for broker_id in w.servers:
            client = await w.client(broker_id)
            answer = await client.ask(DescribeQuorumRequest(topics=[topic]), 2)
            client.close()
            (found,) = answer.topics[0].partitions
            assert (found.leader_id, found.leader_epoch, found.high_watermark) == (CONTROLLER_ID, 1, end)
            assert [(o.replica_id, o.log_end_offset) for o in found.observers] == [(0, end), (1, end)]
            assert answer.nodes[0].listeners[0].port == w.port
