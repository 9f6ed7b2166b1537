"""Answers the views from memory, and from the history for the past. Nobody else is asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from actors.links.operations import Operation, Result
from actors.links.views import (
    GetGroup,
    GetGroupHistory,
    GetOverview,
    GetSeen,
    GetTopic,
    GroupHistory,
    GroupRows,
    ListGroupRows,
    ListTopicRows,
    Overview,
    RebalanceView,
    Seen,
    TopicRows,
)
from actors.monitor.group_views import GroupSource, group_rows, group_view, state_of
from actors.monitor.historian import Historian
from actors.monitor.kinds import Kinds
from actors.monitor.memory import Memory, storable
from actors.monitor.offsets_log import OffsetsLog
from actors.monitor.reports import Reports
from actors.monitor.topic_views import Readers, topic_rows, topic_view
from actors.monitor.trends import Trends
from placement.metadata import ClusterMetadata


@dataclass(slots=True)
class Picture:
    """All that a Monitor knows. Looks change it."""

    memory: Memory
    offsets: OffsetsLog
    trends: Trends
    reports: Reports
    seen: Seen
    kinds: Kinds = field(default_factory=Kinds)

    def groups(self) -> GroupSource:
        """The source that groups are shown from."""
        reports = self.reports
        return GroupSource(
            *(
                self.seen.last_look_ms,
                self.memory,
                reports.metadata,
                reports.phases,
                reports.rebalances,
                self.trends.all(),
            ),
            self.kinds.known,
        )


class Answers:
    """The answers to views."""

    def __init__(self, picture: Picture, history: Historian | None) -> None:
        self._picture = picture
        self._history = history

    async def answer(self, operation: Operation[Result]) -> Result:
        """The view that was asked for. Raises TypeError for what is none, LookupError before the first look."""
        picture = self._picture
        if not picture.seen.last_look_ms and not isinstance(operation, GetSeen):
            raise LookupError("the Monitor has not looked yet")
        memory, metadata, wall_ms = picture.memory, picture.reports.metadata, picture.seen.last_look_ms
        match operation:
            case GetOverview(events):
                return overview(picture, events)
            case ListGroupRows():
                return GroupRows(wall_ms, group_rows(picture.offsets, picture.groups()))
            case GetGroup(group_id, rebalances):
                return group_view(picture.offsets.find(group_id), picture.groups(), rebalances)
            case GetGroupHistory():
                return await self._past(operation)
            case ListTopicRows():
                return TopicRows(wall_ms, topic_rows(metadata, memory.partitions, readers(picture.offsets)))
            case GetTopic(name):
                return topic_view(name, metadata, memory.partitions, readers(picture.offsets), wall_ms)
            case GetSeen():
                return picture.seen
            case _:
                raise TypeError(f"{type(operation).__name__} is nothing that a Monitor shows")

    async def _past(self, asked: GetGroupHistory) -> GroupHistory:
        if self._history is None:
            return GroupHistory(asked.group_id, (), self._known(asked))
        points = await self._history.lag(asked.group_id, asked.since_ms, asked.until_ms, asked.points)
        past = await self._history.rebalances(asked.group_id, asked.since_ms, asked.until_ms)
        return GroupHistory(asked.group_id, points, past)

    def _known(self, asked: GetGroupHistory) -> tuple[RebalanceView, ...]:
        known = self._picture.reports.rebalances.get(asked.group_id, ())
        return tuple(each for each in known if asked.since_ms <= each.began_ms <= asked.until_ms)


def readers(offsets: OffsetsLog) -> Readers:
    """The groups that have committed offsets of each topic, by name."""
    found: dict[str, list[str]] = {}
    for _, group in offsets:
        for topic in group.topics:
            found.setdefault(topic, []).append(group.group_id)
    return {topic: tuple(sorted(groups)) for topic, groups in found.items()}


def overview(picture: Picture, events: int) -> Overview:
    """The cluster as a whole."""
    reports, memory = picture.reports, picture.memory
    metadata: ClusterMetadata = reports.metadata
    known = [lag.records for lag in memory.lags.values() if lag.records is not None]
    return Overview(
        cluster_id=metadata.cluster_id,
        name=reports.name,
        wall_ms=picture.seen.last_look_ms,
        controller_epoch=metadata.controller_epoch,
        controller_pid=reports.controller_pid,
        controller_node_id=reports.controller_node_id,
        brokers=reports.brokers,
        shards=reports.shards,
        topics=len(metadata.topics),
        partitions=sum(len(topic.partitions) for topic in metadata.topics.values()),
        groups=dict(Counter(state_of(group, reports.phases) for _, group in picture.offsets)),
        lag=storable(sum(known)) if known else None,
        messages_per_s=memory.messages_per_s,
        commits_per_s=memory.commits_per_s,
        events=reports.events[-events:] if events > 0 else (),
    )
