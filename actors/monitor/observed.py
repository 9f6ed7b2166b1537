"""Takes over what the controller and the brokers tell at each look, and keeps the last of what has happened.

Figures are kept as they were told, and with them those of the look before, for rates. Happenings come once each: what
was new at a look is handed to the history. No clock, no I/O.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from actors.links.broker_words import leaving
from actors.links.observations import CONTROLLER, BrokerObserved, ClusterObserved, Happenings, Position
from actors.links.pools import PoolFigures
from actors.links.rebalances import Rebalancing
from actors.links.status import BrokerStatus, ShardStatus
from actors.links.views import BrokerView, Event, RebalanceView, ShardView
from actors.monitor.group_views import HOUR_MS, Phase
from actors.monitor.reports import Reports
from placement.metadata import ClusterMetadata

EVENTS_KEPT: Final = 1_000
REBALANCES_KEPT: Final = 50
"""Of each group; of a group that rebalances more often, all of the last hour up to ten times as many."""
REASONS_MAX: Final = 40
"""The number of reasons that are counted. A client may give any text as one (KIP-800)."""
OTHER: Final = "other"
_REASON_CHARACTERS: Final = 60
_Figure = Callable[[BrokerObserved], int]


@dataclass(frozen=True, slots=True)
class News:
    """The happenings since the look before. Events are numbered anew, in one sequence."""

    events: tuple[Event, ...] = ()
    rebalances: tuple[RebalanceView, ...] = ()

    def and_then(self, later: News, most: int) -> News:
        """These and later ones: of each kind the last `most`."""
        return News((*self.events, *later.events)[-most:], (*self.rebalances, *later.rebalances)[-most:])


class Observed:
    """The reports of brokers and the controller, look after look."""

    def __init__(self, events: Iterable[Event] = (), rebalances: Iterable[RebalanceView] = ()) -> None:
        """Begins with the events that an earlier Monitor has left, oldest first."""
        self.reports = Reports(events=tuple(events))
        self.brokers: dict[int, BrokerObserved] = {}
        """The figures of each living broker that has answered, the last ones."""
        self.reasons: Counter[str] = Counter()
        """The number of rebalances for each reason, since this Monitor began."""
        self.kinds: Counter[str] = Counter()
        """The number of events of each kind, since this Monitor began."""
        self.shrinks: Counter[int] = Counter()
        """The number of partitions of each leader that were seen with a smaller in-sync set than at the look before."""
        self.expands: Counter[int] = Counter()
        """And with a larger one."""
        self.missed = 0
        """The number of happenings that were not told, because this Monitor asked too late."""
        self.pools: tuple[PoolFigures, ...] = ()
        """The pools on this Ray, whichever Kafka their groups are in."""
        self.silent: tuple[int, ...] = ()
        self.is_behind = False
        """True if more has happened than an answer holds."""
        self._before: dict[int, BrokerObserved] = {}
        self._positions: dict[int, Position] = {}
        self._events = deque(self.reports.events, EVENTS_KEPT)
        self._number = self._events[-1].number if self._events else 0
        self._known = set(map(_identity, self._events))  # of an earlier Monitor's: they are told of again
        self._rebalances: dict[str, deque[RebalanceView]] = {}
        for each in rebalances:
            self._keep(each)
        self._retold = {_moment(each) for known in self._rebalances.values() for each in known}
        """Rebalances of an earlier Monitor's of which brokers may tell once more."""
        self._spread: tuple[ClusterMetadata, Counter[int], Counter[int]] | None = None

    @property
    def positions(self) -> tuple[Position, ...]:
        """The position up to which the happenings of each process are known."""
        return tuple(self._positions.values())

    def take(self, seen: ClusterObserved) -> News:
        """Take over what was told at a look. Returns what is new."""
        known = {status.id for status in seen.status.brokers}
        self._before = self.brokers
        self.brokers = {each.broker_id: each for each in seen.brokers}
        self._positions = {at: each for at, each in self._positions.items() if at == CONTROLLER or at in known}
        news = self._news(
            [(CONTROLLER, seen.controller), *((each.broker_id, each.happenings) for each in seen.brokers)]
        )
        self.silent, self.pools = seen.silent, seen.pools
        metadata = self.reports.metadata if seen.metadata is None else seen.metadata
        self._compare(self.reports.metadata, metadata)
        self.reports = self._tell(seen, metadata)
        return news

    def _news(self, told: Iterable[tuple[int, Happenings]]) -> News:
        events: list[Event] = []
        rebalances: list[RebalanceView] = []
        self.is_behind = False
        for source, happenings in told:
            self.is_behind |= happenings.upto < happenings.last
            self._positions[source] = Position(source, happenings.run, happenings.upto)
            self.missed += happenings.missed
            events += (each for each in happenings.events if _identity(each) not in self._known)
            rebalances += (each.rebalance for each in happenings.rebalances)
        numbered = []
        for event in sorted(events, key=lambda each: each.wall_ms):
            self._number += 1
            numbered.append(replace(event, number=self._number))
        rebalances.sort(key=lambda each: each.began_ms)
        self._events.extend(numbered)
        self.kinds.update(each.kind for each in numbered)
        for rebalance in rebalances:
            self._count(rebalance)
        return News(tuple(numbered), tuple(rebalances))

    def _count(self, rebalance: RebalanceView) -> None:
        if (moment := _moment(rebalance)) in self._retold:
            self._retold.discard(moment)
        else:
            self._keep(rebalance)
        reason = rebalance.reason[:_REASON_CHARACTERS]
        self.reasons[reason if reason in self.reasons or len(self.reasons) < REASONS_MAX else OTHER] += 1

    def _keep(self, rebalance: RebalanceView) -> None:
        self._rebalances.setdefault(rebalance.group_id, deque(maxlen=10 * REBALANCES_KEPT)).append(rebalance)

    def _compare(self, before: ClusterMetadata, now: ClusterMetadata) -> None:
        if before is now:
            return
        for name, topic in now.topics.items():
            was = before.topics.get(name)
            if was is None or was is topic or was.id != topic.id:
                continue
            for old, new in zip(was.partitions, topic.partitions, strict=False):
                self.shrinks[new.leader] += not set(old.isr) <= set(new.isr)
                self.expands[new.leader] += not set(new.isr) <= set(old.isr)

    def _tell(self, seen: ClusterObserved, metadata: ClusterMetadata) -> Reports:
        under_way = [each for broker in seen.brokers for each in broker.rebalancing]
        self._forget(seen.wall_ms)
        past = {group: tuple(known) for group, known in self._rebalances.items()}
        for each in under_way:
            group = each.rebalance.group_id
            past[group] = (*past.get(group, ()), each.rebalance)
        return Reports(
            name=seen.status.name,
            controller_pid=seen.status.controller_pid,
            controller_node_id=seen.status.controller_node_id,
            metadata=metadata,
            brokers=self._broker_views(seen.status.brokers, metadata),
            shards=tuple(
                _shard(broker.broker_id, each)
                for broker in seen.brokers
                for each in sorted(broker.shards, key=lambda shard: shard.partition)
            ),
            phases={each.rebalance.group_id: _phase(each, seen.wall_ms) for each in under_way},
            rebalances=past,
            events=tuple(self._events),
        )

    def _forget(self, now_ms: int) -> None:
        for group, known in list(self._rebalances.items()):
            while len(known) > REBALANCES_KEPT and known[0].began_ms < now_ms - HOUR_MS:
                known.popleft()
            if known[-1].began_ms < now_ms - 24 * HOUR_MS:
                del self._rebalances[group]  # the history has them

    def _broker_views(self, brokers: Iterable[BrokerStatus], metadata: ClusterMetadata) -> tuple[BrokerView, ...]:
        leads, replicas = self._spread_of(metadata)
        return tuple(self._broker_view(each, leads[each.id], replicas[each.id]) for each in brokers)

    def _spread_of(self, metadata: ClusterMetadata) -> tuple[Counter[int], Counter[int]]:
        """The number of partitions that each broker leads, and of those of which it has a replica."""
        if self._spread is None or self._spread[0] is not metadata:
            partitions = [each for topic in metadata.topics.values() for each in topic.partitions]
            leads = Counter(each.leader for each in partitions)
            replicas = Counter(broker for each in partitions for broker in each.replicas)
            self._spread = metadata, leads, replicas
        return self._spread[1:]

    def _broker_view(self, status: BrokerStatus, leads: int, replicas: int) -> BrokerView:
        now, before = self.brokers.get(status.id), self._before.get(status.id)
        load = now.load if now is not None else status.load
        return BrokerView(
            id=status.id,
            host=status.host,
            port=status.port,
            rack=status.rack,
            node_id=status.node_id,
            epoch=status.epoch,
            alive=status.alive,
            pid=status.pid,
            connections=load.connections if load else 0,
            leads=leads,
            replicas=replicas,
            requests_per_s=_rate(before, now, _requests),
            bytes_in_per_s=_rate(before, now, _bytes_in),
            bytes_out_per_s=_rate(before, now, _bytes_out),
            longest_turn_ms=load.longest_turn_ms if load else 0.0,
            parked=sum(now.parked.values()) if now is not None else 0,
            notes=tuple(leaving(status.removal, status.drained_until_ms)),
        )


def _identity(event: Event) -> tuple[int, str, str, str]:
    return event.wall_ms, event.kind, event.subject, event.text


def _moment(rebalance: RebalanceView) -> tuple[str, int, int]:
    return rebalance.group_id, rebalance.began_ms, rebalance.epoch


def _requests(seen: BrokerObserved) -> int:
    return seen.load.requests


def _bytes_in(seen: BrokerObserved) -> int:
    return sum(each.bytes_in for each in seen.topics)


def _bytes_out(seen: BrokerObserved) -> int:
    return sum(each.bytes_out for each in seen.topics)


def _rate(before: BrokerObserved | None, now: BrokerObserved | None, figure: _Figure) -> float | None:
    """The mean since the look before; None if that was of another run, or is not there."""
    if before is None or now is None or before.happenings.run != now.happenings.run or now.wall_ms <= before.wall_ms:
        return None
    return max(0, figure(now) - figure(before)) * 1000 / (now.wall_ms - before.wall_ms)


def _shard(broker_id: int, shard: ShardStatus) -> ShardView:
    figures = shard.figures
    return ShardView(
        partition=shard.partition,
        broker_id=broker_id,
        state=shard.state,
        pid=shard.pid,
        epoch=shard.epoch,
        groups=sum(figures.groups.values()) if figures else 0,
        offsets=figures.offsets if figures else 0,
        why=shard.why,
    )


def _phase(each: Rebalancing, wall_ms: int) -> Phase:
    left = None if each.phase_ends_ms is None else max(0, each.phase_ends_ms - wall_ms)
    return Phase(each.rebalance.state, each.awaited, left, each.awaited_count)
