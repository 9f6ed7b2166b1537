"""Settings that groups have for themselves, as librdkafka and raw requests set and read them: the same as in Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

from actors.wire.messages import (
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from tests.compat.peers import Peer
from tests.compat.raw import Raw
from tests.compat.support import ONE_PROCESS, against, wait_until

pytestmark = ONE_PROCESS

TIMEOUT_S = 60
GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"

brokers = against("kafka", "coterie")

Operation = tuple[str, int, str | None]
REFUSED: list[tuple[list[Operation], int]] = [
    ([("consumer.wings", SET, "1")], 40),
    ([(SESSION, SET, "soon")], 40),
    ([(SESSION, SET, "999")], 40),
    ([(SESSION, SET, "60001")], 40),
    ([(HEARTBEAT, SET, "15001")], 40),
    ([(INTERVAL, SET, "-1")], 40),
    ([(INTERVAL, SET, "15001")], 40),
    ([("share.session.timeout.ms", SET, "1")], 40),
    ([("streams.num.standby.replicas", SET, "9")], 40),
    ([(SESSION, APPEND, "1")], 40),
    ([(SESSION, SET, None)], 42),
    ([(SESSION, SET, "50000"), (SESSION, SET, "50001")], 42),
    ([(INTERVAL, SET, "1"), (SESSION, SET, "1")], 40),
]


def _altered(raw: Raw, group: str, *operations: Operation) -> int:
    r = IncrementalAlterConfigsRequest
    configs = [r.AlterableConfig(name=key, config_operation=code, value=value) for key, code, value in operations]
    resource = r.AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
    (answer,) = raw.call(r(resources=[resource]), 1).responses
    return int(answer.error_code)


def _described(raw: Raw, group: str) -> Any:
    r = DescribeConfigsRequest
    resource = r.DescribeConfigsResource(resource_type=GROUP, resource_name=group, configuration_keys=None)
    (answer,) = raw.call(r(resources=[resource], include_synonyms=True), 4).results
    return answer


def _entries(raw: Raw, group: str) -> dict[str, tuple[str, int, list[tuple[str, str, int]]]]:
    """The value, the source and the synonyms of each setting."""
    return {
        each.name: (each.value, each.config_source, [(s.name, s.value, s.source) for s in each.synonyms])
        for each in _described(raw, group).configs
    }


def _with_settings(raw: Raw) -> list[str]:
    answer = raw.call(ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    return [each.resource_name for each in answer.config_resources]


@pytest.fixture
def raw(kafka: Peer) -> Iterator[Raw]:
    with Raw(kafka.bootstrap_servers.partition(",")[0]) as connected:
        yield connected


@pytest.mark.conformance("K-B-113", "K-B-114")
@brokers
def test_a_change_that_a_group_cannot_have_is_refused_whole(kafka: Peer, name: str, raw: Raw) -> None:
    assert [(operations, _altered(raw, name, *operations)) for operations, _ in REFUSED] == REFUSED
    assert _altered(raw, "", (SESSION, SET, "50000")) == 42
    assert _described(raw, "").error_code == 42
    assert name not in _with_settings(raw)


@pytest.mark.conformance("K-B-113", "K-B-115")
@brokers
def test_a_group_that_does_not_exist_shows_its_settings_and_where_they_come_from(
    kafka: Peer, name: str, raw: Raw
) -> None:
    before = _entries(raw, name)
    assert len(before) == 21
    assert before[SESSION] == ("45000", 5, [(f"group.{SESSION}", "45000", 5)])
    assert _altered(raw, name, (SESSION, SET, "50000"), ("consumer.assignor.offload.enable", SET, "false")) == 0
    wait_until(lambda: name in _with_settings(raw), what="the group among those with settings")
    found = _entries(raw, name)
    assert found[SESSION] == ("50000", 8, [(SESSION, "50000", 8), (f"group.{SESSION}", "45000", 5)])
    assert found["consumer.assignor.offload.enable"][:2] == ("false", 8)
    assert {key: found[key] for key in before if key != SESSION} == {k: v for k, v in before.items() if k != SESSION}
    assert _altered(raw, name, (SESSION, DELETE, None), ("consumer.assignor.offload.enable", DELETE, None)) == 0
    wait_until(lambda: name not in _with_settings(raw), what="the group without settings")
    assert _entries(raw, name) == before


@pytest.mark.conformance("K-B-113", "K-B-115")
@brokers
def test_librdkafka_sets_and_reads_the_settings_of_a_group(kafka: Peer, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    entry = ConfigEntry(HEARTBEAT, "6000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ConfigResource.Type.GROUP, name, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(TIMEOUT_S)
    group = ConfigResource(ConfigResource.Type.GROUP, name)

    def told() -> Any:
        return admin.describe_configs([group])[group].result(TIMEOUT_S)[HEARTBEAT]

    wait_until(lambda: told().value == "6000", what="the setting")
    assert told().source == ConfigSource.GROUP_CONFIG.value
