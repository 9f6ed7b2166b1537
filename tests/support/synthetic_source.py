"""A cluster that does not exist answers the console, and moves with the clock that is handed in. Holds no tests."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from actors.links.operations import Operation, Result
from actors.links.views import (
    BrokerView,
    ClassicRebalanceView,
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
    LagPoint,
    ListGroupRows,
    ListTopicRows,
    MemberView,
    Overview,
    PartitionLag,
    PartitionView,
    Seen,
    ShardView,
    TopicRow,
    TopicRows,
    TopicView,
)
from actors.runtime.environment import REAL, Clock
from tests.support.synthetic_rebalances import rebalances
from tests.support.synthetic_world import GROUPS, HOSTS, HOUR, MINUTE, NODES, TOPICS, Made, client_id, member_id

R = TypeVar("R", bound=Result)


@dataclass
class SyntheticSource:
    """Answers views. `many` groups are there besides, and `wide` partitions in one more topic and group."""

    clock: Clock = field(default_factory=lambda: REAL.clock)
    many: int = 0
    wide: int = 0
    began_ms: int = 0
    killed_ms: int | None = None
    """The time at which a member of `billing` was killed; its page shows the rebalance."""
    asked: list[Operation[Any]] = field(default_factory=list)
    hostile: str = ""
    """A text that stands in names, client ids and reasons as well."""

    async def view(self, operation: Operation[R]) -> R:
        self.asked.append(operation)
        return cast(R, self._view(operation))

    def _view(self, operation: Operation[Any]) -> Result:
        now = self.clock.wall_ms()
        match operation:
            case GetOverview():
                return self._overview(now)
            case ListGroupRows():
                return GroupRows(now, tuple(sorted((self._row(each, now) for each in self._groups()), key=_group_id)))
            case GetGroup(group_id=name):
                return self._group(name, now)
            case GetGroupHistory(group_id=name, since_ms=since, until_ms=until, points=points):
                return self._history(name, since, until, points, now)
            case ListTopicRows():
                return TopicRows(now, tuple(self._topic(name) for name in sorted(self._topics())))
            case GetTopic(name=name):
                return self._one_topic(name, now)
            case GetSeen():
                return Seen(now - 3 * HOUR, 5000, now, 12, 0)
        raise AssertionError(operation)

    # --- the world --------------------------------------------------------------------------------------------------

    def _groups(self) -> list[Made]:
        found = list(GROUPS)
        found += [
            Made(f"team-{n // 40:02}.job-{n:04}", "Stable", "consumer", 3, ("orders",), (n * 7919) % 90_000, 40.0)
            for n in range(self.many)
        ]
        if self.wide:
            found.append(Made("wide", "Stable", "consumer", 50, ("wide",), 9_999_999, 5000.0))
        if self.hostile:
            found.append(Made(self.hostile, "Stable", "consumer", 1, (self.hostile,), 1, 1.0))
        return found

    def _topics(self) -> dict[str, tuple[int, int, int, int]]:
        found = dict(TOPICS) | {"__consumer_offsets": (50, 3, 71_220, 96)}
        if self.wide:
            found["wide"] = (self.wide, 1, 1_000_000, 100)
        if self.hostile:
            found[self.hostile] = (1, 1, 10, 10)
        return found

    def _made(self, name: str) -> Made | None:
        return next((each for each in self._groups() if each.name == name), None)

    def _lag(self, made: Made, at_ms: int) -> int:
        """A lag that swells and ebbs, and is the same for the same moment."""
        wave = math.sin(at_ms / 340_000 + len(made.name)) + 0.45 * math.sin(at_ms / 61_000 + 2 * len(made.name))
        noise = ((at_ms // 5000 * 2_654_435_761) % 1000) / 1000 - 0.5
        bump = 2.2 * math.exp(-(((at_ms - (self.now - 26 * MINUTE)) / (4 * MINUTE)) ** 2)) if made.rebalances else 0.0
        return max(0, round(made.lag * (1 + made.swing * (0.6 * wave + 0.25 * noise) + bump)))

    @property
    def now(self) -> int:
        return self.clock.wall_ms()

    # --- groups -----------------------------------------------------------------------------------------------------

    def _row(self, made: Made, now: int) -> GroupRow:
        lag = self._lag(made, now)
        partition = sum(made.name.encode()) % 50
        seconds = lag / made.rate if made.rate else (11_400.0 if lag else 0.0)
        state, members = made.state, made.members
        return GroupRow(
            made.name,
            state,
            "consumer" if made.kind != "simple" else "",
            made.kind,
            members,
            made.topics,
            partition % 3,
            partition,
            lag,
            round(seconds, 1),
            round(made.rate / 40, 2) if made.rate else 0.0,
            len(self._rebalances(made, now)),
            now - 26 * MINUTE if made.rebalances else None,
            tuple(self._lag(made, now - HOUR + n * 2 * MINUTE) for n in range(30)),
        )

    def _members(self, made: Made) -> tuple[MemberView, ...]:
        parts = [
            (topic, number) for topic in made.topics for number in range(self._topics().get(topic, (3, 0, 0, 0))[0])
        ]
        found = []
        for n in range(made.members):
            mine: dict[str, list[int]] = {}
            for topic, number in parts[n :: made.members]:
                mine.setdefault(topic, []).append(number)
            found.append(self._member(made, n, {topic: tuple(numbers) for topic, numbers in mine.items()}))
        return tuple(found)

    def _member(self, made: Made, n: int, assignment: dict[str, tuple[int, ...]]) -> MemberView:
        process = {
            "pool": f"pid {41_200 + n * 17} on node {NODES[n % 3][:6]}",
            "spark": f"executor {n + 1}, pid {52_010 + n} on node {NODES[n % 3][:6]}",
        }.get(made.kind, "")
        return MemberView(
            member_id(made, n), None, self.hostile or client_id(made, n), f"/{HOSTS[n % 3]}", assignment, process
        )

    def _group(self, name: str, now: int) -> GroupView:
        made = self._made(name)
        if made is None:
            return GroupView(now, None)
        row, members = self._row(made, now), self._members(made)
        waits = made.state == "PreparingRebalance"
        awaited = (members[1].member_id, members[3].member_id) if waits else ()
        ends = 21_400 - now % 18_000 if waits else None
        return GroupView(
            now,
            row,
            members,
            self._partitions(made, members, row.lag or 0, now),
            awaited,
            ends,
            self._rebalances(made, now),
        )

    def _partitions(self, made: Made, members: tuple[MemberView, ...], lag: int, now: int) -> tuple[PartitionLag, ...]:
        owner = {(t, p): m.member_id for m in members for t, numbers in m.assignment.items() for p in numbers}
        found = []
        names = [(topic, number) for topic in made.topics for number in range(self._topics()[topic][0])]
        weights = [1 + (n * 37 % 11) for n in range(len(names))]
        for n, (topic, number) in enumerate(names):
            end = self._topics()[topic][2] // self._topics()[topic][0] + (now - self.began_ms) // 400 % 100_000
            mine = lag * weights[n] // sum(weights)
            seconds = mine / made.rate * len(names) if made.rate else (11_400.0 if mine else 0.0)
            commit = now - (n * 731) % 9000 - 400 if made.rate else now - 3 * HOUR
            found.append(
                PartitionLag(
                    topic,
                    number,
                    end - mine,
                    end // 10,
                    end,
                    mine,
                    round(seconds, 1),
                    commit,
                    owner.get((topic, number)),
                )
            )
        return tuple(found)

    def _rebalances(self, made: Made, now: int) -> tuple[ClassicRebalanceView, ...]:
        found = rebalances(made, self.began_ms or now, now, self.killed_ms)
        if self.hostile:
            found = [replace(each, reason=self.hostile, client_id=self.hostile) for each in found]
        return tuple(found)

    def _history(self, name: str, since: int, until: int, points: int, now: int) -> GroupHistory:
        made = self._made(name)
        if made is None:
            return GroupHistory(name, (), ())
        step = max((until - since) // points, 5000)
        times = range((since // step + 1) * step, until + 1, step)
        rows = []
        for at in times:
            lag = self._lag(made, at)
            rows.append(LagPoint(at, lag, round(lag / made.rate, 1) if made.rate else None, at // 10))
        return GroupHistory(name, tuple(rows), tuple(r for r in self._rebalances(made, now) if r.began_ms >= since))

    # --- topics -----------------------------------------------------------------------------------------------------

    def _topic(self, name: str) -> TopicRow:
        partitions, replicas, records, size = self._topics()[name]
        readers = tuple(each.name for each in self._groups() if name in each.topics)
        rate = sum(each.rate for each in GROUPS if name in each.topics) or 31.0
        behind = 1 if name == "stock" else 0
        return TopicRow(
            name, partitions, replicas, records * size, records, behind, rate, readers[:20], name.startswith("__")
        )

    def _one_topic(self, name: str, now: int) -> TopicView:
        if name not in self._topics():
            return TopicView(now, None)
        count, replicas, records, size = self._topics()[name]
        found = []
        for n in range(count):
            brokers = tuple((n + k) % 3 for k in range(replicas))
            isr = brokers[:-1] if name == "stock" and n == 2 else brokers
            end = records // count + n * 911 % (records // count // 4 + 1)
            found.append(PartitionView(n, brokers[0], brokers, isr, end // 10, end, end * size, now - n * 350))
        configs = {"retention.ms": "604800000", "min.insync.replicas": "2"} if replicas > 1 else {}
        return TopicView(now, self._topic(name), tuple(found), configs)

    # --- the cluster ------------------------------------------------------------------------------------------------

    def _overview(self, now: int) -> Overview:
        beat = 1 + 0.08 * math.sin(now / 9_000)
        brokers = tuple(
            BrokerView(
                n,
                HOSTS[n],
                9092,
                f"rack-{'abc'[n]}",
                NODES[n],
                4 + n,
                True,
                23_110 + n * 7,
                14 + n * 3,
                52 - n * 3,
                140,
                round((820 + n * 140) * beat, 1),
                1_200_000 * beat * (1 + n / 4),
                3_900_000 * beat,
                4.2 + n * 3,
                9 + n,
            )
            for n in range(3)
        )
        groups: dict[str, int] = {}
        for each in self._groups():
            groups[each.state] = groups.get(each.state, 0) + 1
        lag = sum(self._lag(each, now) for each in GROUPS)
        topics = self._topics()
        partitions = sum(each[0] for each in topics.values())
        return Overview(
            "d2c6272975b64f1ca554b0",
            "shop",
            now,
            2,
            22_907,
            NODES[0],
            brokers,
            self._shards(),
            len(topics),
            partitions,
            groups,
            lag,
            8_740.0 * beat,
            212.0 * beat,
            self._events(now),
        )

    def _shards(self) -> tuple[ShardView, ...]:
        used = {sum(each.name.encode()) % 50: each for each in GROUPS}
        found = []
        for n in range(50):
            made = used.get(n)
            if made is not None and (made.members or made.kind == "simple"):
                found.append(ShardView(n, n % 3, "Active", 24_000 + n, 3, 1, 12, "asked 1 s ago"))
            elif n % 17 == 4:
                found.append(ShardView(n, n % 3, "Active", 24_000 + n, 3, 0, 0, "asked 9 s ago"))
            elif n == 31:
                found.append(ShardView(n, n % 3, "Loading", 24_031, 4, 0, 0, "a request waits"))
            else:
                found.append(ShardView(n, n % 3, "Sleeping", None, 3, 0, 0, "a request will wake it"))
        found += [ShardView(-1, n, "Spare", 25_000 + n, 0, 0, 0) for n in range(3)]
        return tuple(found)

    def _events(self, now: int) -> tuple[Event, ...]:
        base = self.began_ms or now
        rows = (
            (52, "start", "broker 1", "It serves again after a restart: 46 logs recovered in 0.8 s."),
            (51, "election", "orders-3", "Broker 1 leads again, which is the first of its replicas."),
            (
                26,
                "expelled",
                "group billing",
                "A member on 10.0.0.12 sent no heartbeat for 45 s; its partitions have other owners.",
            ),
            (18, "death", "broker 2", "Its process 23090 ended by signal 9; 48 partitions were led by it."),
            (
                18,
                "election",
                "48 partitions",
                "Others of their in-sync replicas lead them since: 24 by broker 0, 24 by broker 1.",
            ),
            (
                17,
                "start",
                "broker 2",
                "A new process, 23124, was started on node 07c5d2e8 and has registered in 1.3 s.",
            ),
            (9, "isr", "stock-2", "Broker 1 fell out of the in-sync set: it is 4 100 records behind."),
            (3, "wake", "__consumer_offsets-31", "A request for the group shipping woke it; it was loaded in 31 ms."),
            (1, "sleep", "__consumer_offsets-12", "Its process ended: nothing was asked of it for 5 min."),
        )
        return tuple(
            Event(n, base - minutes * MINUTE, kind, self.hostile or subject, text)
            for n, (minutes, kind, subject, text) in enumerate(rows)
        )


def _group_id(row: GroupRow) -> str:
    return row.group_id
