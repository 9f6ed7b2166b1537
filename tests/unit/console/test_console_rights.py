"""The views of a visitor with few rights: every field of every view is either his to see or not there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from actors.console.desk import Rights
from actors.console.rights import Entitled
from actors.console.source import SourceError
from actors.links import views
from actors.links.operations import Operation, Result
from actors.links.views import (
    ClassicRebalanceView,
    Event,
    GetGroup,
    GetGroupHistory,
    GetOverview,
    GetSeen,
    GetTopic,
    GroupHistory,
    GroupView,
    LagPoint,
    ListGroupRows,
    ListTopicRows,
    Overview,
    Seen,
    TopicView,
)
from actors.runtime.environment import Clock
from tests.support.synthetic_desk import SyntheticDesk
from tests.support.synthetic_source import R, SyntheticSource

HIDDEN_TOPIC, HIDDEN_GROUP = "payments", "shipping"
SEEN_GROUP, SEEN_TOPIC = "billing", "orders"
SECRET = "s3cret"
"""Stands in each field about processes and their places."""
SUM = 987_654_321
"""Stands in every figure that sums up hidden parts."""
CLOCK = Clock(monotonic=lambda: 1000.0, wall_ms=lambda: 1_795_000_000_000)
FEW = Rights(frozenset({SEEN_GROUP}), frozenset({SEEN_TOPIC}), cluster=False)
ASKED: tuple[Operation[Any], ...] = (
    GetOverview(),
    ListGroupRows(),
    ListTopicRows(),
    GetGroup(SEEN_GROUP),
    GetGroup(HIDDEN_GROUP),
    GetGroupHistory(SEEN_GROUP, 0, 1 << 50),
    GetGroupHistory(HIDDEN_GROUP, 0, 1 << 50),
    GetTopic(SEEN_TOPIC),
    GetTopic(HIDDEN_TOPIC),
    GetSeen(),
)


class Marked(SyntheticSource):
    """The synthetic cluster, with marks in fields that not everybody may see. `billing` reads both topics."""

    async def view(self, operation: Operation[R]) -> R:
        if isinstance(operation, GetSeen):
            return Seen(0, 1, 2, 3, 4, (SECRET,))  # type: ignore[return-value]
        found: Any = await super().view(operation)
        return _marked(found)  # type: ignore[no-any-return]


def _marked(found: Any) -> Any:
    rebalance = ClassicRebalanceView(SEEN_GROUP, 1, 1, "a member joined", "m", processes={"m": SECRET})
    match found:
        case Overview():
            brokers = tuple(replace(each, node_id=SECRET, pid=SUM, connections=SUM) for each in found.brokers)
            events = (Event(1, 1, "created", HIDDEN_TOPIC, ""), Event(2, 1, "death", "broker 1", SECRET))
            return replace(
                found,
                controller_pid=SUM,
                controller_node_id=SECRET,
                brokers=brokers,
                lag=SUM,
                messages_per_s=SUM,
                commits_per_s=SUM,
                events=events,
            )
        case views.GroupRows():
            return replace(found, groups=tuple(_row(row) for row in found.groups))
        case GroupView() if found.row is not None:
            members = tuple(replace(each, process=SECRET) for each in found.members)
            return replace(found, row=_row(found.row), members=members, rebalances=(rebalance,))
        case GroupHistory():
            return replace(found, points=(LagPoint(1, SUM, SUM, SUM),), rebalances=(rebalance,))
        case views.TopicRows():
            return replace(found, topics=tuple(replace(row, size_bytes=SUM) for row in found.topics))
        case TopicView() if found.row is not None:
            partitions = tuple(replace(each, size_bytes=SUM) for each in found.partitions)
            row = replace(found.row, size_bytes=SUM)
            return replace(found, row=row, partitions=partitions, configs={"retention.ms": SECRET})
    return found


def _row(row: Any) -> Any:
    topics = tuple(sorted({*row.topics, HIDDEN_TOPIC})) if row.group_id == SEEN_GROUP else row.topics
    return replace(row, topics=topics, lag=SUM, lag_seconds=SUM, commits_per_s=SUM, trend=(SUM,))


def values(found: Any) -> Iterator[Any]:
    """All values in a view, however deep."""
    if is_dataclass(found):
        for each in fields(found):
            yield from values(getattr(found, each.name))
    elif isinstance(found, dict):
        yield from found
        yield from values(list(found.values()))
    elif isinstance(found, list | tuple | frozenset):
        for each in found:
            yield from values(each)
    else:
        yield found


def entitled(rights: Rights, *, settings: bool = False) -> Entitled:
    return Entitled(Marked(CLOCK), SyntheticDesk(rights, settings=settings), CLOCK)


@pytest.mark.parametrize("operation", ASKED, ids=lambda each: type(each).__name__)
async def test_who_may_describe_one_topic_and_one_group_sees_these_alone(operation: Operation[Any]) -> None:
    """He saw settings, pids, Ray nodes, and sums of groups over topics that were hidden from him."""
    found = list(values(await entitled(FEW).view(operation)))
    told = [each for each in found if isinstance(each, str)]
    if isinstance(operation, GetGroupHistory):
        told = [each for each in told if each != operation.group_id]  # he has named it himself
    assert not [each for each in told if HIDDEN_TOPIC in each or HIDDEN_GROUP in each or SECRET in each]
    assert SUM not in found


async def test_of_a_group_with_hidden_topics_the_rest_is_summed_up() -> None:
    found = await entitled(FEW).view(GetGroup(SEEN_GROUP))
    assert found.row is not None
    assert found.row.lag == sum(each.lag or 0 for each in found.partitions)
    assert {each.topic for each in found.partitions} == {SEEN_TOPIC}


async def test_who_may_describe_all_sees_all() -> None:
    for operation in ASKED:
        found = await entitled(Rights(), settings=True).view(operation)
        if not isinstance(operation, GetOverview):  # it counts anew the parts that he sees
            assert found == await Marked(CLOCK).view(operation)
    everything = await entitled(Rights(), settings=True).view(GetOverview())
    assert (everything.messages_per_s, everything.commits_per_s, len(everything.events)) == (SUM, SUM, 2)
    assert SECRET in {each.node_id for each in everything.brokers}


async def test_who_may_describe_the_cluster_sees_processes_and_no_topics_for_it() -> None:
    found = await entitled(replace(FEW, cluster=True)).view(GetOverview())
    assert [each.subject for each in found.events] == ["broker 1"]
    assert (found.messages_per_s, found.commits_per_s) == (None, None)
    assert {each.node_id for each in found.brokers} == {SECRET}


async def test_a_topic_called_as_a_process_has_no_events_for_others() -> None:
    class Named(Marked):
        async def view(self, operation: Operation[R]) -> R:
            found: Any = await super().view(operation)
            if isinstance(found, Overview):
                found = replace(found, events=(Event(1, 1, "created", "controller", "The topic was created."),))
            return found  # type: ignore[no-any-return]

    made = Entitled(Named(CLOCK), SyntheticDesk(replace(FEW, cluster=True)), CLOCK)
    assert (await made.view(GetOverview())).events == ()


async def test_settings_are_for_those_who_may_describe_them() -> None:
    assert (await entitled(FEW).view(GetTopic(SEEN_TOPIC))).configs is None
    assert (await entitled(FEW, settings=True).view(GetTopic(SEEN_TOPIC))).configs == {"retention.ms": SECRET}


def test_this_file_walks_every_view() -> None:
    asked = {each for each in views.CLASSES.values() if issubclass(each, Operation)}
    assert asked == {type(each) for each in ASKED}


async def test_a_view_that_nobody_has_thought_of_is_shown_to_nobody() -> None:
    class Unheard(Operation[Result]):
        pass

    with pytest.raises(SourceError, match="nothing says who may see"):
        await entitled(Rights()).view(Unheard())
