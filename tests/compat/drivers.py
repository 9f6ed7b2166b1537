"""Four real clients behind one face, so that each scenario is written once: confluent-kafka, kafka-python, aiokafka
and kcat. A `Member` is a consumer in a group that polls in the background until it is closed. No asserts here.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import types
import warnings
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Protocol

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import cramjam

if importlib.util.find_spec("snappy") is None:  # kafka-python knows python-snappy only; its work is cramjam's
    _snappy: Any = types.ModuleType("snappy")
    _snappy.compress = lambda data: bytes(cramjam.snappy.compress_raw(data))
    _snappy.decompress = lambda data: bytes(cramjam.snappy.decompress_raw(data))
    sys.modules["snappy"] = _snappy
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in an old way
    import kafka as kafka_python
    import kafka.admin

from tests.compat.raw import await_topics

Records = list[tuple[bytes, bytes]]

SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_INTERVAL_MS = 300
OPERATION_TIMEOUT_S = 60.0


class Member(Protocol):
    """A member of a group that polls in the background. Partitions are numbers: groups here read one topic."""

    def owned(self) -> frozenset[int]: ...

    def seen(self) -> Records:
        """Keys and values received so far."""
        ...

    def commit(self) -> None:
        """Commit what was received, or leave it to `close` where the client commits only then."""
        ...

    def close(self) -> None: ...


class Driver(Protocol):
    """One client library or tool."""

    name: str

    def create_topic(self, servers: str, topic: str, partitions: int) -> None: ...

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None: ...

    def consume(self, servers: str, topic: str, count: int) -> Records:
        """`count` records from the beginning of all partitions, without a group where the client can."""
        ...

    def join(self, servers: str, group: str, topic: str) -> Member: ...


class _Polling:
    """A member whose consumer lives in a thread: subclasses say what one turn, a commit and an end are."""

    def __init__(self) -> None:
        self._records: Records = []
        self._owned: frozenset[int] = frozenset()
        self._commits: list[Future[None]] = []
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def owned(self) -> frozenset[int]:
        self._check()
        return self._owned

    def seen(self) -> Records:
        self._check()
        return list(self._records)

    def commit(self) -> None:
        done: Future[None] = Future()
        self._commits.append(done)
        done.result(OPERATION_TIMEOUT_S)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(OPERATION_TIMEOUT_S)
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise AssertionError(f"{type(self).__name__} failed") from self._failure

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as failure:
            self._failure = failure
            for done in self._commits:
                done.set_exception(failure)

    def _loop(self) -> None:
        raise NotImplementedError


def _answer(done: Future[None], action: Any) -> None:
    try:
        action()
        done.set_result(None)
    except Exception as failure:
        done.set_exception(failure)


# ------------------------------------------------------------------ confluent-kafka


class _ConfluentMember(_Polling):
    def __init__(self, servers: str, group: str, topic: str) -> None:
        self._topic = topic
        self._settings = {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        }
        super().__init__()

    def _loop(self) -> None:
        consumer = confluent_kafka.Consumer(self._settings)
        consumer.subscribe([self._topic])
        while not self._stop.is_set():
            for message in consumer.consume(500, 0.1):
                if message.error() is None:
                    self._records.append((message.key(), message.value()))
                elif not message.error().retriable() and message.error().code() >= 0:
                    raise confluent_kafka.KafkaException(message.error())
            self._owned = frozenset(p.partition for p in consumer.assignment())
            while self._commits:
                _answer(self._commits.pop(), lambda: consumer.commit(asynchronous=False))
        self._owned = frozenset()
        consumer.close()


class Confluent:
    name = "confluent-kafka"

    def create_topic(self, servers: str, topic: str, partitions: int) -> None:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})
        new = confluent_kafka.admin.NewTopic(topic, partitions, 1)
        admin.create_topics([new])[topic].result(OPERATION_TIMEOUT_S)
        await_topics(servers, {topic: partitions})

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None:
        settings = {
            "bootstrap.servers": servers,
            "compression.type": compression,
            "enable.idempotence": idempotent,
            "linger.ms": 5,
        }
        producer = confluent_kafka.Producer(settings)
        failures: list[Any] = []
        for key, value in records:
            producer.produce(topic, value, key, on_delivery=lambda error, _: failures.append(error) if error else None)
        left = producer.flush(OPERATION_TIMEOUT_S)
        if left or failures:
            raise RuntimeError(f"{left} records not sent, failures: {failures[:3]}")

    def consume(self, servers: str, topic: str, count: int) -> Records:
        settings = {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        consumer = confluent_kafka.Consumer(settings)
        try:
            partitions = consumer.list_topics(topic, OPERATION_TIMEOUT_S).topics[topic].partitions
            beginning = confluent_kafka.OFFSET_BEGINNING
            consumer.assign([confluent_kafka.TopicPartition(topic, p, beginning) for p in partitions])
            records: Records = []
            deadline = time.monotonic() + OPERATION_TIMEOUT_S
            while len(records) < count and time.monotonic() < deadline:
                for message in consumer.consume(count, 0.5):
                    if message.error():
                        raise confluent_kafka.KafkaException(message.error())
                    records.append((message.key(), message.value()))
            return records
        finally:
            consumer.close()

    def join(self, servers: str, group: str, topic: str) -> Member:
        return _ConfluentMember(servers, group, topic)


# ------------------------------------------------------------------ kafka-python


class _KafkaPythonMember(_Polling):
    def __init__(self, servers: str, group: str, topic: str) -> None:
        self._topic = topic
        self._settings = {
            "bootstrap_servers": servers.split(","),
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        }
        super().__init__()

    def _loop(self) -> None:
        consumer = kafka_python.KafkaConsumer(**self._settings)
        # By name, it may lead the group before it knows the topic and then never assign again; by pattern, it
        # waits for metadata first.
        consumer.subscribe(pattern=f"^{self._topic}$")
        while not self._stop.is_set():
            for batch in consumer.poll(timeout_ms=100).values():
                self._records += [(r.key, r.value) for r in batch]
            self._owned = frozenset(p.partition for p in consumer.assignment())
            while self._commits:
                _answer(self._commits.pop(), consumer.commit)
        self._owned = frozenset()
        consumer.close()


class KafkaPython:
    name = "kafka-python"

    def create_topic(self, servers: str, topic: str, partitions: int) -> None:
        admin = kafka_python.KafkaAdminClient(bootstrap_servers=servers.split(","))
        try:
            admin.create_topics([kafka.admin.NewTopic(topic, partitions, 1)])
        finally:
            admin.close()
        await_topics(servers, {topic: partitions})

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None:
        producer = kafka_python.KafkaProducer(
            bootstrap_servers=servers.split(","),
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        try:
            sent = [producer.send(topic, value, key) for key, value in records]
            producer.flush(OPERATION_TIMEOUT_S)
            for future in sent:
                future.get(OPERATION_TIMEOUT_S)
        finally:
            producer.close()

    def consume(self, servers: str, topic: str, count: int) -> Records:
        consumer = kafka_python.KafkaConsumer(
            bootstrap_servers=servers.split(","), group_id=None, auto_offset_reset="earliest"
        )
        try:
            partitions = consumer.partitions_for_topic(topic)
            consumer.assign([kafka_python.TopicPartition(topic, p) for p in partitions])
            records: Records = []
            deadline = time.monotonic() + OPERATION_TIMEOUT_S
            while len(records) < count and time.monotonic() < deadline:
                for batch in consumer.poll(timeout_ms=500).values():
                    records += [(r.key, r.value) for r in batch]
            return records
        finally:
            consumer.close()

    def join(self, servers: str, group: str, topic: str) -> Member:
        return _KafkaPythonMember(servers, group, topic)


# ------------------------------------------------------------------ aiokafka


class _AiokafkaMember(_Polling):
    def __init__(self, servers: str, group: str, topic: str) -> None:
        self._topic = topic
        self._settings = {
            "bootstrap_servers": servers,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
            "metadata_max_age_ms": 2_000,
        }
        super().__init__()

    def _loop(self) -> None:
        asyncio.run(self._poll())

    async def _poll(self) -> None:
        async with aiokafka.AIOKafkaConsumer(self._topic, **self._settings) as consumer:
            while not self._stop.is_set():
                for batch in (await consumer.getmany(timeout_ms=100)).values():
                    self._records += [(r.key, r.value) for r in batch]
                self._owned = frozenset(p.partition for p in consumer.assignment())
                while self._commits:
                    done = self._commits.pop()
                    try:
                        await consumer.commit()
                        done.set_result(None)
                    except Exception as failure:
                        done.set_exception(failure)
            self._owned = frozenset()


class Aiokafka:
    name = "aiokafka"

    def create_topic(self, servers: str, topic: str, partitions: int) -> None:
        asyncio.run(self._create_topic(servers, topic, partitions))
        await_topics(servers, {topic: partitions})

    async def _create_topic(self, servers: str, topic: str, partitions: int) -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            answer = await admin.create_topics([aiokafka.admin.NewTopic(topic, partitions, 1)])
            if any(code for _, code, *_ in answer.topic_errors):
                raise RuntimeError(f"not created: {answer}")
        finally:
            await admin.close()

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None:
        asyncio.run(self._produce(servers, topic, records, compression, idempotent))

    async def _produce(self, servers: str, topic: str, records: Records, compression: str, idempotent: bool) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        async with producer:
            sent = [await producer.send(topic, value, key) for key, value in records]
            await asyncio.wait_for(asyncio.gather(*sent), OPERATION_TIMEOUT_S)

    def consume(self, servers: str, topic: str, count: int) -> Records:
        return asyncio.run(self._consume(servers, topic, count))

    async def _consume(self, servers: str, topic: str, count: int) -> Records:
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=servers, group_id=None, auto_offset_reset="earliest"
        )
        records: Records = []
        async with consumer:
            deadline = time.monotonic() + OPERATION_TIMEOUT_S
            while len(records) < count and time.monotonic() < deadline:
                for batch in (await consumer.getmany(timeout_ms=500)).values():
                    records += [(r.key, r.value) for r in batch]
        return records

    def join(self, servers: str, group: str, topic: str) -> Member:
        return _AiokafkaMember(servers, group, topic)


# ------------------------------------------------------------------ kcat

_REBALANCED = re.compile(r"% Group \S+ rebalanced .*?: (assigned|revoked): ?(.*)")
_PARTITION = re.compile(r"\[(\d+)\]")


class _KcatMember:
    """kcat prints records on stdout and assignments on stderr; it commits what it printed when it ends."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        command = _kcat(servers, "-G", group, "-u", "-f", "%k:%s\n", "-X", "auto.offset.reset=earliest")
        command += ["-X", f"session.timeout.ms={SESSION_TIMEOUT_MS}"]
        command += ["-X", f"heartbeat.interval.ms={HEARTBEAT_INTERVAL_MS}", topic]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._records: Records = []
        self._owned: frozenset[int] = frozenset()
        self._complaints: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_records, daemon=True),
            threading.Thread(target=self._read_assignments, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_records(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            key, _, value = line.rstrip(b"\n").partition(b":")
            self._records.append((key, value))

    def _read_assignments(self) -> None:
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            line = raw.decode(errors="replace")
            if match := _REBALANCED.search(line):
                numbers = frozenset(map(int, _PARTITION.findall(match[2])))
                self._owned = numbers if match[1] == "assigned" else frozenset()
            elif "ERROR" in line:
                self._complaints.append(line)

    def owned(self) -> frozenset[int]:
        if self._process.poll() is not None:
            raise AssertionError(f"kcat ended with {self._process.returncode}: {self._complaints}")
        return self._owned

    def seen(self) -> Records:
        return list(self._records)

    def commit(self) -> None:
        pass

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(OPERATION_TIMEOUT_S)
        finally:
            self._process.kill()
            for thread in self._threads:
                thread.join(5)
            for stream in (self._process.stdout, self._process.stderr):
                assert stream is not None
                stream.close()


def _kcat(servers: str, *arguments: str) -> list[str]:
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        raise FileNotFoundError("kcat")
    return [program, "-b", servers, "-m", "60", *arguments]


class Kcat:
    name = "kcat"

    def create_topic(self, servers: str, topic: str, partitions: int) -> None:
        """kcat knows only auto-creation: asking for a topic's metadata with permission to create it."""
        if partitions != 1:
            Confluent().create_topic(servers, topic, partitions)
            return
        self.produce(servers, topic, [], compression="none", idempotent=False)

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None:
        command = _kcat(servers, "-P", "-t", topic, "-K", ":", "-z", compression)
        command += ["-X", f"enable.idempotence={str(idempotent).lower()}"]
        lines = b"".join(b"%s:%s\n" % record for record in records)
        done = subprocess.run(command, input=lines, capture_output=True, timeout=90, check=False)
        if done.returncode or b"ERROR" in done.stderr or b"failed" in done.stderr:
            raise RuntimeError(done.stderr.decode())

    def consume(self, servers: str, topic: str, count: int) -> Records:
        await_topics(servers, {topic: 1})  # it asks once
        command = _kcat(servers, "-C", "-t", topic, "-o", "beginning", "-c", str(count), "-f", "%k:%s\n", "-q")
        done = subprocess.run(command, capture_output=True, timeout=90, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        pairs = (line.partition(b":") for line in done.stdout.splitlines())
        return [(key, value) for key, _, value in pairs]

    def join(self, servers: str, group: str, topic: str) -> Member:
        return _KcatMember(servers, group, topic)


DRIVERS: list[Driver] = [Confluent(), KafkaPython(), Aiokafka(), Kcat()]


@contextlib.contextmanager
def all_closed(members: Iterable[Member]) -> Any:
    """Close, at the end and whatever happens, the members that are then in the list."""
    try:
        yield
    finally:
        for member in members:
            with contextlib.suppress(Exception):
                member.close()
