"""A produced batch keeps its codec: as fetched from a broker, and still after the broker has compacted it."""

from __future__ import annotations

from pathlib import Path

from actors.records.batch import iter_batches
from actors.records.building import build_batch
from actors.records.compression import CODEC_IDS
from actors.wire import messages
from tests.support.one_broker import Client, world
from tests.support.read_records import read_records
from tests.support.runtime_helpers import until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TEXT = b"compressible " * 50
BATCHES = ([b"a", b"c"], [b"a", b"b"], [b"d"])
"""Keys: compaction takes the first `a` out of its batch, which has to be made anew."""


def create(codec: str, segment_bytes: int) -> tuple[messages.ApiMessage, int]:
    request = messages.CreateTopicsRequest
    # Every batch is a segment of its own, and the last one's stays as it is.
    configs = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": str(segment_bytes),
        "min.cleanable.dirty.ratio": "0",
    }
    rows = [request.CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
    return request(
        topics=[request.CreatableTopic(name=codec, num_partitions=1, replication_factor=1, configs=rows)],
        timeout_ms=5000,
    ), 5


def produce(codec: str, records: bytes) -> tuple[messages.ApiMessage, int]:
    partition = messages.ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = messages.ProduceRequest.TopicProduceData(name=codec, partition_data=[partition])
    return messages.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic]), 8


async def fetched(client: Client, codec: str) -> bytes:
    """All of the topic's log, as a client gets it: an answer has records of one segment."""
    found, offset = b"", 0
    while offset < 5:
        part = messages.FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = messages.FetchRequest.FetchTopic(topic=codec, partitions=[part])
        client.send((messages.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[topic]), 11))
        records = bytes((await client.answer()).responses[0].partitions[0].records)
        offset = max(header.next_offset for _, _, header in iter_batches(records))
        found += records
    return found


def codecs_of(data: bytes) -> set[int]:
    return {header.attributes & 7 for _, _, header in iter_batches(data)}


async def test_a_batch_keeps_its_codec_through_the_broker_and_its_compaction(tmp_path: Path) -> None:
    async with world(tmp_path, log_cleaner_backoff_ms="100", log_flush_scheduler_interval_ms="50") as w:
        client, context = await w.client(), w.server.context
        for codec in CODECS:
            now_ms = context.now_ms()
            batches = [
                bytes(build_batch([(key, TEXT, None, now_ms) for key in keys], compression=codec)) for keys in BATCHES
            ]
            client.send(create(codec, max(map(len, batches))))
            assert (await client.answer()).topics[0].error_code == 0
            client.send(*(produce(codec, records) for records in batches))
            for _ in BATCHES:
                assert (await client.answer()).responses[0].partition_responses[0].error_code == 0

        def compacted() -> bool:
            return all(context.log(codec, 0).checkpoint.cleaned_to >= 4 for codec in CODECS)

        before = {codec: await fetched(client, codec) for codec in CODECS}
        await until(compacted, timeout_s=60, what="every topic compacted")
        after = {codec: await fetched(client, codec) for codec in CODECS}
        for codec in CODECS:
            for data in (before[codec], after[codec]):
                assert codecs_of(data) == {CODEC_IDS[codec]}, codec
            records = list(read_records(after[codec], verify_crc=True))
            assert [(r.offset, r.key) for r in records] == [(1, b"c"), (2, b"a"), (3, b"b"), (4, b"d")]
            assert {r.value for r in records} == {TEXT}
