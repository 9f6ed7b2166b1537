"""Records that retention has deleted are no lag, wherever lag is worked out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors.cli.group_rows import offset_rows
from actors.client import OffsetAndMetadata, TopicPartition
from actors.client.admin.lookups import logs
from actors.client.admin.offset_plans import Log
from actors.client.admin.types import GroupDescription
from actors.client.consumer.positions import PartitionState
from actors.console.kafka import KafkaSource
from actors.links.reading import PartitionRow
from actors.links.views import GetGroup, GroupView, ListGroupRows
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.load import GroupLoad
from actors.monitor.lag import LagTable
from actors.monitor.partitions import Partitions
from actors.runtime.environment import REAL
from spark_bridge.groups import lag_rows
from tests.support.fake_admin import HOST, FakeAdmin

HERE = TopicPartition("t", 0)
COMMITTED = 40
GROUP = GroupDescription("g", "Empty", "consumer", "", (), HOST)


def cluster(log: Log) -> Any:
    admin = FakeAdmin(groups={"g": GROUP}, offsets={"g": {HERE: OffsetAndMetadata(COMMITTED)}}, logs={HERE: log})
    admin.add_topic("t", 1)
    admin.add_topic("__consumer_offsets", 1)
    return admin


def of_a_pool(log: Log) -> int | None:
    found = GroupLoad(MemberSpec(("t",), "g", "host:1"), lambda **_: cluster(log)).look([])
    assert found is not None
    return found.lags[HERE]


def of_the_command(log: Log) -> int:
    admin = cluster(log)
    return int(offset_rows(GROUP, admin.offsets["g"], logs(admin, [HERE]))[0]["lag"])


def of_spark(log: Log) -> int:
    return int(lag_rows(cluster(log), ["g"])[0][5])


def of_the_monitor(log: Log) -> int | None:
    partitions = Partitions()
    partitions.seen("t", b"1", [PartitionRow(0, log.earliest, log.latest, 1, 0)], 1)
    return LagTable(partitions, 1).of("t", 0, COMMITTED, 1).records


def of_the_consoles_group(log: Log) -> int | None:
    view: GroupView = asyncio.run(KafkaSource(cluster(log), REAL.clock).view(GetGroup("g", 0)))
    assert view.row is not None
    assert view.row.lag == view.partitions[0].lag
    return view.row.lag


def of_the_consoles_list(log: Log) -> int | None:
    (row,) = asyncio.run(KafkaSource(cluster(log), REAL.clock).view(ListGroupRows())).groups
    return row.lag


def of_a_consumer(log: Log) -> int | None:
    return PartitionState(HERE, COMMITTED, high_watermark=log.latest, log_start_offset=log.earliest).lag


PLACES = (
    *(of_a_pool, of_the_command, of_spark, of_the_monitor),
    *(of_the_consoles_group, of_the_consoles_list, of_a_consumer),
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("log", "lag"),
    [(Log(10, 100), 60), (Log(90, 100), 10), (Log(100, 100), 0)],
    ids=["nothing unread is deleted", "some", "all"],
)
def test_deleted_records_are_no_lag(place: Callable[[Log], int | None], log: Log, lag: int) -> None:
    assert place(log) == lag
