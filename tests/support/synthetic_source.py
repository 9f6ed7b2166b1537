"""A cluster that does not exist, for the console: everything it can show, moving with the clock that is handed in."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from actors.client.admin.offset_plans import Log, to_earliest, to_latest
from actors.client.records import ConsumerRecord, TopicPartition
from actors.console.desk import DeskError, LoggedOutError, Preview, Records, Rights, Wish
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
    Waited,
)
from actors.runtime.environment import REAL, Clock

R = TypeVar("R", bound=Result)

NODES = ("3f2a9c41d07be55a", "b81e04f6aa2c9913", "07c5d2e8814fbb60")
HOSTS = ("10.0.0.11", "10.0.0.12", "10.0.0.13")
MINUTE = 60_000
HOUR = 60 * MINUTE


@dataclass(frozen=True)
class Made:
    """A group that is made up."""

    name: str
    state: str
    kind: str
    members: int
    topics: tuple[str, ...]
    lag: int
    rate: float
    """Records in a second, from which the lag in seconds follows."""
    swing: float = 0.3
    rebalances: int = 0


GROUPS = (
    Made("billing", "Stable", "consumer", 4, ("orders", "payments"), 18_420, 210.0, 0.6, 3),
    Made("shipping", "PreparingRebalance", "pool", 5, ("orders",), 3_180, 160.0, 0.5, 4),
    Made("archive", "Stable", "spark", 3, ("orders", "payments", "clicks"), 96_300, 1400.0, 0.8, 1),
    Made("fraud-scores", "Stable", "pool", 8, ("payments",), 42, 310.0, 0.9, 0),
    Made("recommendations", "Stable", "pool", 6, ("clicks",), 1_260_400, 2300.0, 0.2, 2),
    Made("search-index", "Stable", "consumer", 2, ("products",), 0, 12.0, 0.0, 0),
    Made("emails", "Stable", "consumer", 3, ("orders",), 15, 80.0, 0.7, 1),
    Made("warehouse-sync", "CompletingRebalance", "consumer", 2, ("stock",), 730, 25.0, 0.4, 6),
    Made("nightly-report", "Empty", "spark", 0, ("payments",), 512_000, 0.0, 0.1, 0),
    Made("audit", "Empty", "simple", 0, ("logins",), 88, 0.0, 0.0, 0),
    Made("experiments", "Empty", "consumer", 0, ("clicks",), 4_020_113, 0.0, 0.05, 0),
    Made("gps-smoothing", "Stable", "pool", 12, ("positions",), 5_900, 4200.0, 0.5, 1),
)
TOPICS = {
    "clicks": (24, 3, 48_200_114, 230),
    "logins": (3, 3, 901_233, 140),
    "orders": (6, 3, 2_812_007, 410),
    "payments": (6, 3, 1_904_551, 350),
    "positions": (48, 1, 310_882_910, 96),
    "products": (3, 3, 88_120, 1800),
    "stock": (4, 3, 402_913, 220),
}
"""Partitions, replicas, records and bytes of a record."""


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
            _member_id(made, n), None, self.hostile or _client(made, n), f"/{HOSTS[n % 3]}", assignment, process
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
        base = self.began_ms or now
        found = []
        if made.rebalances:
            found += [
                ClassicRebalanceView(
                    made.name,
                    base - 52 * MINUTE,
                    11,
                    "a member joined",
                    _member_id(made, 0),
                    _client(made, 0),
                    "/10.0.0.11",
                    base - 52 * MINUTE + 3_020,
                    base - 52 * MINUTE + 3_190,
                    3,
                    came=tuple(_member_id(made, n) for n in range(3)),
                    waited=(Waited(_member_id(made, 2), "join", 2_980, _client(made, 2), "/10.0.0.13"),),
                ),
                ClassicRebalanceView(
                    made.name,
                    base - 26 * MINUTE,
                    12,
                    "a session ended: no heartbeat for 45 s",
                    _member_id(made, 21),
                    _client(made, 21),
                    "/10.0.0.12",
                    base - 26 * MINUTE + 8_400,
                    base - 26 * MINUTE + 9_020,
                    3,
                    expelled=(_member_id(made, 21),),
                    waited=(
                        Waited(_member_id(made, 1), "join", 8_350, _client(made, 1), "/10.0.0.12"),
                        Waited(_member_id(made, 0), "join", 1_200, _client(made, 0), "/10.0.0.11"),
                    ),
                ),
                ClassicRebalanceView(
                    made.name,
                    base - 19 * MINUTE,
                    13,
                    "a member joined",
                    _member_id(made, 3),
                    _client(made, 3),
                    "/10.0.0.11",
                    base - 19 * MINUTE + 1_450,
                    base - 19 * MINUTE + 1_700,
                    4,
                    came=(_member_id(made, 3),),
                    left=(),
                    waited=(Waited(_member_id(made, 0), "join", 1_410, _client(made, 0), "/10.0.0.11"),),
                ),
            ]
        if made.rebalances > 3:
            found.append(
                ClassicRebalanceView(
                    made.name,
                    base - 4 * MINUTE,
                    14,
                    "a member left",
                    _member_id(made, 22),
                    _client(made, 22),
                    "/10.0.0.13",
                    base - 4 * MINUTE + 700,
                    base - 4 * MINUTE + 910,
                    4,
                    left=(_member_id(made, 22),),
                )
            )
        if made.state == "PreparingRebalance":
            found.append(
                ClassicRebalanceView(
                    made.name,
                    now - 8_000 - now % 18_000,
                    15,
                    "a member joined",
                    _member_id(made, 4),
                    _client(made, 4),
                    "/10.0.0.12",
                    waited=(
                        Waited(_member_id(made, 1), "join", 8_000 + now % 18_000, _client(made, 1), "/10.0.0.12"),
                        Waited(_member_id(made, 3), "join", 8_000 + now % 18_000, _client(made, 3), "/10.0.0.11"),
                    ),
                    members=5,
                    came=(_member_id(made, 4),),
                )
            )
        if self.killed_ms is not None and made.name == "billing":
            found.append(
                ClassicRebalanceView(
                    made.name,
                    self.killed_ms,
                    14,
                    "a session ended: no heartbeat for 45 s",
                    "killed-77e1",
                    "billing-api",
                    "/10.0.0.13",
                    self.killed_ms + 2_100,
                    self.killed_ms + 2_300,
                    3,
                    expelled=("killed-77e1",),
                )
            )
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


def _member_id(made: Made, n: int) -> str:
    return f"{_client(made, n)}-{(n * 0x9E3779B1 + 0x3F21C07A) % 2**32:08x}-1a41-441d-831e-85f266afbc{n:02x}"


def _client(made: Made, n: int) -> str:
    return {"pool": f"{made.name}-{n}", "spark": f"spark-{made.name}-{n}"}.get(made.kind, f"{made.name}-api")


@dataclass
class SyntheticDesk:
    """Records and resets of that cluster. `moved` keeps the offsets that were reset."""

    may: Rights = field(default_factory=Rights)
    settings: bool = True
    """True if the owner may describe settings."""
    logged_out: bool = False
    moved: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    active: tuple[str, ...] = ("billing",)
    closed: bool = False
    value: bytes | None = None
    now_ms: int = 1_769_867_100_000
    """The time of the last records."""

    async def rights(self) -> Rights:
        if self.logged_out:
            raise LoggedOutError("The brokers do not know you any more: please log in again.")
        return self.may

    async def sees_settings(self, topic: str) -> bool:
        return self.settings

    async def records(self, partition: TopicPartition, start: int | None, count: int) -> Records:
        if partition.partition > 47:
            raise DeskError(f"there is no partition {partition.topic}-{partition.partition}")
        log = Log(46_866, 468_667)
        first = max(log.latest - count if start is None else start, log.earliest)
        return Records(log, tuple(self._record(partition, at) for at in range(first, min(first + count, log.latest))))

    def _record(self, tp: TopicPartition, offset: int) -> ConsumerRecord:
        order = {"order": offset, "customer": f"customer-{offset % 97}", "items": [{"sku": f"K-{offset % 31}", "n": 2}]}
        values = (
            json.dumps(order).encode(),
            f"order {offset} shipped".encode(),
            bytes([0, 255, 17, 34]) * 9,
            None,
        )
        value = self.value if self.value is not None else values[(0, 0, 1, 0, 2, 0, 1, 3)[offset % 8]]
        headers = [("trace", b"4bf92f3577b34da6")] if offset % 3 == 0 else []
        key = f"customer-{offset % 97}".encode()
        return ConsumerRecord(
            tp.topic, tp.partition, 3, offset, self.now_ms - (468_668 - offset) * 350, 0, key, value, headers, 10, 10
        )

    async def preview(self, wish: Wish) -> Preview:
        topics = wish.topics or next(each.topics for each in GROUPS if each.name == wish.group_id)
        logs = {
            TopicPartition(topic, n): Log(100 * n, 5000 + 100 * n) for topic in topics for n in range(TOPICS[topic][0])
        }
        committed = {tp: log.latest - 1200 for tp, log in logs.items()}
        if wish.aim == "time" and "T" not in wish.value:
            raise DeskError(f"{wish.value!r} is not a time such as 2026-01-31T13:45:00.000")
        plan = to_latest(logs) if wish.aim == "latest" else to_earliest(logs)
        refusal = f"{wish.group_id} has members. Stop them first." if wish.group_id in self.active else ""
        return Preview(wish, plan.offsets, committed, logs, (), refusal)

    async def reset(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        self.moved[group_id] = offsets

    async def close(self) -> None:
        self.closed = True
