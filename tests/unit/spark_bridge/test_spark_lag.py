"""A group's lag on partitions whose topic is deleted, or that have no leader."""

from __future__ import annotations

from typing import Any

from actors.client import OffsetAndMetadata, TopicPartition
from actors.client.admin.offset_plans import Log
from actors.client.admin.types import GroupDescription, MemberDescription
from spark_bridge.groups import lag_rows
from tests.support.fake_admin import HOST, FakeAdmin

HERE, AWAY = TopicPartition("here", 0), TopicPartition("away", 0)


def lags(admin: FakeAdmin) -> dict[str, tuple[Any, ...]]:
    """Topic -> (current_offset, log_end_offset, lag, consumer_id) for group g."""
    it: Any = admin
    return {row[1]: (*row[3:6], row[6]) for row in lag_rows(it, ["g"])}


def cluster() -> FakeAdmin:
    """Two topics of one partition with 100 records, and g without members at 3 in both."""
    admin = FakeAdmin(groups={"g": GroupDescription("g", "Empty", "consumer", "", (), HOST)})
    for tp in (HERE, AWAY):
        admin.add_topic(tp.topic, 1)
        admin.logs[tp] = Log(0, 100)
    admin.offsets["g"] = {HERE: OffsetAndMetadata(3), AWAY: OffsetAndMetadata(3)}
    return admin


def test_lag_of_a_deleted_topic_is_unknown_and_spoils_no_other() -> None:
    admin = cluster()
    assert lags(admin)["away"] == (3, 100, 97, None)
    admin.delete_topics(["away"])
    assert lags(admin) == {"here": (3, 100, 97, None), "away": (3, None, None, None)}


def test_lag_of_a_partition_without_leader_is_unknown() -> None:
    admin = cluster()
    admin.unled("away")
    assert lags(admin) == {"here": (3, 100, 97, None), "away": (3, None, None, None)}


def test_lag_of_a_deleted_topic_that_a_member_still_holds_is_unknown() -> None:
    admin = cluster()
    member = MemberDescription("m", None, "c", "/h", ("away",), (AWAY,), b"", b"")
    admin.groups["g"] = GroupDescription("g", "Stable", "consumer", "range", (member,), HOST)
    admin.delete_topics(["away"])
    del admin.offsets["g"][AWAY]
    assert lags(admin)["away"] == (None, None, None, "m")
