"""Whatever brokers ask for in the right form is decided or refused: no client's value is taken for a bug."""

from __future__ import annotations

import itertools
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.controller.decisions.decision import RefusedError
from actors.controller.decisions.operations import OPERATIONS, decide
from actors.controller.metadata.commits import DecidedMetadata
from actors.links.control import CODEC, Answer
from actors.links.operations import Operation, Result
from actors.settings import BrokerConfig
from placement.infos import OFFSETS_TOPIC, BrokerInfo, PartitionInfo, TopicInfo
from placement.metadata import ClusterMetadata
from placement.records import (
    METADATA_LEVELS,
    BrokerRecord,
    Record,
    TopicRecord,
    UserScramCredentialRecord,
    read_record,
    write_record,
)
from tests.support.any_values import any_of
from tests.support.examples import examples

CONFIG = BrokerConfig.from_mapping({"offsets.topic.num.partitions": "2"})
NAMES = ("t", "u", OFFSETS_TOPIC, "", "0", "9" * 5000, "User:a", "*", "ann", "user", "client-id", "ip", "127.0.0.1")
KEYS = (
    "retention.ms",
    "cleanup.policy",
    "min.insync.replicas",
    "segment.bytes",
    "log.retention.ms",
    "ssl.keystore.password",
    "producer_byte_rate",
    "connection_creation_rate",
)
IDS = tuple(name.encode().ljust(16) for name in ("t", "u"))
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.one_of(st.integers(-2, 10), st.integers(-(1 << 31), (1 << 31) - 1)),
    float: st.one_of(st.floats(), st.sampled_from((0.0, 1.0, -1.0))),
    str: st.one_of(st.sampled_from(NAMES + KEYS), st.text(max_size=5)),
    bytes: st.one_of(st.sampled_from(IDS), st.binary(max_size=16)),
    bool: st.booleans(),
}


def cluster() -> ClusterMetadata:
    """Two of three brokers live; topic u is being moved."""
    made = ClusterMetadata("c", 1)
    records: list[Record] = [BrokerRecord(BrokerInfo(i, f"h{i}", 9092, None, i, alive=i < 2)) for i in range(3)]
    moving = PartitionInfo(1, 3, (1, 2, 0), (1,), 5, (2,), (0,), (2,))
    lost = PartitionInfo(-1, 3, (2,), (2,))
    for name, partitions in (("t", (PartitionInfo(0, 0, (0, 1), (0, 1)), lost)), ("u", (moving,))):
        records.append(TopicRecord(TopicInfo(name, name.encode().ljust(16), partitions)))
    records.append(UserScramCredentialRecord("ann", 1, b"s", b"t", b"v", 4096))
    for record in records:
        made.apply(record)
    return made


@pytest.mark.parametrize("cls", OPERATIONS, ids=[cls.__name__ for cls in OPERATIONS])
def test_any_operation_is_decided_or_refused(cls: type[Operation[Result]]) -> None:
    @examples(150)
    @given(st.lists(any_of(cls, SCALARS), min_size=1, max_size=2))
    def decided(asked: list[Operation[Result]]) -> None:
        states, ids = DecidedMetadata(cluster()), itertools.count(1)
        for each in asked:
            try:
                result, records = decide(states.decided, CONFIG, each, lambda: next(ids).to_bytes(16, "big"))
            except RefusedError:
                continue
            states.commit(states.decide(records).index)
            for level, record in itertools.product(METADATA_LEVELS, records):
                written = msgpack.unpackb(msgpack.packb(write_record(record, level)), strict_map_key=False)
                assert read_record(written, level) == record
            assert CODEC.decode(CODEC.encode(Answer(1, result))) == Answer(1, result)
            assert ClusterMetadata.from_wire(states.committed.to_wire()) == states.committed

    decided()
