"""The clients of the cluster: their common base, producers and readers. Members of groups are in members.py.

The network code is actors.client's; only the user's thread, which may block in the product, is a coroutine here.
"""

from __future__ import annotations

import asyncio

from actors.client.errors import KafkaError
from actors.client.net.freshness import MetadataUser
from actors.client.net.network import Network
from actors.client.net.settings import NetworkSettings
from actors.client.records import TopicPartition
from actors.records.bounds import AT_ONCE
from actors.records.building import build_batch
from actors.wire.messages import FetchRequest, ProduceRequest
from tests.sim.cluster import Cluster
from tests.sim.engine import Machine, Process
from tests.sim.environment import environment_of
from tests.sim.history import History
from tests.support.read_records import read_records

TOPIC = "t"
PARTITIONS = 3


class Client(MetadataUser):
    """A process that uses the cluster. It may be killed and started again."""

    metadata_max_age_ms = 20_000

    def __init__(self, cluster: Cluster, history: History, name: str) -> None:
        self.cluster = cluster
        self.sim = cluster.sim
        self.history = history
        self.name = name
        self.machine = Machine(self.sim, name)
        self.sim.network.machines.append(self.machine)
        self.process: Process | None = None
        self.network: Network
        self.lives = 0
        self.retired = False

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    def start(self) -> None:
        if self.running or self.sim.over or self.retired:
            return
        self.lives += 1
        self.process = Process(self.sim, f"{self.name}.{self.lives}", self.machine)
        self.sim.say(f"{self.process.name} starts")
        self.process.run(self._main(self.process))

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def retire(self) -> None:
        """Gone, and not to come back."""
        self.retired = True
        self.kill()

    async def _main(self, process: Process) -> None:
        settings = NetworkSettings(
            bootstrap=self.cluster.bootstrap(),
            client_id=self.name,
            request_timeout_ms=2_500,
            connect_timeout_ms=1_500,
            metadata_max_age_ms=self.metadata_max_age_ms,
            retry_backoff_max_ms=400,
        )
        environment = environment_of(process)
        self.network = Network(settings, loop=process.loop, environment=environment)
        self.prepare()
        process.run(self.network.keep_metadata(self))
        await self.live()

    def wanted(self) -> frozenset[str] | None:
        """The topics whose metadata it needs; None: all."""
        return frozenset({TOPIC})

    def prepare(self) -> None:
        """Before the network is used."""

    async def live(self) -> None:
        raise NotImplementedError

    async def pause(self, low_ms: int, high_ms: int) -> None:
        await asyncio.sleep(self.sim.random.randint(low_ms, high_ms) / 1000)


_LONG_TO_CHECK = bytes(AT_ONCE.plain_bytes)
"""A value so long that a broker checks its batch in a thread; compressed, it stays small in the log."""


class Producer(Client):
    """Writes records with acks=all, each only once. Of one batch in eight a broker checks the records in a thread."""

    count = 0

    async def live(self) -> None:
        while True:
            await self.pause(50, 400)
            await self._produce(self.sim.random.randrange(PARTITIONS))

    async def _produce(self, index: int) -> None:
        leader = self.network.cluster.leader(TopicPartition(TOPIC, index))
        if leader is None:
            self.network.refresh()
            return
        values = []
        for _ in range(self.sim.random.randint(1, 3)):
            self.count += 1
            values.append(f"{self.name}-{self.count}".encode())
        codec = "none"
        if self.sim.random.random() < 0.125:
            codec, values[-1] = "zstd", values[-1] + _LONG_TO_CHECK
        batch = build_batch([(None, value, (), 1_700_000_000_000) for value in values], compression=codec)
        part = ProduceRequest.PartitionProduceData(index=index, records=batch)
        topic = self.network.cluster.topics[TOPIC]
        data = ProduceRequest.TopicProduceData(name=TOPIC, topic_id=topic.id, partition_data=[part])
        request = ProduceRequest(acks=-1, timeout_ms=1_500, topic_data=[data])
        try:
            answer = await self.network.ask(leader, request)
        except KafkaError:
            self.network.refresh()
            return
        result = answer.responses[0].partition_responses[0]
        if result.error_code == 0:
            self.history.wrote(TOPIC, index, result.base_offset, values)
        else:
            self.network.refresh()


class Reader(Client):
    """Reads what has committed, partition by partition, over and over."""

    def prepare(self) -> None:
        self.next: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)

    async def live(self) -> None:
        while True:
            await self.pause(100, 500)
            await self._fetch(self.sim.random.randrange(PARTITIONS))

    async def _fetch(self, index: int) -> None:
        leader = self.network.cluster.leader(TopicPartition(TOPIC, index))
        if leader is None:
            self.network.refresh()
            return
        start = self.next[index]
        made = FetchRequest.FetchPartition(
            partition=index, fetch_offset=start, partition_max_bytes=1 << 16, current_leader_epoch=-1
        )
        topic = self.network.cluster.topics[TOPIC]
        asked = FetchRequest.FetchTopic(topic=TOPIC, topic_id=topic.id, partitions=[made])
        request = FetchRequest(
            max_wait_ms=50, min_bytes=1, max_bytes=1 << 20, session_id=0, session_epoch=-1, topics=[asked]
        )
        try:
            answer = await self.network.ask(leader, request)
        except KafkaError:
            self.network.refresh()
            return
        for topic_answer in answer.responses:
            for result in topic_answer.partitions:
                if result.error_code:
                    self.network.refresh()
                    continue
                for record in read_records(result.records or b""):
                    if record.offset >= start:
                        self.history.saw(TOPIC, index, record.offset, record.value or b"")
                        self.next[index] = max(self.next[index], record.offset + 1)
        if self.sim.random.random() < 0.1:
            self.next[index] = 0
