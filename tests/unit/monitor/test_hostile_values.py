"""Values that any client can put into what the Monitor reads, all the way to what shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.cli import figures as terminal
from actors.cli import output, top_tables
from actors.cli.group_history import lag_rows
from actors.client.group.assignors.protocol import Assignment
from actors.console import figures
from actors.console.pages import group, groups, topics
from actors.console.pages.page import Asked, Page
from actors.coordinator.classic.records import GroupMetadata, MemberMetadata, group_key, group_value
from actors.coordinator.groups.offset_records import OffsetAndMetadata, offset_key, offset_value
from actors.links.control import CODEC, Answer
from actors.links.operations import Operation
from actors.links.reading import PartitionRow
from actors.links.views import GetOverview, LagPoint, ListGroupRows
from actors.monitor.answers import Answers, Picture
from actors.monitor.group_views import state_of
from actors.monitor.looks import estimate_of, time_of
from actors.monitor.metric_rows import group_families, topic_families
from actors.monitor.offsets_log import FollowedGroup, OffsetsPartition
from tests.support.examples import examples
from tests.support.synthetic_desk import SyntheticDesk
from tests.unit.monitor.test_views_made import NOW_MS, ORDERS, picture

LARGEST = 2**63 - 1
EDGES = (-(2**63), -1, 0, 1, NOW_MS, 253_402_300_800_000, LARGEST - 1, LARGEST)
int64s = st.sampled_from(EDGES) | st.integers(-(2**63), LARGEST)
int32s = st.sampled_from((-(2**31), -1, 0, 1, 2**31 - 1)) | st.integers(-(2**31), 2**31 - 1)
texts = st.sampled_from(["", "\0", "a\0b", '\n"\\', "x" * 32_767, "\u202e", "<script>", "caf\u00e9"]) | st.text(
    max_size=6
)

members = st.builds(
    MemberMetadata,
    member_id=texts,
    group_instance_id=st.none() | texts,
    client_id=texts,
    client_host=texts,
    rebalance_timeout_ms=int32s,
    session_timeout_ms=int32s,
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=40) | st.just(Assignment.of([]).encode() + b"\xff"),
)
metadata = st.builds(
    GroupMetadata,
    protocol_type=st.just("consumer") | texts,
    generation_id=int32s,
    protocol_name=st.none() | texts,
    leader_id=st.none() | texts,
    state_timestamp_ms=int64s,
    members=st.lists(members, max_size=3).map(tuple),
)
offsets = st.dictionaries(
    st.tuples(st.sampled_from(["orders", "gone", ""]), st.sampled_from([0, 1, -1, 2**31 - 1])),
    st.builds(OffsetAndMetadata, int64s, int32s, texts, int64s),
    max_size=4,
)
rows = st.builds(
    PartitionRow, st.sampled_from([0, 1]), st.integers(0, LARGEST), st.integers(0, LARGEST), int64s, int64s
)


Maker = Callable[[Asked], Awaitable[Page]]


class Source:
    """The views of a picture, sent over a link as they are."""

    def __init__(self, shown: Picture) -> None:
        self._answers = Answers(shown, None)

    async def view(self, operation: Operation[Any]) -> Any:
        sent = CODEC.encode(Answer(1, await self._answers.answer(operation)))
        answer = CODEC.decode(sent)
        assert isinstance(answer, Answer)
        return answer.result


def followed(
    name: str, group: GroupMetadata, committed: dict[tuple[str, int], OffsetAndMetadata]
) -> list[FollowedGroup]:
    """The groups of a log with these records, read as the Monitor reads it."""
    read = OffsetsPartition()
    records = [(group_key(name), group_value(group))]
    for (topic, partition), at in committed.items():
        offset = at.offset.to_bytes(8, "big", signed=True) + at.leader_epoch.to_bytes(4, "big", signed=True)
        value = offset_value(offset, at.metadata.encode(), at.commit_timestamp_ms)
        records.append((offset_key(name, topic, partition), value))
    read.apply(records)
    assert not read.unreadable
    return list(read.groups.values())


def seen(groups: list[FollowedGroup], partitions: list[PartitionRow]) -> Picture:
    made = picture(*groups)
    made.memory.partitions.seen("orders", ORDERS, partitions, NOW_MS)
    for number in range(1, 3):
        made.memory.rates(made.offsets, NOW_MS + number)
        made.memory.measure(made.offsets, NOW_MS + number)
        made.trends.seen(NOW_MS + number, ((name, lag.records) for name, lag in made.memory.lags.items()))
    return made


def shown_anywhere(made: Picture, names: list[str]) -> None:
    """Every page, table and metric there is of it."""
    source, desk = Source(made), SyntheticDesk()

    async def views() -> None:
        asked: list[tuple[Maker, dict[str, str]]] = [
            (groups.page, {}),
            (topics.page, {}),
            (topics.topic, {"name": "orders"}),
        ]
        for page, query in (*asked, *((group.page, {"id": name}) for name in names)):
            found = await page(Asked(source, desk, "/", query))
            assert found.status == 200
            assert all(region.html.encode() for region in found.regions)
        overview, listed = await source.view(GetOverview()), await source.view(ListGroupRows())
        for order in ("lag", "behind"):
            assert len(top_tables.sorted_groups(listed.groups, order)) == len(names)
        assert list(top_tables.headlines(overview))
        cells = [
            output.text(cell)
            for rows in top_tables.all_rows(overview, listed.groups)
            for row in rows
            for cell in row.values()
        ]
        assert all(cell.isprintable() for cell in cells)

    asyncio.run(views())
    stored = [(each, state_of(each, {}), 0) for _, each in made.offsets]
    for families in (group_families(stored, made.memory), topic_families(made.reports.metadata, made.memory)):
        for _, series in families:
            assert all(isinstance(row[1], float) for row in series)
    for _, point in made.memory.points(NOW_MS):
        assert all(each is None or each <= LARGEST for each in (point.lag, point.committed))


@given(texts.filter(bool), metadata, offsets, st.lists(rows, max_size=2))
@examples(100)
def test_whatever_a_group_commits_and_says_of_itself_it_is_shown_beside_the_others(
    name: str, said: GroupMetadata, committed: dict[tuple[str, int], OffsetAndMetadata], partitions: list[PartitionRow]
) -> None:
    found = followed(name, said, committed)
    billing = FollowedGroup("billing", None, {("orders", 1): OffsetAndMetadata(0, -1, "", NOW_MS)})
    made = seen([*found, billing], [*partitions, PartitionRow(1, 0, 7, NOW_MS, 100)])
    assert made.memory.lags["billing"].records == 7
    shown_anywhere(made, sorted({each.group_id for _, each in made.offsets}))


@given(
    st.lists(st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=60)), max_size=4), st.binary(max_size=9)
)
@examples(300)
def test_a_record_of_the_offsets_topic_that_is_none_costs_itself_only(
    junk: list[tuple[bytes, bytes | None]], tail: bytes
) -> None:
    kinds = [bytes((0, kind)) for kind in range(5)]
    good = (offset_key("billing", "orders", 0), offset_value(b"\0" * 7 + b"\x05" + b"\0" * 4, b"", NOW_MS))
    dressed = [(kinds[number % 5] + key, value) for number, (key, value) in enumerate(junk)]
    surrogate = (b"\0\1\0\3\xed\xa0\x80\0\1t\0\0\0\0", good[1])
    cut = (offset_key("cut", "orders", 0), good[1][:-1] + tail)
    read = OffsetsPartition()
    read.apply([*junk, *dressed, surrogate, cut, good])
    assert read.groups["billing"].offsets["orders", 0].offset == 5
    assert read.unreadable >= 1


@given(st.binary(max_size=200), int64s)
@examples(200)
def test_a_batch_that_is_none_has_no_time(junk: bytes, offset: int) -> None:
    time_of(junk, offset)
    estimate_of(junk, offset)


@pytest.mark.parametrize("wall_ms", EDGES)
def test_a_moment_that_no_calendar_has_is_shown_all_the_same(wall_ms: int) -> None:
    """A page with one such timestamp was an error."""
    shown = [figures.clock(wall_ms), figures.moment(wall_ms), figures.iso(wall_ms), str(terminal.moment(wall_ms))]
    assert all(shown)
    if abs(wall_ms) > 2**60:
        assert set(shown) == {f"{wall_ms} ms"}
    assert figures.ago(wall_ms, NOW_MS)


def test_a_curve_with_the_largest_values_is_drawn() -> None:
    points = [LagPoint(NOW_MS + number, LARGEST, 1e15, each) for number, each in enumerate([0, LARGEST, None, 5])]
    (row,) = lag_rows(points, 1)
    assert row["max_lag"] == f"{LARGEST:,}"
