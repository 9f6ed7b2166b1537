"""A Source that shows a user what he may list himself, and nothing else.

His own Admin asks the brokers for his rights: a user who may describe a group finds it in ListGroups, one who may
describe a topic in Metadata, and its settings are for those who may describe these. The processes of the cluster, where
they run and what happens to them are for those who may describe the cluster. A figure of many topics or groups is shown
only if all of them are his to see.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar, cast

from actors.console.desk import Desk, DeskError, LoggedOutError, Rights
from actors.console.source import Source, SourceError, VisitOverError
from actors.links.operations import Operation, Result
from actors.links.views import (
    BrokerView,
    Event,
    GetGroup,
    GetGroupHistory,
    GetOverview,
    GetSeen,
    GetTopic,
    GroupHistory,
    GroupRow,
    GroupRows,
    GroupView,
    ListGroupRows,
    ListTopicRows,
    Overview,
    RebalanceView,
    Seen,
    TopicRow,
    TopicRows,
    TopicView,
)
from actors.runtime.environment import Clock
from actors.runtime.sharing import result_of

R = TypeVar("R", bound=Result)

_AGE_S: Final = 10.0
"""The greatest age of rights: a right that is taken from somebody is gone from his sight by then."""
_OFFSETS: Final = "__consumer_offsets-"
_PROCESSES: Final = ("controller", "monitor")
_LIVES: Final = ("start", "death")
"""Kinds of events that no topic has, whatever it is called."""


class Entitled:
    """The views of `source`, as far as the owner of `desk` may see them."""

    def __init__(self, source: Source, desk: Desk, clock: Clock) -> None:
        self._source = source
        self._desk = desk
        self._clock = clock
        self._asked: tuple[float, asyncio.Task[Rights]] | None = None
        self._settings: dict[str, asyncio.Task[bool]] = {}

    async def view(self, operation: Operation[R]) -> R:
        """The view, without what he may not see. Raises SourceError."""
        return cast(R, await self._view(operation))

    async def _view(self, operation: Operation[Result]) -> Result:
        rights, now_ms = await self._rights(), self._clock.wall_ms()
        match operation:
            case GetOverview():
                return await self._overview(operation, rights)
            case ListGroupRows():
                return _groups(await self._source.view(operation), rights)
            case ListTopicRows():
                return _topics(await self._source.view(operation), rights)
            case GetGroup(group_id=group_id):
                may = _may(group_id, rights.groups)
                return _group(await self._source.view(operation), rights) if may else GroupView(now_ms, None)
            case GetGroupHistory(group_id=group_id):
                may = _may(group_id, rights.groups)
                return await self._history(operation, rights) if may else GroupHistory(group_id, (), ())
            case GetTopic(name=name):
                return await self._topic(operation, rights) if _may(name, rights.topics) else TopicView(now_ms, None)
            case GetSeen():
                return _seen(await self._source.view(operation), rights)
        raise SourceError(f"nothing says who may see what {type(operation).__name__} asks for")

    async def _overview(self, operation: GetOverview, rights: Rights) -> Overview:
        found = await self._source.view(operation)
        rows, topics = await self._source.view(ListGroupRows()), await self._source.view(ListTopicRows())
        return _overview(found, rows, topics, rights)

    async def _history(self, operation: GetGroupHistory, rights: Rights) -> GroupHistory:
        found = await self._source.view(operation)
        row = (await self._source.view(GetGroup(operation.group_id, 0))).row
        whole = row is None or not _hidden(row.topics, rights)
        return replace(found, points=found.points if whole else (), rebalances=_rebalances(found.rebalances, rights))

    async def _topic(self, operation: GetTopic, rights: Rights) -> TopicView:
        found = await self._source.view(operation)
        if found.row is None:
            return found
        partitions = found.partitions
        if not rights.cluster:
            partitions = tuple(replace(each, size_bytes=None) for each in partitions)
        told = await self._sees_settings(operation.name)
        configs = found.configs if told else None
        return replace(found, row=_topic(found.row, rights), partitions=partitions, configs=configs)

    async def _sees_settings(self, topic: str) -> bool:
        """True if he may describe the settings of a topic; asked again when his rights are."""
        if topic not in self._settings:
            self._settings[topic] = asyncio.ensure_future(self._desk.sees_settings(topic))
        try:
            return await result_of(self._settings[topic])
        except DeskError as error:
            self._settings.pop(topic, None)
            raise _source_error(error) from error

    async def _rights(self) -> Rights:
        now = self._clock.monotonic()
        if self._asked is None or (self._asked[1].done() and now - self._asked[0] >= _AGE_S):
            self._asked = now, asyncio.ensure_future(self._desk.rights())
            self._settings.clear()
        try:
            return await result_of(self._asked[1])
        except DeskError as error:
            self._asked = None
            raise _source_error(error) from error


def _source_error(error: DeskError) -> SourceError:
    return VisitOverError(str(error)) if isinstance(error, LoggedOutError) else SourceError(str(error))


def _may(name: str, allowed: frozenset[str] | None) -> bool:
    return allowed is None or name in allowed


def _hidden(topics: Iterable[str], rights: Rights) -> bool:
    return not all(_may(topic, rights.topics) for topic in topics)


# --- groups ---------------------------------------------------------------------------------------------------------


def _groups(found: GroupRows, rights: Rights) -> GroupRows:
    return replace(found, groups=tuple(_row(row, rights) for row in found.groups if _may(row.group_id, rights.groups)))


def _row(row: GroupRow, rights: Rights) -> GroupRow:
    """Sums over topics that he may not see are not shown."""
    if not _hidden(row.topics, rights):
        return row
    topics = tuple(topic for topic in row.topics if _may(topic, rights.topics))
    return replace(row, topics=topics, lag=None, lag_seconds=None, commits_per_s=None, trend=())


def _group(found: GroupView, rights: Rights) -> GroupView:
    """As OffsetFetch does it: the offsets of topics that he may not describe are not shown, nor counted."""
    if found.row is None:
        return found
    members = tuple(
        replace(
            each,
            assignment={t: numbers for t, numbers in each.assignment.items() if _may(t, rights.topics)},
            process=each.process if rights.cluster else "",
        )
        for each in found.members
    )
    partitions = tuple(each for each in found.partitions if _may(each.topic, rights.topics))
    row = _row(found.row, rights)
    if len(partitions) < len(found.partitions) or row is not found.row:
        lags = [each.lag for each in partitions if each.lag is not None]
        ages = [each.lag_seconds for each in partitions if each.lag_seconds is not None]
        row = replace(row, lag=sum(lags) if lags else None, lag_seconds=max(ages, default=None))
        row = replace(row, commits_per_s=None, trend=())
    rebalances = _rebalances(found.rebalances, rights)
    return replace(found, row=row, members=members, partitions=partitions, rebalances=rebalances)


def _rebalances(found: tuple[RebalanceView, ...], rights: Rights) -> tuple[RebalanceView, ...]:
    """The places of members are told to those who see processes."""
    return found if rights.cluster else tuple(each.without_processes() for each in found)


# --- topics ---------------------------------------------------------------------------------------------------------


def _topics(found: TopicRows, rights: Rights) -> TopicRows:
    return replace(found, topics=tuple(_topic(row, rights) for row in found.topics if _may(row.name, rights.topics)))


def _topic(row: TopicRow, rights: Rights) -> TopicRow:
    """Brokers tell the size of logs to those who may describe the cluster."""
    groups = tuple(group for group in row.groups if _may(group, rights.groups))
    return replace(row, groups=groups, size_bytes=row.size_bytes if rights.cluster else None)


# --- the cluster ----------------------------------------------------------------------------------------------------


def _overview(found: Overview, rows: GroupRows, all_topics: TopicRows, rights: Rights) -> Overview:
    groups, topics = _groups(rows, rights), _topics(all_topics, rights)
    every_topic = len(topics.topics) == len(all_topics.topics)
    every_group = len(groups.groups) == len(rows.groups)
    lags = [row.lag for row in groups.groups if row.lag is not None]
    counted = replace(
        found,
        topics=len(topics.topics),
        partitions=sum(row.partitions for row in topics.topics),
        groups=dict(Counter(row.state for row in groups.groups)),
        lag=sum(lags) if lags else None,
        messages_per_s=found.messages_per_s if every_topic else None,
        commits_per_s=found.commits_per_s if every_topic and every_group else None,
    )
    if rights.cluster:
        everything = every_topic and every_group
        return counted if everything else replace(counted, events=tuple(filter(_is_of_a_process, found.events)))
    return replace(
        counted,
        controller_pid=0,
        controller_node_id="",
        brokers=tuple(map(_stranger, found.brokers)),
        shards=(),
        events=(),
        messages_per_s=None,
        commits_per_s=None,
    )


def _stranger(broker: BrokerView) -> BrokerView:
    """A broker as Metadata describes it."""
    return replace(
        broker,
        node_id="",
        epoch=0,
        pid=None,
        connections=0,
        leads=None,
        replicas=None,
        requests_per_s=None,
        bytes_in_per_s=None,
        bytes_out_per_s=None,
        longest_turn_ms=0.0,
        parked=0,
    )


def _is_of_a_process(event: Event) -> bool:
    """True if an event names no topic and no group of anybody's."""
    own = event.subject in _PROCESSES and event.kind in _LIVES
    return own or event.subject.startswith(("broker ", _OFFSETS))


def _seen(found: Seen, rights: Rights) -> Seen:
    return found if rights.cluster else replace(found, problems=())
