"""The figures of a pool's load, from the answers of brokers and members."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client import OffsetAndMetadata, TopicPartition
from actors.client.admin.offset_plans import Log
from actors.client.admin.types import GroupDescription, MemberDescription
from actors.client.errors import KafkaTimeoutError
from actors.links.member import MemberReport
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.load import GroupLoad, PoolLoad
from actors.members.pools.slot_life import SlotLife, Stage
from actors.members.pools.slots import Slot, Started, Together, Version
from actors.members.workload import Work
from tests.support.fake_admin import HOST, FakeAdmin

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def admin() -> FakeAdmin:
    """A topic with 100 records in each of two partitions, of which the group has handled 40 and none."""
    admin = FakeAdmin(groups={"g": GroupDescription("g", "Stable", "consumer", "range", (member("m", A, B),), HOST)})
    admin.add_topic("t", 2)
    admin.logs |= {A: Log(10, 100), B: Log(10, 100)}
    admin.offsets["g"] = {A: OffsetAndMetadata(40)}
    return admin


class NoActors:
    """Starts none."""

    wants = "nothing"

    def start(self, spec: MemberSpec) -> Started:
        raise NotImplementedError


def member(member_id: str, *assignment: TopicPartition) -> MemberDescription:
    return MemberDescription(member_id, None, "c", "/h", ("t",), assignment, b"", b"")


def group(admin: FakeAdmin, **options: Any) -> GroupLoad:
    def connect(**_: Any) -> Any:
        return admin

    return GroupLoad(MemberSpec(("t",), "g", "host:1", options=options), connect)


def test_a_partition_without_a_committed_offset_has_all_its_records_before_it(admin: FakeAdmin) -> None:
    found = group(admin).look(["m"])
    assert found is not None
    assert found.lags == {A: 60, B: 90}
    assert found.divided


def test_where_a_group_begins_at_the_end_somebody_has_to_come_and_say_where_that_was(admin: FakeAdmin) -> None:
    """With a lag of zero, a pool without members would never start one."""
    found = group(admin, auto_offset_reset="latest").look(["m"])
    assert found is not None
    assert found.lags == {A: 60, B: 1}


def test_a_committed_offset_beyond_the_end_is_no_lag(admin: FakeAdmin) -> None:
    admin.offsets["g"] = {A: OffsetAndMetadata(500), B: OffsetAndMetadata(100)}
    found = group(admin).look(["m"])
    assert found is not None
    assert found.lags == {A: 0, B: 0}


def test_the_lag_of_a_partition_without_a_leader_is_unknown_and_the_others_are_told(admin: FakeAdmin) -> None:
    admin.unled("t")
    found = group(admin).look(["m"])
    assert found is not None
    assert found.lags == {A: None, B: None}


def test_the_lag_was_unknown_of_a_group_with_topics_that_may_not_be_seen(admin: FakeAdmin) -> None:
    """Others of its members may read them; a pool could not go by its lag any more."""
    hidden = GroupDescription("g", "Stable", "consumer", "", (), HOST, type="consumer", is_hidden=True)
    admin.groups["g"] = hidden
    found = group(admin).look(["m"])
    assert found is not None
    assert not found.divided


def test_brokers_that_do_not_answer_leave_it_unknown(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise KafkaTimeoutError("nobody there")

    monkeypatch.setattr(admin, "list_offsets", fail)
    assert group(admin).look(["m"]) is None


@pytest.mark.parametrize(
    ("state", "members", "ours", "divided"),
    [
        ("Stable", (member("m", A), member("n", B)), ["m", "n"], True),
        ("Stable", (member("m", A, B),), ["m", "n"], False),
        ("Stable", (member("m", A), member("n")), ["m", "n"], False),
        ("CompletingRebalance", (member("m", A), member("n", B)), ["m", "n"], False),
        ("PreparingRebalance", (), [], False),
        ("Empty", (), [], True),
    ],
)
def test_a_change_is_taken_up_when_all_are_in_the_group_and_each_partition_has_a_member(
    admin: FakeAdmin, state: str, members: tuple[MemberDescription, ...], ours: list[str], divided: bool
) -> None:
    admin.groups["g"] = GroupDescription("g", state, "consumer", "range", members, HOST)
    found = group(admin).look(ours)
    assert found is not None
    assert found.divided == divided


class Pool:
    """Slots as the test makes them."""

    def __init__(self, *reports: MemberReport) -> None:
        version = Version(MemberSpec(("t",), "g", "host:1"), NoActors())
        self.slots = [Slot(number, f"g-{number}", Together(1), version) for number in range(len(reports))]
        for slot, report in zip(self.slots, reports, strict=True):
            slot.report = report

    def __len__(self) -> int:
        return len(self.slots)

    def all(self) -> list[Slot]:
        return self.slots

    def totals(self) -> tuple[int, float]:
        return sum(slot.handled for slot in self.slots), sum(slot.busy_ms for slot in self.slots) / 1000


def running(member_id: str = "m", *assignment: TopicPartition, **more: Any) -> MemberReport:
    return MemberReport("Running", member_id=member_id, assignment=tuple(assignment), **more)


def test_the_figures_are_put_together(admin: FakeAdmin) -> None:
    times = iter([0.0, 10.0])
    pool = Pool(running())
    load = PoolLoad(pool, group(admin), lambda: next(times))
    pool.slots[0].report = running("m", A, B, handled=100, busy_ms=5000)
    seen = load.look()
    assert (seen.at_s, seen.size, seen.lags, seen.owners) == (10.0, 1, (60, 90), (0, 0))
    assert (seen.busy, seen.per_second, seen.waiting, seen.settled) == (0.5, 20.0, 0, True)


@pytest.mark.parametrize("state", ["Starting", "Failing", "Stopped"])
def test_while_a_member_starts_or_ends_the_pool_has_not_settled(admin: FakeAdmin, state: str) -> None:
    pool = Pool(running("m"), MemberReport(state))
    seen = PoolLoad(pool, group(admin), lambda: 0.0).look()
    assert seen.settled == (state == "Failing"), "one that fails has nothing to wait for"


def test_one_that_ray_has_no_room_for_is_not_waited_for(admin: FakeAdmin) -> None:
    pool = Pool(running("m"), MemberReport())
    pool.slots[1].life = SlotLife(Stage.WAITING)
    seen = PoolLoad(pool, group(admin), lambda: 0.0).look()
    assert (seen.size, seen.waiting, seen.settled) == (2, 1, True)


def test_the_speed_is_that_of_the_last_work_and_stays_while_there_is_none() -> None:
    work = Work(0.0, 0, 0.0)
    assert work.busy(0.0, 0, 0.0) is None
    assert work.busy(10.0, 0, 10.0) == 1.0
    assert work.per_second is None, "a record that takes long"
    handled = 0
    for minute in range(1, 11):
        handled += 600
        work.busy(60.0 * minute, handled, 60.0 * minute)
    assert work.per_second == pytest.approx(10, rel=0.02)
    for minute in range(11, 21):
        handled += 60
        work.busy(60.0 * minute, handled, 60.0 * minute)
    assert work.per_second == pytest.approx(1, rel=0.1)
    before = work.per_second
    assert work.busy(1300.0, handled, 1200.0) == 0.0
    assert work.per_second == pytest.approx(before, rel=0.1)
