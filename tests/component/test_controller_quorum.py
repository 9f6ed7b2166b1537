"""The controller's answer about its log and each broker's offset in it; and a follower's lag."""

from __future__ import annotations

from pathlib import Path

from actors.links.control import Confirmed, Heartbeat
from actors.links.status import Load
from actors.log.replication import FollowerReplica
from tests.support.controller_world import controller, create
from tests.support.replica_log import MemoryLog, leading
from tests.support.runtime_helpers import FakeBroker, until


async def test_a_broker_that_has_not_heard_of_a_change_is_behind_the_metadata_log(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        one = await FakeBroker(0).register(c.port)
        two = await FakeBroker(1).register(c.port)
        before = c.metadata.version
        await until(lambda: c.server.quorum(0).brokers[1].log_end_offset == before, what="both to have it")
        two.acks = False
        assert (await create(one, "t"))["error_code"] == 0
        quorum = (await one.call("describe_quorum", 2))["result"]
        rows = {o["broker_id"]: (o["log_end_offset"], o["heard_ms"], o["caught_up_ms"]) for o in quorum["brokers"]}
        end = c.metadata.version
        assert (quorum["log_end_offset"], quorum["controller_epoch"], quorum["port"]) == (end, 1, c.port)
        assert (rows[0][0], rows[1][0]) == (end, before)
        assert rows[0][1] == rows[0][2] <= quorum["now_ms"], "who has all of it is caught up when it is heard"
        assert 0 < rows[1][2] <= rows[1][1]
        two.send(Heartbeat(0.0, Load()))
        await two.hear(Confirmed)
        observer = c.server.quorum(0).brokers[1]
        assert observer.heard_ms > observer.caught_up_ms


def test_a_follower_knows_how_far_it_is_behind_the_leaders_watermark() -> None:
    log = MemoryLog()
    for _ in range(3):
        log.append([b"v"] * 4, 1)
    leader = leading(0, log, leader_epoch=1, replicas=(0, 1), isr=(0,), partition_epoch=1, min_insync=1)
    leader.connect(1, 5, 0)
    log.advance_high_watermark(12)
    follower, lags = FollowerReplica(MemoryLog(), 1), []
    assert follower.lag == 0
    while (push := leader.take_push(1, 1, 0)) is not None:
        leader.on_ack(1, follower.on_push(push, 0), 0)
        lags.append(follower.lag)
    assert lags[-1] == 0
    assert sorted(set(lags), reverse=True) == [lag for n, lag in enumerate(lags) if lag not in lags[:n]]
    assert lags[0] > 0
