"""The scenario of a seed: the settings of the cluster, its groups, and the faults that it has to survive."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from tests.sim.engine import SECOND

GROWING, COMES_AND_GOES = "u", "v"
"""Topics that only some groups subscribe to, beside the one that is always there."""


class Speaks(Enum):
    """The group protocol that a member speaks."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    EITHER = "each time that it starts the other one"


class Wish(NamedTuple):
    """The subscription of a group's members: `topics`, by name, or by an expression that matches these."""

    topics: frozenset[str] = frozenset({"t"})
    expression: str = ""

    @property
    def lasting(self) -> frozenset[str]:
        """Those that are never deleted."""
        return self.topics - {COMES_AND_GOES}


WISHES = (
    Wish(),
    Wish(frozenset({"t", GROWING})),
    Wish(frozenset({"t", COMES_AND_GOES}), f"t|{COMES_AND_GOES}"),
)


Plan = tuple[str, str, tuple[str | None, ...]]
"""A group's name, the assignor of its classic members, and of each member the group.instance.id (None: dynamic)."""


class Group(NamedTuple):
    """A group: the assignor of its classic members, and of each member the group.instance.id (None: it is dynamic)."""

    name: str
    assignor: str
    instances: tuple[str | None, ...]
    speak: tuple[Speaks, ...]
    wish: Wish = Wish()

    @property
    def is_mixed(self) -> bool:
        """True if some of its members may speak the consumer protocol."""
        return any(each is not Speaks.CLASSIC for each in self.speak)


LODGER = Group("lodger", "range", (None,), (Speaks.CONSUMER,))
"""A group that has a member now and then. In a cluster of three offsets partitions, no group with other members shares
its partition."""

LEASE_MS = 2_000
ALONE_MS = 3_000
"""The time for which a broker without a controller serves, where nodes are lost."""
REFILL_RATE = 8_000
"""Bytes a second to followers out of sync, where nodes are lost."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`replicas` and `min_insync` are the promise; the faults stay within it."""

    name: str
    replicas: int = 3
    min_insync: int = 2
    flush_messages: int | None = None
    machines_crash: bool = True
    """One machine at a time, unless every record is flushed."""
    disks_fail: bool = False
    compact: bool = False
    moves: bool = False
    starved: bool = False
    """Before the faults, all processes get hardly any CPU for a while."""
    sleeps: bool = False
    """Shards that nobody asks for a moment go to sleep; there are groups without members for that."""
    guests: bool = False
    """Something lives beside the logs of the topic that clients use."""
    loses_nodes: bool = False
    """Nodes are lost for good, or so it seems, and brokers are replaced by themselves."""
    removes_brokers: bool = False
    """Brokers are removed and added: there are four at first, and at most."""
    drains_nodes: bool = False
    """Ray nodes are drained, and some of that is taken back."""
    commits_late: bool = False
    """Changes of the metadata commit a while after they were decided, as on several nodes."""
    one_voter: bool = False
    """The controller's log is that of a quorum, whose one voter it is."""
    raises: bool = False
    """It becomes that when the controller starts for the second time, and raises the level."""
    controllers: int = 1
    """So many of them keep the metadata's log together. With several, that is how changes commit late."""
    loses_power: bool = False
    """Machines lose their power again and again: one at a time, or several where everything is flushed."""
    starts_twice: bool = False
    """A second process of each broker waits for its files, and begins anew as soon as the first one has ended."""
    faults_us: int = 10 * SECOND
    groups: tuple[Group, ...] = field(default_factory=tuple)
    lodger: bool = False
    """A group has a member of the consumer protocol now and then."""
    migration: str = "bidirectional"
    interval_ms: int = 1_000
    """Between two computations of a consumer group's target."""

    def settings(self) -> dict[str, str]:
        """The settings of brokers and controller: Kafka's names, shorter times."""
        made = {
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": LEASE_MS,
            "coterie.shard.silence.ms": 1_000,
            "coterie.spare.shards": 1,
            "default.replication.factor": self.replicas,
            "group.initial.rebalance.delay.ms": 200,
            "group.min.session.timeout.ms": 1_000,
            "leader.imbalance.check.interval.seconds": 4,
            "min.insync.replicas": self.min_insync,
            "num.partitions": 3,
            "offsets.commit.timeout.ms": 2_000,
            "offsets.topic.num.partitions": 2,
            "offsets.topic.replication.factor": self.replicas,
            "replica.lag.time.max.ms": 1_500,
            "internal.segment.bytes": 4_000,
            "log.cleaner.enable": "true" if self.compact else "false",
        }
        if self.compact:  # often, and loaded in several pieces a segment, as logs are that have not shrunk to one batch
            made |= {
                "log.cleaner.backoff.ms": 300,
                "log.cleaner.min.cleanable.ratio": 0.01,
                "log.flush.scheduler.interval.ms": 100,
                "message.max.bytes": 4_000 if self.has_consumers else 800,  # an upgrade is one append
                "offsets.load.buffer.size": 100,
            }
        if self.has_consumers:
            made |= {
                "group.consumer.session.timeout.ms": 3_000,
                "group.consumer.min.session.timeout.ms": 1_000,
                "group.consumer.heartbeat.interval.ms": 500,
                "group.consumer.min.heartbeat.interval.ms": 500,
                "group.consumer.assignment.interval.ms": self.interval_ms,
                "group.consumer.migration.policy": self.migration,
                "group.consumer.regex.refresh.interval.ms": 10_000,
            }
        made["coterie.shard.idle.ms"] = 300 if self.sleeps else 0
        if self.sleeps:
            made["offsets.topic.num.partitions"] = 3  # so that one has no group with members
        made["offsets.topic.segment.bytes"] = 1_000 if self.compact else 60_000
        if self.loses_nodes:
            made |= {"coterie.broker.isolated.ms": ALONE_MS, "coterie.broker.replace.after.ms": ALONE_MS + 500}
            made["leader.replication.throttled.rate"] = REFILL_RATE
        if self.loses_power:
            made["internal.segment.bytes"] = 400
            made["offsets.topic.segment.bytes"] = 1_000
        if self.flush_messages is not None:
            made["log.flush.interval.messages"] = self.flush_messages
        return {key: str(value) for key, value in made.items()}

    @property
    def has_consumers(self) -> bool:
        """True if some group has members of the consumer protocol."""
        return self.lodger or any(group.is_mixed for group in self.groups)

    @property
    def changes_topics(self) -> bool:
        return any(group.wish != Wish() for group in self.groups)

    @property
    def flushes(self) -> bool:
        return self.flush_messages == 1


def started_twice(scenario: Scenario) -> Scenario:
    """The same with a second process of each broker. Partitions have one replica, and the metadata commits late."""
    alone = replace(scenario, name="started twice", replicas=1, min_insync=1, machines_crash=False, disks_fail=False)
    return replace(alone, flush_messages=None, commits_late=True, starts_twice=True)


def power_lost(scenario: Scenario) -> Scenario:
    """The same with machines that lose their power, and small segments. Topics with one replica are flushed."""
    lost = replace(scenario, name="power lost", machines_crash=True, disks_fail=False, loses_power=True)
    return lost if scenario.replicas > 1 else replace(lost, flush_messages=1)


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed. It has a random generator of its own, so that the run's is not touched."""
    chance = random.Random(f"scenario {seed}")
    # A static member that dies between the two rebalances of a cooperative hand-over gets its place back without the
    # second, so a partition stays nobody's until the next. Kafka's protocol has it so; here it would be no progress.
    assignor, instance = chance.choice((("range", "static"), ("range", None), ("cooperative-sticky", None)))
    plans: tuple[Plan, ...] = (("g", assignor, (None, None, instance)),)
    if chance.random() < 0.3:
        plans += (("h", "sticky", (None, None)),)
    compact = chance.random() < 0.2
    kind, moves = chance.random(), chance.random() < 0.4
    sleeps = chance.random() < 0.3
    common: dict[str, Any] = {"moves": moves, "starved": seed % 8 in (2, 6), "sleeps": sleeps}
    common |= _protocols(seed, plans, sleeps=sleeps)
    common["commits_late"] = chance.random() < 0.25
    log = random.Random(f"log {seed}")
    common["one_voter"] = log.random() < 0.5
    common["raises"] = common["one_voter"] and log.random() < 0.5
    if kind < 0.60:
        return Scenario("replicated", compact=compact, **common)
    if kind < 0.75:
        return Scenario("replicated, disks fail", disks_fail=True, machines_crash=False, **common)
    if kind < 0.90:
        return Scenario("flushed", flush_messages=1, **common)
    return Scenario("one replica", replicas=1, min_insync=1, machines_crash=False, compact=compact, **common)


def _protocols(seed: int, plans: tuple[Plan, ...], *, sleeps: bool) -> dict[str, Any]:
    """The groups with the protocols of their members: in three of five seeds all are classic. It draws from a random
    generator of its own."""
    if seed % 5 not in (0, 4):
        return {"groups": tuple(Group(*plan, tuple(Speaks.CLASSIC for _ in plan[2])) for plan in plans)}
    chance = random.Random(f"protocols {seed}")
    groups = []
    for name, assignor, instances in plans:
        speaks = chance.choice(((Speaks.CONSUMER,), (Speaks.CLASSIC, Speaks.EITHER, Speaks.EITHER), tuple(Speaks)))
        speak = tuple(chance.choice(speaks) for _ in instances)
        groups.append(Group(name, assignor, instances, speak, chance.choice(WISHES)))
    return {
        "groups": tuple(groups),
        "lodger": sleeps,
        "migration": chance.choice(("bidirectional", "bidirectional", "upgrade")),
        "interval_ms": chance.choice((0, 300, 1_000)),
    }
