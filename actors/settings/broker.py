"""The table of broker settings: Kafka's keys with their defaults, and Coterie's own. topic.py has those of topics."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from actors.settings.assignors import CHOICES, wrong_assignors
from actors.settings.authorization import AUTHORIZATION
from actors.settings.kinds import MAX_INT, MAX_LONG, Setting, SettingType
from actors.settings.limits import LIMITS
from actors.settings.ports import PORTS
from actors.settings.security import LISTENER_SETTINGS, SECURITY_SETTINGS

SECTIONS: Final = {
    "Groups": "Membership and rebalances of classic groups.",
    "Groups, new protocol": "Membership and rebalances of groups of the consumer protocol (KIP-848).",
    "Offsets": "The `__consumer_offsets` topic and what is kept in it.",
    "Connections": "Addresses for clients, and limits for each of them.",
    "Security": "Clients' identities and rights, and the protection of their connections.",
    "Topics": "The creation of topics, and their leaders.",
    "Log": "Segments, retention and compaction; defaults of the topic settings of the same meaning.",
    "Cluster": "A broker's identity, and its death.",
    "Coterie": "Settings Kafka does not have.",
}
MAX_DECOMPRESSED: Final = 2**31 - 9
"""Kafka's constant for the longest array there is."""

COMPRESSIONS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def _not_empty(values: tuple[str, ...]) -> str | None:
    return None if values else "must name at least one"


def _absolute(path: str | None) -> str | None:
    return None if path is None or path.startswith("/") else "must be an absolute path, the same on each node"


def _classic(values: tuple[str, ...]) -> str | None:
    return None if "classic" in values else "must include classic"


def _int(name: str, default: int | None, low: int | None, doc: str, **more: Any) -> Setting:
    nullable = default is None
    return Setting(name=name, type=SettingType.INT, default=default, low=low, doc=doc, nullable=nullable, **more)


def _long(name: str, default: int | None, low: int | None, doc: str, **more: Any) -> Setting:
    nullable = default is None
    return Setting(name=name, type=SettingType.LONG, default=default, low=low, doc=doc, nullable=nullable, **more)


def _bool(name: str, default: bool, doc: str, **more: Any) -> Setting:
    return Setting(name=name, type=SettingType.BOOLEAN, default=default, doc=doc, **more)


def _text(name: str, default: str | None, doc: str, **more: Any) -> Setting:
    nullable = default is None
    return Setting(name=name, type=SettingType.STRING, default=default, doc=doc, nullable=nullable, **more)


def _list(name: str, default: tuple[str, ...] | None, doc: str, **more: Any) -> Setting:
    nullable = default is None
    return Setting(name=name, type=SettingType.LIST, default=default, doc=doc, nullable=nullable, **more)


_GROUPS: Final = (
    _int(
        "group.initial.rebalance.delay.ms",
        3000,
        None,
        "The time that the first rebalance of an empty group waits for more members; 0 suits tests. It ends earlier "
        "when as many have joined as a pool or a Spark job has announced.",
    ),
    _int("group.min.session.timeout.ms", 6000, None, "Shortest session timeout a member may ask for."),
    _int("group.max.session.timeout.ms", 1_800_000, None, "Longest session timeout a member may ask for."),
    _int("group.max.size", MAX_INT, 1, "Most members a group may have; joins beyond it are refused."),
    _int("group.coordinator.threads", 1, 1, "Without effect: each offsets partition in use has a process."),
    _int(
        "group.coordinator.append.linger.ms",
        -1,
        -1,
        "Longest time a coordinator gathers records for one append; -1: no longer than it has requests to handle. "
        "Whatever is set, Coterie gathers those of one turn of its loop.",
    ),
    _list(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer"),
        "Rebalance protocols allowed; what is served is what ApiVersions says.",
        choices=("classic", "consumer", "share", "streams"),
        check=_classic,
    ),
)

_NEW_GROUPS: Final = (
    _int("group.consumer.session.timeout.ms", 45_000, 1, "Session timeout of members."),
    _int("group.consumer.min.session.timeout.ms", 45_000, 1, "Shortest session timeout a group may be given."),
    _int("group.consumer.max.session.timeout.ms", 60_000, 1, "Longest session timeout a group may be given."),
    _int("group.consumer.heartbeat.interval.ms", 5000, 1, "Heartbeat interval members are told."),
    _int("group.consumer.min.heartbeat.interval.ms", 5000, 1, "Shortest heartbeat interval a group may be given."),
    _int("group.consumer.max.heartbeat.interval.ms", 15_000, 1, "Longest heartbeat interval a group may be given."),
    _int(
        "group.consumer.assignment.interval.ms",
        1000,
        0,
        "Shortest interval between two assignments of a group; 0: at each change.",
        dynamic=True,
    ),
    _int("group.consumer.min.assignment.interval.ms", 0, 0, "Shortest assignment interval a group may be given."),
    _int("group.consumer.max.assignment.interval.ms", 15_000, 0, "Longest assignment interval a group may be given."),
    _int(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        10_000,
        "Greatest age of the topics that a group's regular expressions were found to match.",
        internal=True,
    ),
    _int("group.consumer.max.size", MAX_INT, 1, "Most members a group may have."),
    _list(
        "group.consumer.assignors",
        ("uniform", "range"),
        "Server-side assignors, by their names or Kafka's classes, the first being the default.",
        choices=CHOICES,
        check=wrong_assignors,
    ),
    _text(
        "group.consumer.migration.policy",
        "bidirectional",
        "The direction in which a group may change its protocol while it runs.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
        ignores_case=True,
    ),
    _bool(
        "coterie.group.consumer.rack.affinity",
        False,
        "If true, the assignor `uniform` prefers, among equally balanced and equally sticky targets, one in which more "
        "partitions have their leader in their member's rack (`client.rack`). Kafka's assignors know no racks.",
    ),
)

_OFFSETS: Final = (
    _int("offsets.topic.num.partitions", 50, 1, "Partitions of the offsets topic; fixed once it exists."),
    Setting(
        name="offsets.topic.replication.factor",
        type=SettingType.SHORT,
        default=3,
        low=1,
        doc="Replicas of the offsets topic; with fewer brokers alive it is not created and no group finds a "
        "coordinator.",
    ),
    _int("offsets.topic.segment.bytes", 104_857_600, 1, "Segment size of the offsets topic."),
    _int(
        "offsets.topic.compression.codec",
        0,
        0,
        "Compression of what coordinators write: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd. A batch that would become "
        "longer stays uncompressed.",
        high=4,
    ),
    _int(
        "offsets.retention.minutes",
        10_080,
        1,
        "The time for which the offsets of an empty group, or of topics a group no longer reads, are kept.",
    ),
    _long("offsets.retention.check.interval.ms", 600_000, 1, "Interval at which expired offsets are looked for."),
    _int("offset.metadata.max.bytes", 4096, None, "Longest metadata string of a commit, counted in characters."),
    _int(
        "offsets.commit.timeout.ms",
        5000,
        1,
        "The longest that a coordinator's write may take; after it the request is answered COORDINATOR_NOT_AVAILABLE.",
    ),
    _int("offsets.load.buffer.size", 5_242_880, 1, "Bytes read at a time while a coordinator loads its log."),
)

_CONNECTIONS: Final = (
    *LISTENER_SETTINGS,
    _int("socket.request.max.bytes", 104_857_600, 1, "Longest request; a longer one closes its connection."),
    _int(
        "socket.listen.backlog.size",
        1024,
        1,
        "Connections the operating system may keep waiting to be accepted (Kafka's default is 50).",
    ),
    *LIMITS,
    _long("connections.max.idle.ms", 600_000, None, "Idle connections are closed after this; negative means never."),
    _int("fetch.max.bytes", 57_671_680, 1024, "Most bytes one fetch is answered with."),
    _int(
        "max.incremental.fetch.session.cache.slots",
        0,
        0,
        "Incremental fetch sessions kept. Coterie grants none yet, whatever the value (Kafka's default is 1000); "
        "clients send full fetch requests.",
    ),
)

_TOPICS: Final = (
    _bool("auto.create.topics.enable", True, "If true, asking for a topic that does not exist creates it."),
    _bool("delete.topic.enable", True, "If true, topics may be deleted."),
    _int("num.partitions", 1, 1, "Partitions of a topic created without a number."),
    _int("default.replication.factor", 1, 1, "Replicas of a topic created without a number."),
    _long(
        "leader.replication.throttled.rate",
        MAX_LONG,
        0,
        "Bytes a second that a broker sends to followers out of sync, to all of them together: what a broker that was "
        "replaced or added takes from the others. Followers in sync are not slowed.",
        dynamic=True,
        internal=True,
    ),
    _int("min.insync.replicas", 1, 1, "In-sync replicas a write with acks=all needs.", dynamic=True),
    _bool(
        "unclean.leader.election.enable",
        False,
        "If true, a replica that is not in sync may lead when no other can: records may be lost.",
        dynamic=True,
    ),
    _bool("auto.leader.rebalance.enable", True, "If true, leadership goes back to preferred replicas by itself."),
    _long("leader.imbalance.check.interval.seconds", 300, 1, "Interval at which the controller checks who leads."),
    _int(
        "leader.imbalance.per.broker.percentage",
        10,
        0,
        "Leadership goes back to a broker if others lead more than this percentage of the partitions whose preferred "
        "replica it is.",
    ),
    _long("replica.lag.time.max.ms", 30_000, 1, "A follower that is behind for this long leaves the in-sync set."),
)

_LOG: Final = (
    _list(
        "log.cleanup.policy",
        ("delete",),
        "The treatment of old segments: delete by time and size, compact by key, or both. Empty: all records stay "
        "until DeleteRecords.",
        choices=("delete", "compact"),
        dynamic=True,
    ),
    _int(
        "log.segment.bytes",
        1 << 30,
        1 << 20,
        "Size at which a new segment is begun.",
        low_before=14,
        dynamic=True,
    ),
    _int(
        "internal.segment.bytes",
        None,
        None,
        "Takes the place of segment.bytes, for tests with small segments. Kafka has it for topics alone.",
        internal=True,
    ),
    _long("log.roll.ms", None, 1, "Age at which a new segment is begun; log.roll.hours if unset.", dynamic=True),
    _int("log.roll.hours", 168, 1, "Age at which a new segment is begun, in hours."),
    _long(
        "log.roll.jitter.ms",
        None,
        0,
        "A segment is ended up to this much before log.roll.ms, at random; log.roll.jitter.hours if unset.",
        dynamic=True,
    ),
    _int("log.roll.jitter.hours", 0, 0, "As log.roll.jitter.ms, in hours."),
    _long("log.retention.ms", None, -1, "Age above which segments are deleted; -1 keeps them.", dynamic=True),
    _int("log.retention.minutes", None, -1, "As log.retention.ms, in minutes; counts if that is unset."),
    _int("log.retention.hours", 168, -1, "As log.retention.ms, in hours; counts if both are unset."),
    _long(
        "log.retention.bytes",
        -1,
        None,
        "Size above which a partition's oldest segments are deleted; -1: no limit.",
        dynamic=True,
    ),
    _long("log.retention.check.interval.ms", 300_000, 1, "Interval at which segments to delete are looked for."),
    _long("log.segment.delete.delay.ms", 60_000, 0, "The time for which a deleted segment's files stay.", dynamic=True),
    _int("log.index.interval.bytes", 4096, 0, "Bytes of log between two entries of its index.", dynamic=True),
    _int("log.index.size.max.bytes", 10_485_760, 4, "Size of an index at which a segment ends.", dynamic=True),
    _long("log.flush.interval.messages", MAX_LONG, 1, "Records after which a log is flushed to disk.", dynamic=True),
    _long("log.flush.interval.ms", None, 0, "Longest time a record waits to be flushed.", dynamic=True),
    _long("log.flush.scheduler.interval.ms", MAX_LONG, 1, "Interval of looks for logs to flush; at least every 2 s."),
    _text(
        "compression.type",
        "producer",
        "Codec batches are kept in; `producer` keeps them as they came.",
        choices=COMPRESSIONS,
        dynamic=True,
    ),
    _int(
        "max.decompressed.message.bytes",
        MAX_DECOMPRESSED,
        1,
        "Largest record in a compressed batch, when it is decompressed. The size of all records of a batch is "
        "bounded by message.max.bytes, too: see protocol.md.",
        high=MAX_DECOMPRESSED,
        dynamic=True,
    ),
    _int("message.max.bytes", 1_048_588, 0, "Largest record batch.", dynamic=True),
    _text(
        "log.message.timestamp.type",
        "CreateTime",
        "The clock of a record's timestamp: its producer's or the broker's.",
        choices=("CreateTime", "LogAppendTime"),
        dynamic=True,
    ),
    _long(
        "log.message.timestamp.before.max.ms",
        MAX_LONG,
        0,
        "The most that a record's CreateTime may lie behind the broker's clock.",
        dynamic=True,
    ),
    _long(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        0,
        "The most that a record's CreateTime may lie ahead of the broker's clock.",
        dynamic=True,
    ),
    _bool("log.cleaner.enable", True, "If true, compacted topics are compacted."),
    _long("log.cleaner.backoff.ms", 15_000, 0, "The cleaner's rest when there is nothing to do.", dynamic=True),
    Setting(
        name="log.cleaner.min.cleanable.ratio",
        type=SettingType.DOUBLE,
        default=0.5,
        low=0,
        high=1,
        doc="Share of a log that must be uncompacted before it is compacted.",
        dynamic=True,
    ),
    _long(
        "log.cleaner.delete.retention.ms",
        86_400_000,
        0,
        "The time for which compaction keeps tombstones, so that readers see them.",
        dynamic=True,
    ),
    _long("log.cleaner.min.compaction.lag.ms", 0, 0, "Younger records are not compacted.", dynamic=True),
    _long(
        "log.cleaner.max.compaction.lag.ms",
        MAX_LONG,
        1,
        "Age of the oldest uncompacted record at which a log is compacted whatever its ratio.",
        dynamic=True,
    ),
    _int(
        "producer.id.expiration.ms",
        86_400_000,
        1,
        "The time for which a broker remembers an idempotent producer that sends nothing.",
        dynamic=True,
    ),
)

_CLUSTER: Final = (
    _text(
        "broker.rack",
        None,
        "The rack of the brokers whose Ray node has no label that says one (`coterie.io/rack`, or else "
        "`ray.io/availability-zone`); replicas of a partition are spread over racks.",
    ),
    _text(
        "coterie.secret.file",
        None,
        "A file on each Ray node with what controller and brokers prove to each other, 64 hexadecimal digits. "
        "Unset: `DATA_DIR/secret`, which the first start makes; a node where it is not gets the secret through Ray if "
        "Ray asks for a token and no connection is in TLS.",
        check=_absolute,
    ),
    _int("broker.session.timeout.ms", 6000, 1000, "The controller's lease: a broker silent for this long is dead."),
    _int(
        "broker.heartbeat.interval.ms",
        1000,
        1,
        "Time between two signs of life of a broker, in steps of 250 ms, and at most a quarter of "
        "broker.session.timeout.ms. Kafka: 2000, for a session of 9 s.",
    ),
)

_OWN: Final = (
    _text(
        "coterie.actor.start",
        "fork",
        "The start of an embedded Ray's processes: `fork` forks them from a process that has imported what they "
        "need; where that is not possible they start plainly, and `logs/starts.log` says why. `plain` starts each from "
        "nothing. A Ray that runs already starts processes in its own way.",
        choices=("fork", "plain"),
    ),
    _int(
        "coterie.process.niceness",
        -5,
        -20,
        "The niceness that controller, brokers and shards ask for, each in a session of its own, so that they do not "
        "wait behind others of a machine that is full. 0: they stay as they are started, as they do without the right "
        "to it: then `coterie status` says so, and `coterie doctor` what to type.",
        high=0,
    ),
    _text(
        "coterie.log.format",
        "text",
        "The form of the logs of controller, brokers and shards: `text` for people, `json` with an object a line, "
        "which `coterie up --log-format json` sets.",
        choices=("text", "json"),
    ),
    _int(
        "coterie.audit.max.bytes.per.principal",
        65_536,
        4_096,
        "Most bytes in a minute that the audit log says of what is denied to one principal, or to one address (of IPv6 "
        "one /64) without a principal. A line counts what is left out.",
    ),
    _int(
        "coterie.audit.file.max.bytes",
        67_108_864,
        65_536,
        "The size at which a file of the audit log is closed and the next one begun.",
    ),
    _int(
        "coterie.audit.files.max",
        10,
        2,
        "Most files of the audit log that a broker keeps, with the one that it writes. The oldest goes.",
        high=1_000,
    ),
    _int(
        "coterie.spare.shards",
        2,
        0,
        "Started but idle coordinator processes a broker keeps, so that a new shard serves at once. One that hosts no "
        "shard keeps one at most.",
        high=64,
    ),
    _int("coterie.group.request.max.bytes", 8_388_608, 1, "Longest request the group APIs take."),
    _int(
        "coterie.request.entries.max",
        50_000,
        1000,
        "Most entries that all lists of a request may have together, such as topics and their partitions. A request "
        "with more closes its connection. Those that go to coordinator processes are limited in bytes.",
    ),
    _int(
        "coterie.relay.queue.max.bytes",
        8_388_608,
        65_536,
        "Bytes waiting for one coordinator process at which reading from its clients pauses.",
    ),
    _int(
        "coterie.shard.wait.ms",
        5000,
        0,
        "The time that requests, lookups included, wait for a coordinator process that starts or loads; then they are "
        "answered COORDINATOR_NOT_AVAILABLE, or COORDINATOR_LOAD_IN_PROGRESS if it loads. With 0 none waits.",
    ),
    _int(
        "coterie.shard.wait.max.requests", 10_000, 1, "Most requests that wait at one broker for coordinator processes."
    ),
    _int("coterie.shard.wait.max.bytes", 8_388_608, 1, "Most bytes of the requests that wait."),
    _int(
        "coterie.shard.silence.ms",
        1000,
        100,
        "A coordinator process that does not answer for this long is killed and replaced; ten times this long while "
        "it loads or waits for a disk. One that gets no CPU is waited for.",
    ),
    _int(
        "coterie.shard.idle.ms",
        120_000,
        0,
        "A coordinator process whose groups have no members is given back when nobody has asked for it for this long. "
        "The next request, expiry or deletion of one of its topics wakes the partition. With 0 none is given back.",
    ),
    _long(
        "coterie.scrub.bytes.per.second",
        2 << 20,
        0,
        "The speed at which a broker looks through the logs that it follows, for batches that its disk has damaged. "
        "With 0 it does not look.",
        dynamic=True,
    ),
    _bool(
        "coterie.monitor",
        True,
        "If true, the cluster has a Monitor, a process that looks at it and shows it. No request of a client's depends "
        "on it.",
    ),
    _long(
        "coterie.broker.isolated.ms",
        900_000,
        1000,
        "The time for which a broker without a controller goes on with the partitions that nobody else can lead. Then "
        "it serves no more, so that it can be replaced; no broker is replaced earlier, unless a person says that its "
        "node is off. Longer than the longest outage of Ray's head that clients should not notice. If it is changed "
        "while the cluster runs, the longer time counts until all brokers have been restarted.",
    ),
    _long(
        "coterie.broker.replace.after.ms",
        1_800_000,
        -1,
        "After which time a broker whose node is gone is replaced by itself: started with an empty directory on "
        "another node, and filled from the other brokers. Only if every partition of it has another copy with all that "
        "has committed, on a broker that is there; never before `coterie.broker.isolated.ms`. -1: only by `coterie "
        "brokers replace`.",
    ),
    _int("coterie.monitor.interval.ms", 5000, 100, "Interval of the Monitor's looks at the cluster.", high=3_600_000),
    _int(
        "coterie.monitor.retention.hours",
        168,
        1,
        "The time for which the Monitor remembers lag, rebalances and events, in `DATA_DIR/monitor`.",
    ),
    _long(
        "coterie.monitor.history.max.bytes",
        268_435_456,
        1 << 20,
        "The size of what it remembers. When there is more, the oldest goes, however young it is.",
    ),
    *PORTS,
)

_TABLES: Final = (
    _GROUPS,
    _NEW_GROUPS,
    _OFFSETS,
    _CONNECTIONS,
    (*SECURITY_SETTINGS, *AUTHORIZATION),
    _TOPICS,
    _LOG,
    _CLUSTER,
    _OWN,
)
SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {setting.name: setting for table in _TABLES for setting in table}
)
SECTION_OF: Final[Mapping[str, str]] = MappingProxyType(
    {setting.name: section for section, table in zip(SECTIONS, _TABLES, strict=True) for setting in table}
)
