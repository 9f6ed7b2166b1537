"""Random record batches, good and bad, put to Apache Kafka and to us.

Each batch has a right checksum: a bad one is the producer's fault, not the network's. We refuse all that Kafka refuses;
docs/protocol.md names the batches that we alone refuse. Several clients read all accepted records back equal: from
topics that keep them as they are, that compress them anew, and that compact them.

`COTERIE_BATCHES=5000` tries so many batches.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.client import Admin, Consumer, TopicPartition
from actors.client.admin.types import ConfigResource, ConfigResourceType, NewTopic
from actors.wire.messages import ProduceRequest
from tests.compat.broker_alone import broker_alone
from tests.compat.conftest import Running
from tests.compat.peers import Peer
from tests.compat.raw import Raw, await_topics, leader_of
from tests.compat.reading import READERS, Read, Reader
from tests.compat.remote import Remote
from tests.compat.support import wait_until
from tests.support import raw_batches as raw
from tests.support.batch_packings import records_of, size_of
from tests.support.batch_plans import MAX_MESSAGE_BYTES, Plan, plans
from tools.protocol_words import BATCHES_REFUSED

BATCHES = int(os.environ.get("COTERIE_BATCHES", "250"))
MANY = 5000
"""So many batches show each difference to Kafka that there is."""
SEGMENT_BYTES = 1 << 20
_VERSION = 12
_FILLER_BYTES = 60_000
_MAGIC_AT, _ATTRIBUTES_AT, _CODEC, _TRANSACTIONAL = 16, 22, 0x07, 0x10
_CODECS = {**raw.CODECS, "uncompressed": 0}
_CORRUPT_MESSAGE, _MESSAGE_TOO_LARGE, _INVALID_TIMESTAMP, _TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 2, 10, 32, 53
_NOT_YET = {"min.compaction.lag.ms": str(2**62)}
_COMPACT = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0"}

TOPICS: dict[str, dict[str, str]] = {
    "as-it-is": {},
    "appended": {"message.timestamp.type": "LogAppendTime"},
    **{f"to-{codec}": {"compression.type": codec} for codec in ("uncompressed", "gzip", "snappy", "lz4", "zstd")},
    "compact": {**_COMPACT, **_NOT_YET},
    "compact-zstd": {**_COMPACT, **_NOT_YET, "compression.type": "zstd"},
}
ODD = "-odd"
"""Added to the name of the topic for records that not all clients can read, such as those with names of any bytes."""
COMMON = {"max.message.bytes": str(MAX_MESSAGE_BYTES), "retention.ms": "-1"}
CODES = {87, 10, 32, 76}
"""INVALID_RECORD, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE: no client sends such again."""


TOLD = [
    r"expands to more than|more than \d+: max.message.bytes|too many headers",
    r"the offset deltas of the records are not",
    r"of a record do not fill it|do not fill their batch|is cut off|outside its record|impossible length|has no name"
    r"|of a record has more than|in a record has more than|records in \d+ bytes",
    r"followed by bytes that are no more of it|is several frames|snappy data ends inside a",
    r"exactly one record batch",
    r"a timestamp has more than 64 bits",
    r"no producer has the id|a producer id needs",
    r"has attributes above",
    r"timestamp -?\d+ is (before|after|negative)",
]
"""The messages, as patterns, by which we refuse the batches of each row of `BATCHES_REFUSED`."""


class Verdict(NamedTuple):
    """A broker's answer to one batch."""

    code: int
    text: str
    offset: int = -1
    append_time: int = -1


class Sent(NamedTuple):
    """A batch, its topic, and its records if the libraries can read them."""

    data: bytes
    topic: str
    records: list[raw.Raw] | None

    @classmethod
    def of(cls, data: bytes, kind: str) -> Sent:
        """`kind` is the topic for records that all clients can read."""
        records = None
        with contextlib.suppress(Exception):  # each library has its own
            records = records_of(data)
        return cls(data, kind if all(map(can_be_read_by_all, records or ())) else kind + ODD, records)

    def is_judged_first(self, code: int) -> bool:
        """True if the code answers a bit or byte that a broker checks before all else, as Kafka does."""
        if self.data[_ATTRIBUTES_AT] & _TRANSACTIONAL:
            return code == _TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return code == _CORRUPT_MESSAGE and self.data[_MAGIC_AT] != 2

    def length_is_the_writers(self, code: int) -> bool:
        """True if MESSAGE_TOO_LARGE depends on how a broker writes the batch anew, as its topic asks for.

        We keep records to the byte. Kafka counts times from the first record's, in other numbers of bytes, and puts
        replacement characters, of three bytes, in place of each byte of a name that is not UTF-8.
        """
        wanted = TOPICS[self.topic.removesuffix(ODD)].get("compression.type", "producer")
        written_anew = wanted != "producer" and _CODECS[wanted] != self.data[_ATTRIBUTES_AT] & _CODEC
        may_be_too_long = self.records is not None and size_of(self.data) > MAX_MESSAGE_BYTES // 3
        return code == _MESSAGE_TOO_LARGE and written_anew and may_be_too_long


class Broker:
    """One of the two, with one connection."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._topics = [name + odd for name in TOPICS for odd in ("", ODD)]
        self._create()
        self._raw = Raw(address)

    def close(self) -> None:
        self._raw.close()

    def _create(self) -> None:
        made = [
            NewTopic(name, 1, 1, topic_configs={**COMMON, **TOPICS[name.removesuffix(ODD)]}) for name in self._topics
        ]
        with Admin(bootstrap_servers=self.address) as admin:
            admin.delete_topics([topic.name for topic in made], raise_errors=False)
            await_topics(self.address, dict.fromkeys(self._topics, 0))
            admin.create_topics(made)
        await_topics(self.address, dict.fromkeys(self._topics, 1))
        for topic in self._topics:
            leader_of(self.address, topic)

    def send(self, topic: str, data: bytes) -> None:
        part = ProduceRequest.PartitionProduceData(index=0, records=data)
        whole = ProduceRequest.TopicProduceData(name=topic, partition_data=[part])
        self._raw.send(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[whole]), _VERSION)

    def verdict(self) -> Verdict:
        part = self._raw.receive().responses[0].partition_responses[0]
        return Verdict(part.error_code, part.error_message or "", part.base_offset, part.log_append_time_ms)

    def put(self, topic: str, data: bytes) -> Verdict:
        self.send(topic, data)
        return self.verdict()


@dataclass(repr=False)
class Fuzzing:
    """The batches that were put, and the records that were accepted."""

    ours: Broker
    kafka: Broker | None
    accepted: dict[str, list[raw.Raw]] = field(default_factory=dict)
    """The records of each topic, as the producer meant them."""
    stricter: set[int] = field(default_factory=set)
    failure: BaseException | None = None
    done: bool = False
    _producers: Iterator[int] = field(default_factory=itertools.count)

    def run(self) -> None:
        """Put random batches, once."""
        if self.done:
            return
        self.done = True
        self._mark()
        relaxed = settings(max_examples=BATCHES, suppress_health_check=list(HealthCheck))
        try:
            relaxed(given(plans(), st.sampled_from(sorted(TOPICS)))(self.put))()
        except BaseException as failure:
            self.failure = failure
        self._mark()

    def put(self, plan: Plan, kind: str) -> None:
        """Put one batch to both, and compare the verdicts."""
        sent = Sent.of(plan.data(next(self._producers)), kind)
        if self.kafka is not None:
            self.kafka.send(sent.topic, sent.data)
        ours = self.ours.put(sent.topic, sent.data)
        kafkas = None if self.kafka is None else self.kafka.verdict()
        if not ours.code:
            assert sent.records is not None, "the batch was taken, and cannot be read"
            self._note(sent.topic, sent.records, ours)
        self._compare(sent, ours, kafkas)

    def _compare(self, sent: Sent, ours: Verdict, kafkas: Verdict | None) -> None:
        assert ours.code in CODES | {0} or sent.is_judged_first(ours.code), f"{ours}, Kafka {kafkas}"
        if kafkas is None:
            return
        if bool(ours.code) == bool(kafkas.code) or sent.length_is_the_writers(ours.code or kafkas.code):
            return
        assert ours.code, f"taken, but Kafka refuses it: {kafkas}"
        assert ours.code != _INVALID_TIMESTAMP or sent.data[_ATTRIBUTES_AT] & raw.LOG_APPEND_TIME, ours
        self.stricter.add(row_of(ours))

    def _note(self, topic: str, found: list[raw.Raw], ours: Verdict) -> None:
        meant = [each._replace(offset=ours.offset + number) for number, each in enumerate(found)]
        if topic.startswith("appended"):
            meant = [each._replace(time=ours.append_time) for each in meant]
        self.accepted.setdefault(topic, []).extend(meant)

    def check(self, reader: Reader, java: Remote | None, meant: dict[str, list[raw.Raw]]) -> None:
        """Assert that a client reads these records, from the topics of which it can read all."""
        wanted = {topic: records for topic, records in meant.items() if all(map(reader.can, records))}
        assert {topic for topic in meant if not topic.endswith(ODD)} <= set(wanted)
        found = reader.read(java, self.ours.address, {topic: _end(records) for topic, records in wanted.items()})
        for topic, records in wanted.items():
            assert_same(topic, [reader.expected_of(record) for record in records], found[topic])

    def compact(self) -> None:
        """Compact all that is there. Ends with records that fill a segment: the last one is not compacted."""
        names = [name + odd for name in TOPICS if name.startswith("compact") for odd in ("", ODD)]
        for topic in names:
            for number in range(SEGMENT_BYTES // _FILLER_BYTES + 2):
                self._put_good(topic, raw.record(key=b"filler %d" % number, value=os.urandom(_FILLER_BYTES)))
        now = {ConfigResource(ConfigResourceType.TOPIC, topic): {"min.compaction.lag.ms": "0"} for topic in names}
        with Admin(bootstrap_servers=self.ours.address) as admin:
            admin.incremental_alter_configs(now)
        with Consumer(bootstrap_servers=self.ours.address) as consumer:
            for topic in names:
                wait_until(lambda topic=topic: _first_offset(consumer, topic) > 0, what="compaction")

    def _put_good(self, topic: str, record: bytes) -> None:
        data = raw.batch(record, 1)
        verdict = self.ours.put(topic, data)
        assert not verdict.code, verdict
        self._note(topic, records_of(data), verdict)

    def _mark(self) -> None:
        """Put the record that all topics have first and last; compaction keeps the later one, as both have one key."""
        for topic in (name + odd for name in TOPICS for odd in ("", ODD)):
            self._put_good(topic, raw.record(key=b"mark"))


def can_be_read_by_all(record: raw.Raw) -> bool:
    """True if all clients can read the record."""
    return all(reader.can(record) for reader in READERS.values())


def row_of(ours: Verdict) -> int:
    """The row of docs/protocol.md that says why we refuse a batch that Kafka takes."""
    found = [row for row, told in enumerate(TOLD) if re.search(told, ours.text)]
    assert len(found) == 1, f"Kafka takes it: {ours}"
    return found[0]


def _end(records: list[raw.Raw]) -> int:
    return records[-1].offset + 1


def _first_offset(consumer: Consumer, topic: str) -> int:
    """The offset of the first record that is there."""
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    return next((records[0].offset for records in consumer.poll(1000, 1).values()), 0)


def after_compaction(records: list[raw.Raw]) -> list[raw.Raw]:
    """The records without those that have a successor with the same key."""
    last = {each.key: each.offset for each in records}
    return [each for each in records if last[each.key] == each.offset]


def assert_same(topic: str, wanted: list[Read], found: list[Read]) -> None:
    """The same records, or a word about the first that is another."""
    for expected, read in zip(wanted, found, strict=False):
        assert read == expected, topic
    assert len(found) == len(wanted), topic


# --- the tests ---


@pytest.fixture(scope="module")
def fuzzing(tmp_path_factory: pytest.TempPathFactory, _running: Running[Peer]) -> Iterator[Fuzzing]:
    """Random batches and their verdicts. Without Apache Kafka they are put to us alone."""
    with contextlib.ExitStack() as stack:
        quick = {"log.cleaner.backoff.ms": "100"}
        ours = Broker(stack.enter_context(broker_alone(tmp_path_factory.mktemp("broker"), quick)))
        stack.callback(ours.close)
        kafka = None
        with contextlib.suppress(pytest.skip.Exception):
            kafka = Broker(_running.get("kafka").bootstrap_servers)
            stack.callback(kafka.close)
        made = Fuzzing(ours, kafka)
        made.run()
        yield made


@pytest.fixture(scope="module")
def compacted(fuzzing: Fuzzing) -> Fuzzing:
    """The same, after compaction of all batches. Tests that read them uncompacted must have run by now."""
    fuzzing.compact()
    return fuzzing


def test_random_batches_are_taken_and_refused_as_kafka_does(fuzzing: Fuzzing) -> None:
    if fuzzing.failure is not None:
        raise fuzzing.failure
    assert fuzzing.accepted
    if fuzzing.kafka is None:
        pytest.skip("Apache Kafka cannot run here: what it refuses is not known")


def test_each_difference_is_judged_first_once() -> None:
    assert len(TOLD) == len(BATCHES_REFUSED)


@pytest.mark.parametrize("client", READERS)
def test_accepted_batches_are_read_back_equal(client: str, fuzzing: Fuzzing, request: pytest.FixtureRequest) -> None:
    fuzzing.check(READERS[client], _java_of(client, request), fuzzing.accepted)


@pytest.mark.parametrize("client", READERS)
def test_compacted_batches_are_read_back_equal(client: str, compacted: Fuzzing, request: pytest.FixtureRequest) -> None:
    left = {topic: after_compaction(compacted.accepted[topic]) for topic in compacted.accepted if "compact" in topic}
    compacted.check(READERS[client], _java_of(client, request), left)


def _java_of(client: str, request: pytest.FixtureRequest) -> Remote | None:
    return request.getfixturevalue("java") if client == "java" else None
