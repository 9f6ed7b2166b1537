"""Writes the pages of docs/ that are made from tables of the code: `python -m tools.generate_docs`.

settings.md comes from actors.settings, protocol.md from the registry of request handlers, metrics.md from the Monitor's
table of metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from textwrap import fill

from actors.broker.handlers.registry import APIS, ENTRIES_LIMIT, SOCKET_LIMIT, Api, Runs
from actors.monitor import metric_table
from actors.settings import (
    SECTION_OF,
    SECTIONS,
    SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    accepted_settings,
    accepted_topic_settings,
)
from actors.settings.kinds import MAX_INT, MAX_LONG
from actors.wire.api_keys import ApiKey
from tools.kafka_versions import LEFT_OUT

DOCS = Path(__file__).resolve().parents[1] / "docs"
_INTRO = """\
# Settings

Generated from the tables in `actors/settings` by `python -m tools.generate_docs`; do not edit.

Broker settings are given to `coterie up` with `--config KEY=VALUE` or in a properties file with `--config-file`.
Settings marked *dynamic* can also be changed while the cluster runs, with AlterConfigs. Times are milliseconds and
sizes bytes unless the name says otherwise.
"""
_TOPICS = """\
## Topic settings

Given when a topic is created (`coterie topics create --config KEY=VALUE`) or changed later (`coterie topics alter`).
A topic without a value of its own takes that of the broker setting named here.
"""
_ACCEPTED = """\
## Accepted, without effect

All other keys of Apache Kafka 4.4 are taken, so that its files and tools work as they are. A value must be of Kafka's
type and range; DescribeConfigs shows it, or Kafka's default. Passwords are neither kept nor shown; to set one while
brokers run is refused with INVALID_CONFIG, because Kafka would keep it in its metadata log, in clear text. `coterie up`
names the keys it was given, and a broker's log names each that is changed while it runs. None has an effect: those of
security protect nothing. A broker's identity and its data directory (`broker.id`, `node.id`, `log.dirs`,
`process.roles`) are not read from these keys, and DescribeConfigs shows them as they are. Keys with
`listener.name.NAME.` before them, and those that begin with `metrics.context.`, `rlmm.config.` or `rsm.config.`, are
taken as well. A key that Kafka 4.4 does not know is refused.

Kafka's brokers speak to each other by a listener, which `inter.broker.listener.name`,
`security.inter.broker.protocol` and `sasl.mechanism.inter.broker.protocol` choose. Here they have
[links of their own](security.md#links-between-the-clusters-processes), which these keys do not change.
"""
_METRICS = """\
# Metrics

Generated from the table in `actors/monitor/metric_table.py` by `python -m tools.generate_docs`; do not edit.

A cluster's Monitor exposes these metrics at `/metrics`; [Monitoring](monitoring.md) says how to scrape them and what to
look at. Metrics that Kafka has, too, have the names that the usual rules of the JMX exporter give them. Kafka has an
endpoint for each broker; here the label `broker` takes its place. Lag and partitions have kafka_exporter's names and
labels. Names that begin with `coterie_` are Coterie's own. A value that is not known is left out; it is never shown as
0.
"""
_PROTOCOL = """\
# Protocol

Generated from the registry in `actors/broker/handlers` by `python -m tools.generate_docs`; do not edit.

Coterie's brokers speak Kafka's protocol. This is what they serve; ApiVersions says the same to every client, which
then picks the highest version both sides know. A request of another API or version closes its connection, with a line
in the broker's log; only ApiVersions itself is answered with UNSUPPORTED_VERSION (35) and the ranges, as KIP-511 asks.
"""
_PROTOCOL_NOTES = """\
## What is special

- **Answered by** *broker* means the process that the client is connected to; *controller*, that this process has the
  controller decide; *partition actor*, that it relays the request to the process that hosts the group's
  `__consumer_offsets` partition; *refused*, that ApiVersions names the request and the broker answers that it is not
  served. ListGroups, DescribeGroups, ConsumerGroupDescribe, DeleteGroups and, from version 8 on, OffsetFetch are about
  several groups: the broker splits such a request and merges the answers.
- **ApiVersions** 5 may name the cluster and the node that a client means to reach (KIP-1242). Another broker answers
  REBOOTSTRAP_REQUIRED (129), upon which Java's client begins anew with the addresses it was given; before a login, too,
  where Kafka does not look. A cluster keeps its id as long as its data directory, and so does a broker its node id.
- **Produce** is advertised from version 0 but served from version 3, the first with today's record batches. Older
  librdkafka takes a higher first version as a sign that the broker cannot take lz4, gzip or snappy.
- **Produce** names each record that the topic does not take, with the reason (KIP-467, from version 8 on): nothing of
  such a batch is written. At most 100 records of a batch are named, and 1,000 in an answer.
- **Produce** refuses whatever is wrong with a batch behind a checksum that is right as INVALID_RECORD (87), which no
  client tries again. Offset deltas other than 0, 1, 2 and so on are wrong in every codec, and so is data behind a
  compressed frame. Several gzip members or zstd frames are taken, and become one frame.
- **How much a batch may hold.** When it is decompressed, its records may take 32 x `max.message.bytes`, and 128 MiB at
  most; there may be as many records, and as many headers, as `max.message.bytes` says, and 4,194,304 at most. What is
  more is MESSAGE_TOO_LARGE (10), upon which a Java producer splits the batch. Kafka has no such bounds.
- **Fetch** grants no incremental sessions (KIP-227): every answer has session id 0 and clients send full requests.
- **InitProducerId** serves idempotent producers. A `transactional.id` is refused with
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53), and so is a transactional Produce request: there are no transactions.
- **ConsumerGroupHeartbeat** and ConsumerGroupDescribe (KIP-848) are answered UNSUPPORTED_VERSION (35), as in Kafka,
  while `consumer` is not among `group.coordinator.rebalance.protocols`, or `group.version` is 0: it is 1 from
  `coterie.metadata.version` 2 on.
- **Groups with members of both protocols** differ from Kafka's 4.4 where partitions are left without an owner there, or
  have two for a while. Where only classic members are left in a consumer group, because
  `group.consumer.migration.policy` forbids the way back, their heartbeats have the assignment computed. A classic
  member that was expelled, and joins again with its old id and with partitions, is told UNKNOWN_MEMBER_ID (25), gives
  them up, and joins anew; in Kafka it is let in, and reads them beside their next owners until it syncs. When a group
  is upgraded, a cooperative member that has just been told to give partitions up has to do so before another gets them,
  and a rebalance that was under way, or a partition that nobody has, is followed by a new assignment, whoever joins.
  Where the last member of the new protocol comes back as a classic one, all members rebalance; in Kafka they do so only
  if one of them still holds what is another's, and else the group has no leader, and partitions that are added no
  owner. A group that was downgraded rebalances also if its coordinator fails over before its members have joined again;
  if it is upgraded again before that, what they hold counts, not what they were about to get.
- **The requests of share groups** (KIP-932) are always answered so, and clients say so at once.
- **DescribeConfigs** answers for topics, brokers, their loggers, groups and client metrics. All but those of client
  metrics can be changed; those of groups (resource type 32) from `coterie.metadata.version` 2 on. What a group is given
  has to lie within the brokers' bounds, `group.consumer.min.session.timeout.ms` and so on. Those that begin with
  `consumer.` take effect with a member's next heartbeat; those of share and streams groups are kept, and have none.
- **A broker's loggers** (resource type 8) are shown and changed by that broker, with Kafka's names for levels, for
  itself and its shards. Packages are loggers, too. As in Kafka, AlterConfigs changes none, and nothing outlasts the
  process.
- **AlterUserScramCredentials** takes names and salted passwords of any length but none, as Kafka does, and salts of at
  most 64 KiB: whoever names a user is sent the user's salt.
- **Rights** are those that Kafka asks for, where [ACLs](security.md#acls) are checked. Some requests need one of those
  listed, others all of them. What a client may not see is answered as what does not exist: with the error of the
  missing right.
- **Authorised operations** (KIP-430): without an authorizer a client that asks for them is told all of Kafka's.
- **acks=0**: a failed Produce closes the connection, because such a producer gets no answer.
- Responses leave a connection in the order of its requests, as in Apache Kafka. At most 512 requests of one
  connection are open; the broker reads on when one is answered.
- What a request to describe or list names twice is answered once, at its first place: topics, groups, settings.
- A record batch is kept as it was produced, whatever its compression (none, gzip, snappy, lz4 or zstd), unless the
  topic's `compression.type` names a codec, or its data is several frames. Its largest timestamp is that of its records.
"""
_PROTOCOL_TOOLS = """\
## What Kafka's tools see

The tools of Kafka 4.4 work with a Coterie as with a Kafka. Where they print something else, there is a reason:
"""
_TOOL_DIFFERENCES = [
    (
        "`kafka-log-dirs`",
        "one directory a broker; partitions whose log is not made yet have size 0",
        "a log is made when it is first used",
    ),
    (
        "`kafka-metadata-quorum`",
        "one voter, 3000, without a directory id, and every broker observes",
        "controllers are no brokers: their ids begin at 3000; there is one of them",
    ),
    (
        "`kafka-features`",
        "every feature of Kafka's has one level, and an upgrade to another is refused",
        "what is served is what the release serves",
    ),
    (
        "`kafka-features`",
        "there is a `coterie.metadata.version`, which can be upgraded and never downgraded",
        "the formats in which our controller writes are not Kafka's ([upgrades](operations.md#upgrades))",
    ),
    (
        "`kafka-features`",
        "`share.version` and `transaction.version` stay 0, and there is no `streams.version`",
        "those protocols are not there",
    ),
    (
        "`kafka-configs`",
        "a password cannot be set: INVALID_CONFIG",
        "Kafka keeps it in its metadata log, in clear text",
    ),
    (
        "`kafka-configs`",
        "for users it ends with SECURITY_DISABLED; Kafka prints nothing",
        "there is no SASL that could have credentials",
    ),
    (
        "`kafka-transactions`",
        "`list` is empty; `describe-producers` shows idempotent producers",
        "there are no transactions",
    ),
    (
        "`kafka-client-metrics`",
        "lists nothing, and no client is asked for metrics",
        "nobody collects them",
    ),
    (
        "`kafka-topics`",
        "without `min.insync.replicas` among a topic's settings",
        "Kafka sets it for all topics of a new cluster",
    ),
]
_PROTOCOL_BATCHES = """\
## Which record batches are refused

Whatever Kafka refuses is refused. These are refused here alone, because some consumer could not read them, or because
of what it would cost to read them:
"""
BATCHES_REFUSED = [
    (
        "records that are longer than 32 x `max.message.bytes` or 128 MiB when decompressed, more of them than \
`max.message.bytes` or 4 Mi, or so many headers",
        "MESSAGE_TOO_LARGE (10)",
        "a few kilobytes would cost a broker, and each consumer, seconds and gigabytes",
    ),
    (
        "offset deltas other than 0, 1, 2, ... in a batch that Kafka writes anew or does not compress",
        "INVALID_RECORD (87)",
        "Kafka gives such records other offsets, or looks at them in compressed batches only",
    ),
    (
        "records that do not fill their lengths, or have numbers that are too long",
        "INVALID_RECORD (87)",
        "Kafka looks at the beginnings of records only, where it does not need more",
    ),
    (
        "bytes behind a compressed frame that belong to no frame",
        "INVALID_RECORD (87)",
        "Java passes them over; others cannot read the batch",
    ),
    (
        "the beginning of another batch behind the batch",
        "INVALID_RECORD (87)",
        "Kafka cuts it off",
    ),
    (
        "a timestamp that is beyond 64 bits, as the sum of the batch's and the record's",
        "INVALID_RECORD (87)",
        "Java's sum wraps round; others have another timestamp",
    ),
    (
        "a producer id below -1, or a producer id with the epoch -1",
        "INVALID_RECORD (87)",
        "Kafka takes it as no producer's unless it writes the batch anew",
    ),
    (
        "a record with attributes above 127",
        "INVALID_RECORD (87)",
        "no attribute has a meaning yet, and kafka-python and aiokafka read another record",
    ),
    (
        "a record's timestamp that the topic does not take, in a batch whose header says LogAppendTime",
        "INVALID_TIMESTAMP (32)",
        "Kafka looks at the one timestamp in the header instead",
    ),
]
_PROTOCOL_BATCHES_NOTES = """\
- A batch of several gzip members, zstd frames or snappy streams is written anew as one: not all clients read more than
  the first.
- A header's name that is not UTF-8 stays what it is. Kafka puts replacement characters in its place when it writes a
  batch anew.
- A batch that is written anew, because the topic's `compression.type` asks for it, must not be longer than
  `max.message.bytes` then, as in Kafka. Its records stay as they are to the byte. Kafka counts their times from the
  first one's, so that the batch may be somewhat shorter or longer there.
"""
_PROTOCOL_LEFT_OUT = """\
All versions advertised are those of Kafka 4.4.0; GetTelemetrySubscriptions it advertises only with a plugin. Versions
that it has and keeps back, as InitProducerId 6, are kept back here. These APIs are served by Kafka, and not here:
"""
_PROTOCOL_RELEASES = """\
## Where Kafka 4.4 differs from 4.1

Coterie is compared with Apache Kafka 4.4.0, whose settings and messages it knows. Until then it was compared with
4.1.1. These differences between the two are met by clients, by operators, or by Coterie:

| what | Kafka 4.4.0, unlike 4.1.1 | here |
| --- | --- | --- |
| versions of APIs | OffsetCommit and OffsetFetch 10, ListOffsets 11, ApiVersions 5, DescribeLogDirs 5, \
DeleteGroups 3, TxnOffsetCommit 6, ShareFetch and ShareAcknowledge 2, DescribeShareGroupOffsets 1 | the same, of what \
is served |
| new APIs | StreamsGroupTopologyDescriptionUpdate (93), UnregisterController (94) | not served |
| new errors | GROUP_DELETION_FAILED (134), STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED (135), \
CONTROLLER_ID_NOT_REGISTERED (136) | known by name |
| features | `metadata.version` 33 (4.4-IV2), `share.version` 2, a `streams.version` | `metadata.version` 33 |
| tokens | a listener with OAUTHBEARER needs `sasl.oauthbearer.expected.issuer` and \
`sasl.oauthbearer.expected.audience`, or `sasl.oauthbearer.allow.unverified.issuer=true` and \
`sasl.oauthbearer.allow.unverified.audience=true` | the same |
| validation of tokens | brokers with `sasl.oauthbearer.jwks.endpoint.url` look at the signature by default; 4.1 \
had to be told to | always looked at |
| `cleanup.policy` | may be empty: nothing is deleted or compacted; what is named twice counts once | the same |
| `max.decompressed.message.bytes` | new: a longer record in a compressed batch is INVALID_RECORD (87) | as in 4.4 |
| `group.coordinator.append.linger.ms` | -1 by default: a coordinator waits for no more records (5 in 4.1) | the same |
| DescribeConfigs of a group | names the broker's key that a value comes from, and leaves internal keys out | the same |
| keys that are lists | `listeners`, `advertised.listeners`, `controller.listener.names`, `early.start.listeners`, \
`log.dir` and `log.dirs` are of type LIST, no longer STRING | the same |
| all keys | 45 new ones of brokers, 4 of topics and 17 of groups; without `group.share.enable` and \
`internal.metadata.max.fetch.size.in.bytes` | known; those without a row here have no effect; one that is gone is \
refused |
| tools | `kafka-configs` is `org.apache.kafka.tools.ConfigCommand`, no longer `kafka.admin.ConfigCommand`; \
`kafka-features` prints columns with spaces between them, no longer tabs | as Kafka's tools print |
"""
_PROTOCOL_TOOLS_NOTES = """\
- **DescribeLogDirs** gives a follower's lag to the high watermark its leader last told it, total and usable bytes of
  the volume, and leaves out logs that the disk does not show. **AlterReplicaLogDirs** to any other directory is
  LOG_DIR_NOT_FOUND (57).
- **DescribeQuorum** counts the controller's records since the cluster began: `HighWatermark` is the number of those
  that have committed, `LogEndOffset` of those that a log has, and `LeaderEpoch` is the controller's.
- **Settings.** A segment of a compacted topic ends at `max.compaction.lag.ms` in an idle log, too; Kafka ends one only
  when something is appended. A value that brokers cannot have is INVALID_CONFIG (40), where Kafka answers
  INVALID_REQUEST (42), and so are brokers' compaction lags that exclude each other, which Kafka takes while it runs.
  Blanks around an item that is subtracted from a list do not count.
- **metadata.version** is 33 (4.4-IV2). **UpdateFeatures** to any other level is INVALID_UPDATE_VERSION (95), except for
  `coterie.metadata.version`, which the controller raises once all brokers speak a version that knows the level.
- **Which release clients take a broker for.** kafka-python infers 4.3, the newest that it knows, from ApiVersions,
  whose ranges end where Kafka 4.4's do. franz-go's `kversion`, which kcl asks, says "between
  v0.9.0 and v0.10.0": it takes a broker for no release of which an API is missing, and 0.10 had SaslHandshake.
"""


def protocol_page() -> str:
    """The whole page, as Markdown."""
    rows = [_api_row(api) for api in APIS.values()]
    tools = _table(("tool", "what differs from Kafka", "why"), _TOOL_DIFFERENCES)
    head = ("API", "key", "versions served", "advertised", "answered by", "rights")
    return "\n".join(
        [
            _PROTOCOL,
            "## APIs and versions\n",
            _table(head, rows),
            _PROTOCOL_LEFT_OUT,
            _table(("API", "key", "versions", "why"), list(map(_left_out_row, LEFT_OUT))),
            _PROTOCOL_NOTES + _limits(),
            _PROTOCOL_BATCHES,
            _table(("refused here", "error", "why"), BATCHES_REFUSED),
            _PROTOCOL_BATCHES_NOTES,
            _PROTOCOL_TOOLS,
            tools,
            _PROTOCOL_TOOLS_NOTES,
            _PROTOCOL_RELEASES,
        ]
    )


def _api_row(api: Api) -> tuple[str, ...]:
    served, advertised = _range(api.served_from, api.last), "the same"
    if api.runs is Runs.NOWHERE:
        served, advertised = "none", _range(api.first, api.last)
    elif api.served_from != api.first:
        advertised = _range(api.first, api.last)
    rights = ", ".join(map(str, api.rights)) or "none"
    return api.key.label, str(int(api.key)), served, advertised, api.runs.value, rights


def _left_out_row(key: ApiKey) -> tuple[str, ...]:
    first, last, why = LEFT_OUT[key]
    return key.label, str(int(key)), _range(first, last), why


def _range(first: int, last: int) -> str:
    return f"{first} to {last}" if first < last else str(last)


def _limits() -> str:
    special: dict[str, list[str]] = {}
    for api in APIS.values():
        if api.limit != SOCKET_LIMIT:
            special.setdefault(api.limit, []).append(api.key.label)
    text = f"- **Size.** A request may be as long as {_code(SOCKET_LIMIT)} says"
    for limit, names in special.items():
        text += f", one of {', '.join(names[:-1])} or {names[-1]} as {_code(limit)} says"
    text += f". Others may have as many entries in all their lists together as {_code(ENTRIES_LIMIT)} says"
    return fill(f"{text}. What is larger closes its connection.", 120, subsequent_indent="  ") + "\n"


def settings_page() -> str:
    """The whole page, as Markdown."""
    parts = [_INTRO]
    for section, text in SECTIONS.items():
        rows = [
            _broker_row(each) for name, each in SETTINGS.items() if SECTION_OF[name] == section and not each.internal
        ]
        parts += [f"## {section}\n\n{text}\n", _table(("setting", "default", "allowed", "what it does"), rows)]
    rows = [
        (_code(name), _default(entry), _allowed(entry), _inherits(entry.inherits), entry.doc)
        for name, entry in TOPIC_SETTINGS.items()
        if not entry.internal
    ]
    parts += [_TOPICS, _table(("setting", "default", "allowed", "inherits from", "what it does"), rows)]
    parts += [_ACCEPTED, f"Of topics: {_names(accepted_topic_settings())}.\n"]
    return "\n".join([*parts, "Of brokers:\n", _by_first_word(accepted_settings())])


def metrics_page() -> str:
    """The text of metrics.md."""
    parts = [_METRICS]
    for section in metric_table.SECTIONS:
        found = [each for each in metric_table.METRICS if each.section == section]
        if found:
            rows = [(_code(each.name), _names(each.labels) or "-", each.kind, each.doc) for each in found]
            parts += [f"## {section}\n", _table(("metric", "labels", "kind", "what it says"), rows)]
    return "\n".join(parts)


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "protocol.md": protocol_page,
    "metrics.md": metrics_page,
}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


def _broker_row(setting: Setting) -> tuple[str, ...]:
    dynamic = " *dynamic*" if setting.dynamic else ""
    return _code(setting.name) + dynamic, _default(setting), _allowed(setting), setting.doc


def _by_first_word(names: Iterable[str]) -> str:
    groups = groupby(sorted(names), key=lambda name: name.partition(".")[0])
    return "".join(f"- {_names(group)}\n" for _, group in groups)


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_code, sorted(names)))


def _inherits(sources: Iterable[object]) -> str:
    return ", ".join(_code(getattr(source, "name", "")) for source in sources)


def _default(setting: Setting) -> str:
    text = setting.format(setting.default)
    return "unset" if text is None else _code(_short(text))


def _allowed(setting: Setting) -> str:
    return _short(setting.allowed)


def _short(text: str) -> str:
    for number, name in ((MAX_LONG, "2^63-1"), (MAX_INT, "2^31-1"), (MAX_LONG + 1, "2^63"), (MAX_INT + 1, "2^31")):
        text = text.replace(str(number), name)
    return text


def _code(text: str) -> str:
    return f"`{text}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    main()
