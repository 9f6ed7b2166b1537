"""A broker's loggers: their levels are seen and changed through the protocol, here and in its shards (KIP-412)."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.links.relay import PAYLOADS, ChangedLevels, Kind
from actors.runtime.log_levels import LEVELS, LogLevels
from actors.security.acl import AclOperation
from actors.wire.errors import ErrorCode
from actors.wire.messages import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from tests.support import acl_world
from tests.support.acls import CLUSTER, allowed
from tests.support.handler_helpers import Broker
from tests.support.runtime_helpers import until
from tests.support.shard_broker import shard
from tests.support.shard_world import world

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
INVALID, CONFIG, NOT_ALLOWED = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG, 31
HUB = "actors.broker.hub"
Change = tuple[str, int, str | None]
Resource = IncrementalAlterConfigsRequest.AlterConfigsResource


def levels_of(*names: str) -> LogLevels:
    """The loggers of a process that has these, and none of the process that tests."""
    manager = logging.Manager(logging.RootLogger(logging.INFO))
    for name in names:
        manager.getLogger(name)
    return LogLevels(manager)


def with_loggers(path: Path, **settings: str) -> Broker:
    broker = Broker(path, **settings)
    levels = levels_of(HUB, "actors.broker.server", "coterie.audit", "asyncio", "ray.worker")
    broker.handlers = replace(broker.handlers, log_levels=levels)
    return broker


def described(broker: Broker, name: str = "0", keys: list[str] | None = None) -> Any:
    asked = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=BROKER_LOGGER, resource_name=name, configuration_keys=keys
    )
    return broker.ask(DescribeConfigsRequest(resources=[asked], include_synonyms=True), 4).results[0]


def levels(broker: Broker) -> dict[str, str]:
    return {entry.name: entry.value for entry in described(broker).configs}


def resource(name: str, *changes: Change, kind: int = BROKER_LOGGER) -> Resource:
    made = IncrementalAlterConfigsRequest.AlterableConfig
    configs = [made(name=name, config_operation=operation, value=value) for name, operation, value in changes]
    return Resource(resource_type=kind, resource_name=name, configs=configs)


def altered(broker: Broker, *resources: Resource, validate_only: bool = False) -> list[int]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    answer = broker.ask(request, 1)
    asked = [(each.resource_type, each.resource_name) for each in resources]
    assert [(each.resource_type, each.resource_name) for each in answer.responses] == asked
    assert all(bool(each.error_message) == bool(each.error_code) for each in answer.responses)
    return [each.error_code for each in answer.responses]


def test_all_that_the_process_logs_is_described_and_nothing_else(tmp_path: Path) -> None:
    broker = with_loggers(tmp_path)
    result = described(broker)
    names = ["root", "actors", "actors.broker", HUB, "actors.broker.server", "asyncio", "coterie", "coterie.audit"]
    assert (result.error_code, result.error_message) == (0, None)
    assert {entry.name: entry.value for entry in result.configs} == dict.fromkeys(names, "INFO")
    for entry in result.configs:
        assert (entry.config_source, entry.read_only, entry.is_sensitive, entry.synonyms) == (6, False, False, [])
    assert [entry.name for entry in described(broker, keys=[HUB, "root", "nobody"]).configs] == ["root", HUB]
    assert len(described(broker, keys=[]).configs) == len(names)


@pytest.mark.parametrize("name", ["", "1", "-0x0", "x", " 0", "0 ", "99999999999"])
def test_a_broker_has_its_own_loggers_alone(tmp_path: Path, name: str) -> None:
    broker = with_loggers(tmp_path)
    result = described(broker, name)
    assert (result.error_code, result.configs, bool(result.error_message)) == (INVALID, [], True)
    assert altered(broker, resource(name, (HUB, SET, "DEBUG"))) == [INVALID]
    assert set(levels(broker).values()) == {"INFO"}


@pytest.mark.parametrize("name", ["00", "+0", "-0"])
def test_a_brokers_id_is_read_as_a_number(tmp_path: Path, name: str) -> None:
    broker = with_loggers(tmp_path)
    assert described(broker, name).error_code == 0
    assert altered(broker, resource(name, (HUB, SET, "DEBUG"))) == [0]
    assert levels(broker)[HUB] == "DEBUG"


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_is_set_and_deleted(tmp_path: Path, level: str) -> None:
    broker = with_loggers(tmp_path)
    before = levels(broker)
    assert altered(broker, resource("0", (HUB, SET, level))) == [0]
    assert levels(broker) == before | {HUB: level}
    assert altered(broker, resource("0", (HUB, DELETE, None))) == [0]
    assert levels(broker) == before
    assert broker.controller.operations == []


def test_what_inherits_follows_what_is_above_it(tmp_path: Path) -> None:
    broker = with_loggers(tmp_path)
    assert altered(broker, resource("0", ("actors.broker", SET, "DEBUG"), ("root", SET, "ERROR"))) == [0]
    found = levels(broker)
    assert (found[HUB], found["actors"], found["coterie.audit"], found["root"]) == ("DEBUG", "ERROR", "ERROR", "ERROR")
    assert altered(broker, resource("0", ("actors.broker", DELETE, "ignored"), (HUB, SET, "TRACE"))) == [0]
    found = levels(broker)
    assert (found[HUB], found["actors.broker.server"]) == ("TRACE", "ERROR")


WRONG: list[tuple[list[Change], int]] = [
    ([(HUB, SET, "debug")], CONFIG),
    ([(HUB, SET, "OFF")], CONFIG),
    ([(HUB, SET, "ALL")], CONFIG),
    ([(HUB, SET, "WARNING")], CONFIG),
    ([(HUB, SET, "")], CONFIG),
    ([(HUB, SET, None)], INVALID),
    ([("actors.broker.nobody", SET, "INFO")], CONFIG),
    ([("actors.broker.nobody", DELETE, None)], CONFIG),
    ([("ray.worker", SET, "INFO")], CONFIG),
    ([("", SET, "INFO")], CONFIG),
    ([("root", DELETE, None)], INVALID),
    ([(HUB, APPEND, "INFO")], INVALID),
    ([(HUB, SUBTRACT, "INFO")], INVALID),
    ([("actors.broker.nobody", APPEND, "INFO")], INVALID),
    ([(HUB, 9, "INFO")], INVALID),
    ([(HUB, 9, None)], INVALID),
    ([(HUB, SET, "DEBUG"), (HUB, SET, "DEBUG")], INVALID),
    ([(HUB, SET, "DEBUG"), ("actors.broker.nobody", SET, "DEBUG")], CONFIG),
    ([(HUB, SET, "DEBUG"), ("root", DELETE, None)], INVALID),
]


@pytest.mark.parametrize(("changes", "code"), WRONG)
def test_a_change_that_is_wrong_anywhere_changes_nothing(tmp_path: Path, changes: list[Change], code: int) -> None:
    broker = with_loggers(tmp_path)
    assert altered(broker, resource("0", *changes)) == [code]
    assert set(levels(broker).values()) == {"INFO"}


def test_a_change_that_is_only_tried_changes_nothing(tmp_path: Path) -> None:
    broker = with_loggers(tmp_path)
    assert altered(broker, resource("0", (HUB, SET, "DEBUG")), validate_only=True) == [0]
    assert altered(broker, resource("0", (HUB, SET, "LOUD")), validate_only=True) == [CONFIG]
    assert altered(broker, resource("0")) == [0]
    assert set(levels(broker).values()) == {"INFO"}


def test_loggers_are_changed_beside_what_the_controller_changes(tmp_path: Path) -> None:
    broker = with_loggers(tmp_path)
    broker.topic("t")
    topic = resource("t", ("retention.ms", SET, "5"), kind=TOPIC)
    missing = resource("nobody", ("retention.ms", SET, "5"), kind=TOPIC)
    assert altered(broker, missing, resource("0", (HUB, SET, "DEBUG")), topic, resource("1")) == [3, 0, 0, INVALID]
    assert levels(broker)[HUB] == "DEBUG"
    assert broker.metadata.topics["t"].configs == {"retention.ms": "5"}
    twice = [resource("0", (HUB, SET, "ERROR")), resource("0", (HUB, SET, "WARN"))]
    assert altered(broker, *twice, resource("00", ("asyncio", SET, "WARN"))) == [INVALID, INVALID, 0]
    assert (levels(broker)[HUB], levels(broker)["asyncio"]) == ("DEBUG", "WARN")


def test_the_request_that_replaces_settings_changes_no_loggers(tmp_path: Path) -> None:
    broker = with_loggers(tmp_path)
    change = AlterConfigsRequest.AlterableConfig(name=HUB, value="DEBUG")
    asked = AlterConfigsRequest.AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name="0", configs=[change])
    assert [each.error_code for each in broker.ask(AlterConfigsRequest(resources=[asked]), 2).responses] == [INVALID]
    assert set(levels(broker).values()) == {"INFO"}


def test_loggers_are_the_clusters_as_far_as_rights_go(tmp_path: Path) -> None:
    for rights, seen, changed in (
        ([], NOT_ALLOWED, NOT_ALLOWED),
        ([AclOperation.DESCRIBE_CONFIGS], 0, NOT_ALLOWED),
        ([AclOperation.ALTER_CONFIGS], 0, 0),
    ):
        broker = acl_world.World(tmp_path, [allowed(right, CLUSTER) for right in rights]).broker
        broker.handlers = replace(broker.handlers, log_levels=levels_of(HUB))
        assert described(broker).error_code == seen
        request = IncrementalAlterConfigsRequest(resources=[resource("0", (HUB, SET, "DEBUG"))])
        assert [each.error_code for each in broker.ask(request, 1).responses] == [changed]
        assert broker.handlers.log_levels.changed == ({} if changed else {HUB: logging.DEBUG})


# --- shards ---


def test_what_was_changed_is_said_to_the_shards(tmp_path: Path) -> None:
    broker = with_loggers(tmp_path)
    shards: Any = broker.shards
    altered(broker, resource("0", (HUB, SET, "DEBUG"), ("root", SET, "WARN")))
    altered(broker, resource("0", ("asyncio", SET, "ERROR")), validate_only=True)
    altered(broker, resource("0", (HUB, DELETE, None)))
    assert shards.log_levels == [{HUB: logging.DEBUG, "root": logging.WARNING}, {HUB: 0, "root": logging.WARNING}]


async def test_processes_that_are_there_and_those_to_come_have_the_brokers_levels(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        early = await w.spare()
        assert early.of(Kind.LOG_LEVELS) == []
        w.coordinators.set_log_levels({HUB: logging.DEBUG})
        late = await w.spare()
        for each in (early, late):
            _, _, payload = await each.hear(Kind.LOG_LEVELS)
            assert PAYLOADS.read(ChangedLevels, payload).levels == {HUB: logging.DEBUG}


async def test_a_shard_has_the_levels_of_its_broker_and_its_own_again_when_that_is_gone(tmp_path: Path) -> None:
    own = levels_of("actors.offsets_partition.process")
    before = own.shown()
    async with shard(tmp_path, log_levels=own) as (_, broker):
        changed = {"root": logging.WARNING, "actors.offsets_partition": logging.DEBUG, "actors.elsewhere": 5}
        broker.link.send(Kind.LOG_LEVELS, payload=PAYLOADS.encode(ChangedLevels(changed)))
        await until(lambda: own.changed == changed)
        assert own.shown()["actors.offsets_partition.process"] == "DEBUG"
        assert own.shown()["root"] == "WARN"
        broker.link.send(Kind.LOG_LEVELS, payload=PAYLOADS.encode(ChangedLevels({"root": logging.ERROR})))
        await until(lambda: own.shown()["actors.offsets_partition.process"] == "ERROR")
        broker.link.close()
        await until(lambda: own.changed == {})
        assert before.items() <= own.shown().items()
