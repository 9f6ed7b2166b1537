"""What a Monitor knows of its cluster, and the views that it makes of it. No clock, no I/O."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from actors.links.observations import CONTROLLER, BrokerObserved, ClusterObserved, Happenings, LookAround, Position
from actors.links.operations import Operation, Result
from actors.links.rebalances import RebalanceView
from actors.links.status import ASLEEP, BrokerStatus
from actors.links.views import (
    BrokerView,
    Event,
    GetGroupHistory,
    GetOverview,
    GetSeen,
    GroupHistory,
    Overview,
    Seen,
    ShardView,
)
from placement.metadata import ClusterMetadata

EVENTS_MAX: Final = 1_000
REBALANCES_MAX: Final = 50
"""How many rebalances of a group are kept in memory."""
GROUPS_MAX: Final = 10_000
"""Of how many groups. Those are forgotten first whose last rebalance is the longest ago."""


class Picture:
    """The cluster as it was at the last look, the look before, and the happenings of all looks."""

    def __init__(self, since_ms: int, interval_ms: int) -> None:
        self.metadata = ClusterMetadata()
        self.last: ClusterObserved | None = None
        self.before: ClusterObserved | None = None
        self.events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self.rebalances: dict[str, deque[RebalanceView]] = {}
        self.problems: tuple[str, ...] = ()
        self._since_ms = since_ms
        self._interval_ms = interval_ms
        self._took_ms = 0
        self._number = 0
        self._positions: dict[int, Position] = {}
        self._answers: dict[type[Operation[Any]], Callable[[Any], Result]] = {
            GetOverview: self._overview,
            GetGroupHistory: self._group_history,
            GetSeen: self._seen,
        }

    # --- looks ---

    @property
    def question(self) -> LookAround:
        """What is to be asked at the next look."""
        return LookAround(tuple(self._positions.values()), self.metadata.version if self.last is not None else -1)

    def take(self, observed: ClusterObserved, took_ms: int) -> None:
        """Take over what a look has shown."""
        if observed.metadata is not None:
            self.metadata = observed.metadata
        self.before, self.last = self.last, replace(observed, metadata=None)
        self._took_ms = took_ms
        self.problems = tuple(f"broker {broker_id} did not answer" for broker_id in observed.silent)
        self._take_happenings(CONTROLLER, observed.controller)
        for broker in observed.brokers:
            self._take_happenings(broker.broker_id, broker.happenings)

    @property
    def is_behind(self) -> bool:
        """Whether more has happened than one answer could hold, so that the next look should be at once."""
        if self.last is None:
            return False
        told = (self.last.controller, *(broker.happenings for broker in self.last.brokers))
        return any(each.upto < each.last for each in told)

    def _take_happenings(self, source: int, told: Happenings) -> None:
        self._positions[source] = Position(source, told.run, told.upto)
        subject = "controller" if source == CONTROLLER else f"broker {source}"
        if told.missed:
            self._add(Event(0, told.run, "missed", subject, f"{told.missed} happenings before these were not kept."))
        for event in told.events:
            self._add(event)
        for each in told.rebalances:
            self._add_rebalance(each.rebalance)

    def _add(self, event: Event) -> None:
        self._number += 1
        self.events.append(replace(event, number=self._number))

    def _add_rebalance(self, rebalance: RebalanceView) -> None:
        group_id = rebalance.group_id
        kept = self.rebalances.pop(group_id, None)
        self.rebalances[group_id] = kept = kept if kept is not None else deque(maxlen=REBALANCES_MAX)
        kept.append(rebalance)
        if len(self.rebalances) > GROUPS_MAX:
            del self.rebalances[next(iter(self.rebalances))]

    # --- views ---

    def answer(self, operation: Operation[Result]) -> Result:
        """The answer to a question. Raises LookupError before the first look, TypeError for other questions."""
        answer = self._answers.get(type(operation))
        if answer is None:
            raise TypeError(f"{type(operation).__name__} is nothing that this Monitor shows")
        return answer(operation)

    def _observed(self) -> ClusterObserved:
        if self.last is None:
            raise LookupError("the Monitor has not looked yet")
        return self.last

    def _overview(self, asked: GetOverview) -> Overview:
        seen, status = self._observed(), self._observed().status
        told = {broker.broker_id: broker for broker in seen.brokers}
        partitions = [each for topic in self.metadata.topics.values() for each in topic.partitions]
        led = Counter(each.leader for each in partitions)
        held = Counter(broker_id for each in partitions for broker_id in each.replicas)
        groups: Counter[str] = Counter()
        for broker in seen.brokers:
            for shard in broker.shards:
                groups.update(shard.figures.groups if shard.figures is not None else {})
        return Overview(
            cluster_id=status.cluster_id,
            name=status.name,
            wall_ms=seen.wall_ms,
            controller_epoch=status.controller_epoch,
            controller_pid=status.controller_pid,
            controller_node_id=status.controller_node_id,
            brokers=tuple(self._broker(each, told.get(each.id), led, held) for each in status.brokers),
            shards=tuple(_shards(seen.brokers)),
            topics=len(self.metadata.topics),
            partitions=len(partitions),
            groups=dict(groups),
            lag=None,
            messages_per_s=self._rate(lambda broker: sum(topic.records_in for topic in broker.topics)),
            commits_per_s=self._rate(lambda broker: broker.counters.get("offset_commits", 0)),
            events=tuple(self.events)[-asked.events :] if asked.events > 0 else (),
        )

    def _broker(
        self, broker: BrokerStatus, told: BrokerObserved | None, led: Counter[int], held: Counter[int]
    ) -> BrokerView:
        of = (broker.id,)
        return BrokerView(
            id=broker.id,
            host=broker.host,
            port=broker.port,
            rack=broker.rack,
            node_id=broker.node_id,
            epoch=broker.epoch,
            alive=broker.alive,
            pid=broker.pid,
            connections=broker.load.connections if broker.load is not None else 0,
            leads=led[broker.id],
            replicas=held[broker.id],
            requests_per_s=self._rate(lambda each: sum(api.requests for api in each.apis), of),
            bytes_in_per_s=self._rate(lambda each: sum(topic.bytes_in for topic in each.topics), of),
            bytes_out_per_s=self._rate(lambda each: sum(topic.bytes_out for topic in each.topics), of),
            longest_turn_ms=broker.load.longest_turn_ms if broker.load is not None else 0.0,
            parked=sum(told.parked.values()) if told is not None else 0,
        )

    def _rate(self, count: Callable[[BrokerObserved], int], of: Iterable[int] | None = None) -> float | None:
        """How fast a figure has grown since the look before, over all brokers or those of these ids, in 1/s.

        Of a broker that was restarted since or did not answer, nothing is known; None if that goes for all.
        """
        if self.last is None or self.before is None:
            return None
        older = {each.broker_id: each for each in self.before.brokers}
        known = []
        for each in self.last.brokers:
            was = older.get(each.broker_id)
            if was is None or was.happenings.run != each.happenings.run or each.wall_ms <= was.wall_ms:
                continue
            if of is None or each.broker_id in of:
                known.append((count(each) - count(was)) * 1000 / (each.wall_ms - was.wall_ms))
        return round(sum(known), 3) if known else None

    def _group_history(self, asked: GetGroupHistory) -> GroupHistory:
        kept = self.rebalances.get(asked.group_id, ())
        within = (each for each in kept if asked.since_ms <= each.began_ms <= asked.until_ms)
        return GroupHistory(asked.group_id, (), tuple(within))

    def _seen(self, asked: GetSeen) -> Seen:
        last_ms = self.last.wall_ms if self.last is not None else 0
        return Seen(self._since_ms, self._interval_ms, last_ms, self._took_ms, 0, self.problems)


def _shards(brokers: Iterable[BrokerObserved]) -> Iterator[ShardView]:
    for broker in brokers:
        for shard in broker.shards:
            figures = shard.figures
            groups, offsets = (0, 0) if figures is None else (sum(figures.groups.values()), figures.offsets)
            pid = None if shard.state == ASLEEP else shard.pid
            yield ShardView(
                shard.partition, broker.broker_id, shard.state, pid, shard.epoch, groups, offsets, shard.why
            )
