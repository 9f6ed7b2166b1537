"""Topic settings: Kafka's names and defaults, and errors that name what is wrong."""

import pytest

from actors.log.config import LogConfig, config_docs
from actors.log.errors import LogConfigError


def test_defaults_are_kafkas():
    assert LogConfig().to_configs() == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "delete.retention.ms": "86400000",
        "file.delete.delay.ms": "60000",
        "flush.messages": "9223372036854775807",
        "flush.ms": "9223372036854775807",
        "index.interval.bytes": "4096",
        "max.compaction.lag.ms": "9223372036854775807",
        "max.decompressed.message.bytes": "2147483639",
        "max.message.bytes": "1048588",
        "message.timestamp.after.max.ms": "3600000",
        "message.timestamp.before.max.ms": "9223372036854775807",
        "message.timestamp.type": "CreateTime",
        "min.cleanable.dirty.ratio": "0.5",
        "min.compaction.lag.ms": "0",
        "min.insync.replicas": "1",
        "producer.id.expiration.ms": "86400000",
        "retention.bytes": "-1",
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
        "segment.index.bytes": "10485760",
        "segment.jitter.ms": "0",
        "segment.ms": "604800000",
        "unclean.leader.election.enable": "false",
    }


def test_text_and_back():
    changed = {
        "cleanup.policy": "compact,delete",
        "segment.bytes": "104857600",
        "min.cleanable.dirty.ratio": "0.25",
        "unclean.leader.election.enable": "true",
        "compression.type": "zstd",
        "message.timestamp.type": "LogAppendTime",
    }
    config = LogConfig.from_configs(changed)
    assert {key: config.to_configs()[key] for key in changed} == changed
    assert LogConfig.from_configs(config.to_configs()) == config
    assert config.compacts
    assert config.deletes
    assert config.segment_bytes == 104857600
    assert config.target_codec == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("segment.bytes", "many"),
        ("segment.bytes", "-2147483649"),
        ("segment.bytes", "2147483648"),
        ("retention.ms", "-2"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", "delete;compact"),
        ("compression.type", "none"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("message.timestamp.type", "createtime"),
        ("unclean.leader.election.enable", "yes"),
        ("no.such.setting", "1"),
    ],
)
def test_errors_name_key_and_value(key, value):
    with pytest.raises(LogConfigError) as caught:
        LogConfig.from_configs({"retention.bytes": "5", key: value})
    assert key in str(caught.value)
    assert repr(value) in str(caught.value)


def test_every_setting_is_described():
    assert set(config_docs()) == set(LogConfig().to_configs())
    assert all(config_docs().values())


@pytest.mark.parametrize("size_bytes", ["2000", "1", "0", "-5"])
def test_a_size_that_is_set_for_tests_takes_the_place_of_segment_bytes(size_bytes):
    both = {"internal.segment.bytes": size_bytes, "segment.bytes": "1048576"}
    assert LogConfig.from_configs(both).segment_bytes == int(size_bytes)


def test_a_topic_may_have_no_cleanup_policy():
    config = LogConfig.from_configs({"cleanup.policy": ""})
    assert not config.compacts
    assert not config.deletes
    assert config.to_configs()["cleanup.policy"] == ""


@pytest.mark.parametrize(
    ("policy", "lag_ms", "most_ms"),
    [("compact", "10", 10), ("compact,delete", "10", 10), ("compact", "99", 50), ("delete", "10", 50), ("", "10", 50)],
)
def test_a_segment_becomes_as_old_as_its_compaction_may_wait(policy, lag_ms, most_ms):
    configs = {"cleanup.policy": policy, "max.compaction.lag.ms": lag_ms, "segment.ms": "50"}
    assert LogConfig.from_configs(configs).max_segment_ms == most_ms
