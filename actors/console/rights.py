"""A Source that shows a user what he may list himself, and nothing else.

What that is, his own Admin asks the brokers: who may describe a group finds it in ListGroups, who may describe a topic
in Metadata. The processes of the cluster and their events are for those who may describe the cluster.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Final, TypeVar, cast

from actors.console.desk import Desk, DeskError, Rights
from actors.console.source import Source, SourceError
from actors.links.operations import Operation, Result
from actors.links.views import (
    GetGroup,
    GetGroupHistory,
    GetTopic,
    GroupHistory,
    GroupRow,
    GroupRows,
    GroupView,
    ListGroupRows,
    ListTopicRows,
    Overview,
    TopicRow,
    TopicRows,
    TopicView,
)
from actors.runtime.environment import Clock

R = TypeVar("R", bound=Result)

_AGE_S: Final = 10.0
"""How old rights may be: what is taken from somebody is out of his sight by then."""


class Entitled:
    """What `source` has, as far as the owner of `desk` may see it."""

    def __init__(self, source: Source, desk: Desk, clock: Clock) -> None:
        self._source = source
        self._desk = desk
        self._clock = clock
        self._asked: tuple[float, asyncio.Task[Rights]] | None = None

    async def view(self, operation: Operation[R]) -> R:
        """The view, without what he may not see. Raises SourceError."""
        rights = await self._rights()
        if isinstance(operation, GetGroup | GetGroupHistory) and not _may(operation.group_id, rights.groups):
            return cast(R, _no_group(operation, self._clock.wall_ms()))
        if isinstance(operation, GetTopic) and not _may(operation.name, rights.topics):
            return cast(R, TopicView(self._clock.wall_ms(), None))
        found = await self._source.view(operation)
        if isinstance(found, Overview):
            rows = await self._source.view(ListGroupRows())
            topics = await self._source.view(ListTopicRows())
            return cast(R, _overview(found, _groups(rows, rights), _topics(topics, rights), rights))
        return cast(R, _limited(found, rights))

    async def _rights(self) -> Rights:
        now = self._clock.monotonic()
        if self._asked is None or (self._asked[1].done() and now - self._asked[0] >= _AGE_S):
            self._asked = now, asyncio.ensure_future(self._desk.rights())
        try:
            return await asyncio.shield(self._asked[1])
        except DeskError as error:
            self._asked = None
            raise SourceError(str(error)) from error


def _may(name: str, allowed: frozenset[str] | None) -> bool:
    return allowed is None or name in allowed


def _no_group(operation: GetGroup | GetGroupHistory, now_ms: int) -> Result:
    if isinstance(operation, GetGroup):
        return GroupView(now_ms, None)
    return GroupHistory(operation.group_id, (), ())


def _limited(found: Result, rights: Rights) -> Result:
    if isinstance(found, GroupRows):
        return _groups(found, rights)
    if isinstance(found, TopicRows):
        return _topics(found, rights)
    if isinstance(found, TopicView) and found.row is not None:
        return replace(found, row=_topic(found.row, rights))
    if isinstance(found, GroupView) and found.row is not None:
        return _group(found, rights)
    return found


def _groups(found: GroupRows, rights: Rights) -> GroupRows:
    return replace(found, groups=tuple(_row(row, rights) for row in found.groups if _may(row.group_id, rights.groups)))


def _topics(found: TopicRows, rights: Rights) -> TopicRows:
    return replace(found, topics=tuple(_topic(row, rights) for row in found.topics if _may(row.name, rights.topics)))


def _row(row: GroupRow, rights: Rights) -> GroupRow:
    return replace(row, topics=tuple(topic for topic in row.topics if _may(topic, rights.topics)))


def _topic(row: TopicRow, rights: Rights) -> TopicRow:
    return replace(row, groups=tuple(group for group in row.groups if _may(group, rights.groups)))


def _group(found: GroupView, rights: Rights) -> GroupView:
    """As OffsetFetch does it: the offsets of topics that he may not describe are not shown."""
    members = tuple(
        replace(each, assignment={t: numbers for t, numbers in each.assignment.items() if _may(t, rights.topics)})
        for each in found.members
    )
    partitions = tuple(each for each in found.partitions if _may(each.topic, rights.topics))
    row = None if found.row is None else _row(found.row, rights)
    return replace(found, row=row, members=members, partitions=partitions)


def _overview(found: Overview, groups: GroupRows, topics: TopicRows, rights: Rights) -> Overview:
    if rights.cluster and rights.groups is None and rights.topics is None:
        return found
    lags = [row.lag for row in groups.groups if row.lag is not None]
    counted = replace(
        found,
        topics=len(topics.topics),
        partitions=sum(row.partitions for row in topics.topics),
        groups=dict(Counter(row.state for row in groups.groups)),
        lag=sum(lags) if lags else None,
    )
    if rights.cluster:
        return counted
    return replace(counted, shards=(), events=(), messages_per_s=None, commits_per_s=None)
