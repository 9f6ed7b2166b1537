"""The texts of docs/protocol.md that no table of the product has."""

from __future__ import annotations

PROTOCOL = """\
# Protocol

Generated from the registry in `actors/broker/handlers` by `python -m tools.generate_docs`; do not edit.

Coterie's brokers speak Kafka's protocol. This is what they serve; ApiVersions says the same to every client, which
then picks the highest version both sides know. A request of another API or version closes its connection, with a line
in the broker's log; only ApiVersions itself is answered with UNSUPPORTED_VERSION (35) and the ranges, as KIP-511 asks.
"""
PROTOCOL_NOTES = """\
## Differences and details

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
  most; there may be as many records, and as many headers, as `max.message.bytes` says, and 4,194,304 at most. A
  larger batch is MESSAGE_TOO_LARGE (10), upon which a Java producer splits the batch. Kafka has no such bounds.
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
  metrics can be changed; those of groups (resource type 32) from `coterie.metadata.version` 2 on. A group's values
  have to lie within the brokers' bounds, `group.consumer.min.session.timeout.ms` and so on. Those that begin with
  `consumer.` take effect with a member's next heartbeat; those of share and streams groups are kept, and have none.
- **A broker's loggers** (resource type 8) are shown and changed by that broker, with Kafka's names for levels, for
  itself and its shards. Packages are loggers, too. As in Kafka, AlterConfigs changes none, and nothing outlasts the
  process.
- **AlterUserScramCredentials** takes names and salted passwords of any length but none, as Kafka does, and salts of at
  most 64 KiB: whoever names a user is sent the user's salt.
- **Rights** are those that Kafka asks for, where [ACLs](security.md#acls) are checked. Some requests need one of those
  listed, others all of them. A resource that a client may not see is answered as one that does not exist: with
  the error of the missing right.
- **Authorised operations** (KIP-430): without an authorizer a client that asks for them is told all of Kafka's.
- **acks=0**: a failed Produce closes the connection, because such a producer gets no answer.
- Responses leave a connection in the order of its requests, as in Apache Kafka. At most 512 requests of one
  connection are open; the broker reads on when one is answered.
- What a request to describe or list names twice is answered once, at its first place: topics, groups, settings.
- A record batch is kept as it was produced, whatever its compression (none, gzip, snappy, lz4 or zstd), unless the
  topic's `compression.type` names a codec, or its data is several frames. Its largest timestamp is that of its records.
"""
PROTOCOL_TOOLS = """\
## Kafka's tools

The tools of Kafka 4.4 work with a Coterie as with a Kafka. Where they print something else, there is a reason:
"""
TOOL_DIFFERENCES = [
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
PROTOCOL_BATCHES = """\
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
PROTOCOL_BATCHES_NOTES = """\
- A batch of several gzip members, zstd frames or snappy streams is written anew as one: not all clients read more than
  the first.
- A header's name that is not UTF-8 stays what it is. Kafka puts replacement characters in its place when it writes a
  batch anew.
- A batch that is written anew, because the topic's `compression.type` asks for it, must not be longer than
  `max.message.bytes` then, as in Kafka. Its records stay as they are to the byte. Kafka counts their times from the
  first one's, so that the batch may be somewhat shorter or longer there.
"""
PROTOCOL_LEFT_OUT = """\
All versions advertised are those of Kafka 4.4.0; GetTelemetrySubscriptions it advertises only with a plugin. Versions
that it has and keeps back, as InitProducerId 6, are kept back here. These APIs are served by Kafka, and not here:
"""
PROTOCOL_RELEASES = """\
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
PROTOCOL_TOOLS_NOTES = """\
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
