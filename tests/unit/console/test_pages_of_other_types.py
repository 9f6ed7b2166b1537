"""Pages show groups of types that the console does not know well: what is known, and nothing of classic groups."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import cast

import pytest

from actors.client import OffsetAndMetadata, TopicPartition
from actors.client.admin.offset_plans import Log
from actors.client.admin.types import GroupDescription, MemberDescription
from actors.console.app import Options, make_app
from actors.console.entrance import Open
from actors.console.kafka import KafkaSource
from actors.console.sessions import Visitor
from actors.console.source import Source
from actors.links.operations import Operation
from actors.links.views import (
    GetGroup,
    GetGroupHistory,
    GetOverview,
    GroupHistory,
    GroupRows,
    GroupView,
    LagPoint,
    ListGroupRows,
    MemberView,
    PartitionLag,
    PlainRebalanceView,
    Waited,
)
from actors.runtime.environment import Clock
from tests.support.asgi import Browser
from tests.support.fake_admin import HOST, FakeAdmin
from tests.support.fake_views import group_row
from tests.support.synthetic_desk import SyntheticDesk
from tests.support.synthetic_source import R, SyntheticSource

NOW = 1_795_003_200_000
CLOCK = Clock(wall_ms=lambda: NOW)
ENTERED = PlainRebalanceView(
    *("tiny", "s", NOW - 9_000, 4, "Open", "member entered", "b", "app"),
    ended_ms=NOW - 8_000,
    members=2,
    came=("b",),
    waited=(Waited("a", "rebalance", 700),),
)
ROW = replace(group_row("s", state="Open", protocol_type="tiny", kind="consumer", rebalances=1), group_type="tiny")
VIEW = GroupView(
    NOW,
    ROW,
    (MemberView("a", None, "", "", {}), MemberView("b", None, "app", "/h", {})),
    (PartitionLag("orders", 0, 4, 1, 10, 6, 2.0, NOW, None),),
    rebalances=(ENTERED,),
)
OF_CLASSIC = ("join ", "sync ", "joining", "syncing", "generation", "rejoin")


class Told(SyntheticSource):
    """A cluster in which one group is told of in this way."""

    def __init__(self, found: GroupView) -> None:
        super().__init__(CLOCK)
        self._found = found

    async def view(self, operation: Operation[R]) -> R:
        assert self._found.row is not None
        told = {
            GetGroup: self._found,
            GetGroupHistory: GroupHistory("s", (LagPoint(NOW - 5_000, 6, 2.0, 4),), self._found.rebalances),
            ListGroupRows: GroupRows(NOW, (self._found.row, group_row("billing"))),
        }
        if (found := told.get(type(operation))) is not None:  # type: ignore[call-overload]
            return cast(R, found)
        made = await super().view(operation)
        return cast(R, replace(made, groups={"Open": 1, "Stable": 3})) if isinstance(operation, GetOverview) else made


async def page(path: str, source: Source | None = None) -> str:
    app = make_app(Open(Visitor(None, source or Told(VIEW), SyntheticDesk())), Options())
    answer = await Browser(app).get(path)
    assert answer.status == 200
    return answer.text


def words(text: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", text).split())


async def test_a_group_of_another_type_is_shown_with_its_type_members_offsets_and_rebalances() -> None:
    text = await page("/group?id=s")
    said = words(text)
    for each in ("tiny", "open", "member entered", "took 1", "epoch 4 ended, 2 members after it", "+1 came"):
        assert each in said, each
    assert "rebalance 1 s" in said
    assert "waited 700 ms for a to rebalance" in said
    assert "orders -0 4 10 6" in said.replace("orders-0", "orders -0")
    for each in OF_CLASSIC:
        assert each not in said, each


async def test_a_consumer_group_shows_epochs_and_what_its_members_give_back_and_get() -> None:
    row = replace(ROW, group_type="consumer", state="Reconciling", epoch=8, assignment_epoch=7)
    members = (
        MemberView("a", None, "app", "/h", {"orders": (0, 1)}, epoch=6, to_give_back={"orders": (1,)}),
        MemberView("b", None, "app", "/h", {}, epoch=7, to_come={"orders": (1,)}),
    )
    text = words(await page("/group?id=s", Told(replace(VIEW, row=row, members=members))))
    for each in ("Epoch 8 targets are of epoch 7", "epoch 6", "orders 0\u20131 gives back orders 1", "gets orders 1"):
        assert each in text, (each, text)
    level = replace(row, assignment_epoch=8)
    assert "Epoch 8 targets are of it" in words(await page("/group?id=s", Told(replace(VIEW, row=level))))


async def test_a_group_that_waits_says_for_whom_and_not_what_classic_groups_wait_for() -> None:
    row = replace(ROW, state="Reconciling")
    running = replace(ENTERED, state="Reconciling", ended_ms=None)
    waiting = replace(VIEW, row=row, awaited=("a",), awaited_count=1, phase_ends_in_ms=3_000)
    text = words(await page("/group?id=s", Told(replace(waiting, rebalances=(running,)))))
    assert "The group waits for 1 member. It goes on without them in 3 s." in text
    assert "epoch 4 ended, under way" in text
    assert "9 s so far" in text
    for each in OF_CLASSIC:
        assert each not in text, each


async def test_a_list_shows_and_finds_types() -> None:
    text = words(await page("/groups"))
    assert "consumers tiny" in text
    found = words(await page("/groups?q=tiny"))
    assert "billing" not in found
    assert "1 group" in found


async def test_states_that_only_another_type_has_are_counted_too() -> None:
    assert "3 Stable, 1 Open" in await page("/")


@pytest.fixture
def kafka() -> FakeAdmin:
    """Groups of another Kafka: one of a type that DescribeGroups does not know, and a classic one."""
    at = TopicPartition("t", 0)
    fake = FakeAdmin(logs={at: Log(1, 10)}, offsets={"s": {at: OffsetAndMetadata(4)}})
    fake.add_topic("t", 1)
    fake.groups = {
        "s": GroupDescription("s", "Open", "tiny", "", (), HOST, "tiny"),
        "g": GroupDescription("g", "Empty", "consumer", "", (), HOST),
    }
    return fake


async def test_of_any_kafka_a_consumer_group_is_shown_with_its_members_targets(kafka: FakeAdmin) -> None:
    zero, one = TopicPartition("t", 0), TopicPartition("t", 1)
    member = MemberDescription("m", None, "app", "/h", ("t",), (zero,), epoch=3, target=(one,), is_classic=False)
    kafka.groups["n"] = GroupDescription("n", "Reconciling", "consumer", "uniform", (member,), HOST, "consumer", 4, 4)
    view = await KafkaSource(kafka, CLOCK).view(GetGroup("n"))  # type: ignore[arg-type]
    assert view.row is not None
    assert (view.row.epoch, view.row.assignment_epoch, view.row.members) == (4, 4, 1)
    (shown,) = view.members
    assert (shown.epoch, shown.to_give_back, shown.to_come) == (3, {"t": (0,)}, {"t": (1,)})


async def test_of_any_kafka_a_group_of_another_type_is_shown_with_what_its_list_has(kafka: FakeAdmin) -> None:
    source = KafkaSource(kafka, CLOCK)  # type: ignore[arg-type]
    rows = {row.group_id: row for row in (await source.view(ListGroupRows())).groups}
    assert (rows["s"].group_type, rows["s"].state, rows["s"].members, rows["s"].lag) == ("tiny", "Open", None, 6)
    assert (rows["g"].group_type, rows["g"].members) == ("classic", 0)
    said = words(await page("/group?id=s", source))
    assert "It is of type tiny, and its members are not told here." in said
    assert "t -0 4 10 6" in said.replace("t-0", "t -0")
    assert "no members" not in said
    said = words(await page("/groups", source))
    assert "s t open consumers tiny" in said


def test_a_group_whose_topics_may_not_be_seen_hid_all_groups_of_a_kafka() -> None:
    hidden = GroupDescription("g", "Stable", "consumer", "", (), HOST, type="consumer", is_hidden=True)
    admin = FakeAdmin(groups={"g": hidden, "h": GroupDescription("h", "Empty", "consumer", "", (), HOST)})
    source = KafkaSource(admin, CLOCK)  # type: ignore[arg-type]
    rows = asyncio.run(source.view(ListGroupRows())).groups
    assert [(row.group_id, row.state, row.members) for row in rows] == [("g", "Stable", None), ("h", "Empty", 0)]
    view = asyncio.run(source.view(GetGroup("g", 0)))
    assert view.row is not None
    assert (view.row.state, view.members) == ("Stable", ())
