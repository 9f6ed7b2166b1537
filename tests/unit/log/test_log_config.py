"""The settings that a log goes by: Kafka's names and defaults, and what a log makes of them."""

from dataclasses import asdict

import pytest

from actors.broker.context import log_config
from actors.log.config import LogConfig
from actors.settings import BrokerConfig
from tests.support.log_helpers import config


def test_defaults_are_kafkas():
    assert {name.replace("_", "."): value for name, value in asdict(LogConfig()).items()} == {
        "cleanup.policy": ("delete",),
        "compression.type": "producer",
        "delete.retention.ms": 86400000,
        "file.delete.delay.ms": 60000,
        "flush.messages": 9223372036854775807,
        "flush.ms": 9223372036854775807,
        "index.interval.bytes": 4096,
        "max.compaction.lag.ms": 9223372036854775807,
        "max.decompressed.message.bytes": 2147483639,
        "max.message.bytes": 1048588,
        "message.timestamp.after.max.ms": 3600000,
        "message.timestamp.before.max.ms": 9223372036854775807,
        "message.timestamp.type": "CreateTime",
        "min.cleanable.dirty.ratio": 0.5,
        "min.compaction.lag.ms": 0,
        "producer.id.expiration.ms": 86400000,
        "retention.bytes": -1,
        "retention.ms": 604800000,
        "segment.bytes": 1073741824,
        "segment.index.bytes": 10485760,
        "segment.jitter.ms": 0,
        "segment.ms": 604800000,
    }


def test_the_logs_own_defaults_are_those_of_the_tables_of_settings():
    assert log_config({}, BrokerConfig.from_mapping({})) == LogConfig()


def test_a_topics_own_settings_go_before_the_brokers():
    changed = {
        "cleanup.policy": "compact,delete",
        "segment.bytes": "104857600",
        "min.cleanable.dirty.ratio": "0.25",
        "compression.type": "zstd",
        "message.timestamp.type": "LogAppendTime",
    }
    found = log_config(changed, BrokerConfig.from_mapping({"log.retention.ms": "7", "compression.type": "lz4"}))
    assert found == LogConfig(
        cleanup_policy=("compact", "delete"),
        segment_bytes=104857600,
        min_cleanable_dirty_ratio=0.25,
        compression_type="zstd",
        message_timestamp_type="LogAppendTime",
        retention_ms=7,
    )
    assert found.compacts
    assert found.deletes
    assert found.target_codec == 4


@pytest.mark.parametrize("size_bytes", ["2000", "1", "0", "-5"])
def test_a_size_that_is_set_for_tests_takes_the_place_of_segment_bytes(size_bytes):
    both = {"internal.segment.bytes": size_bytes, "segment.bytes": "1048576"}
    assert log_config(both, BrokerConfig.from_mapping({})).segment_bytes == int(size_bytes)


def test_a_topic_may_have_no_cleanup_policy():
    found = config(cleanup_policy="")
    assert not found.compacts
    assert not found.deletes
    assert found.cleanup_policy == ()


@pytest.mark.parametrize(
    ("policy", "lag_ms", "most_ms"),
    [("compact", "10", 10), ("compact,delete", "10", 10), ("compact", "99", 50), ("delete", "10", 50), ("", "10", 50)],
)
def test_a_segment_becomes_as_old_as_its_compaction_may_wait(policy, lag_ms, most_ms):
    assert config(cleanup_policy=policy, max_compaction_lag_ms=lag_ms, segment_ms="50").max_segment_ms == most_ms
