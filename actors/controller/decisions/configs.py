"""What the controller decides about settings of topics and brokers: AlterConfigs and its incremental form (KIP-339).

Rules over the metadata and the tables of actors.settings; nothing is applied here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from actors.settings import (
    SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    Setting,
    SettingError,
    SettingType,
    parse_topic_configs,
    topic_value,
)
from actors.wire.errors import ErrorCode
from placement.metadata import OFFSETS_TOPIC, ClusterMetadata


class ResourceType(IntEnum):
    """What can have settings here, with Kafka's codes."""

    TOPIC = 2
    BROKER = 4


class Operation(IntEnum):
    """What an incremental change does to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class RefusedError(Exception):
    """Part of a request is refused: the code a client is told, and why."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def check_topic_configs(topic: str, configs: Mapping[str, str | None]) -> None:
    """Raises RefusedError (INVALID_CONFIG) if a topic cannot have these settings."""
    try:
        parsed = parse_topic_configs(configs)
    except SettingError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if topic == OFFSETS_TOPIC and "compact" not in parsed.get("cleanup.policy", ("compact",)):  # type: ignore[operator]
        raise RefusedError(
            ErrorCode.INVALID_CONFIG, f"cleanup.policy of {OFFSETS_TOPIC} must hold compact, or groups lose offsets"
        )


def alter_configs(
    metadata: ClusterMetadata, config: BrokerConfig, arguments: Mapping[str, Any], new_id: Callable[[], bytes]
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """{resources: [{type, name, replace, operations: [[key, op, value]]}], validate_only} -> one result a resource.

    `replace`: what is not named goes back to its default. A broker's name is its id, or "" for all brokers.
    """
    asked = arguments["resources"]
    times = Counter((resource["type"], resource["name"]) for resource in asked)
    results, records = [], []
    for resource in asked:
        key = (resource["type"], resource["name"])
        result = {"type": key[0], "name": key[1], "error_code": 0, "error_message": None}
        results.append(result)
        try:
            if times[key] > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"resource {key[1]!r} is named more than once")
            record = _change(metadata, config, resource)
        except RefusedError as refusal:
            result |= {"error_code": int(refusal.code), "error_message": str(refusal)}
            continue
        if not arguments.get("validate_only"):
            records.append(record)
    return results, records


def _change(metadata: ClusterMetadata, config: BrokerConfig, resource: Mapping[str, Any]) -> list[Any]:
    match resource["type"]:
        case ResourceType.TOPIC:
            return _change_topic(metadata, config, resource)
        case ResourceType.BROKER:
            return _change_broker(metadata, config, resource)
        case other:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, f"resource type {other} has no settings here: topic (2), broker (4)"
            )


def _change_topic(metadata: ClusterMetadata, config: BrokerConfig, resource: Mapping[str, Any]) -> list[Any]:
    name = resource["name"]
    topic = metadata.topics.get(name)
    if topic is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    present = dict(topic.configs)

    def value_of(key: str) -> Any:
        return topic_value(key, present, config)

    settings = {key: entry.setting for key, entry in TOPIC_SETTINGS.items()}
    changed = _changed(present, resource, settings, value_of)
    check_topic_configs(name, changed)
    return ["topic_configs", name, changed]


def _change_broker(metadata: ClusterMetadata, config: BrokerConfig, resource: Mapping[str, Any]) -> list[Any]:
    name = resource["name"]
    if name and not (name.isascii() and name.isdigit() and int(name) in metadata.brokers):
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"there is no broker {name!r}; an empty name stands for all brokers"
        )
    present = dict(metadata.broker_configs.get(name, {}))
    for key, *_ in resource["operations"]:
        if key in SETTINGS and not SETTINGS[key].dynamic:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, f"{key} is read-only while the broker runs: set it and restart"
            )
    changed = _changed(present, resource, dict(SETTINGS), config.__getitem__)
    try:
        config.with_dynamic({**metadata.broker_configs.get("", {}), **changed})
    except SettingError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return ["broker_configs", name, changed]


def _changed(
    present: Mapping[str, str],
    resource: Mapping[str, Any],
    settings: Mapping[str, Setting],
    value_of: Callable[[str], Any],
) -> dict[str, str]:
    """The settings after the operations of one resource, not yet checked."""
    times = Counter(key for key, *_ in resource["operations"])
    changed = {} if resource["replace"] else dict(present)
    for key, operation, value in resource["operations"]:
        if times[key] > 1:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{key} is changed more than once")
        match operation:
            case Operation.DELETE:
                changed.pop(key, None)
            case Operation.SET | Operation.APPEND | Operation.SUBTRACT if value is None:
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"{key} needs a value")
            case Operation.SET:
                changed[key] = value
            case Operation.APPEND | Operation.SUBTRACT:
                changed[key] = _list_change(settings.get(key), key, operation, value, value_of)
            case other:
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"unknown operation {other} on {key}")
    return changed


def _list_change(setting: Setting | None, key: str, operation: int, value: str, value_of: Callable[[str], Any]) -> str:
    if setting is None or setting.type is not SettingType.LIST:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"{key} is no list: values can be set, not appended or subtracted")
    items = list(value_of(key) or ())
    for item in filter(None, map(str.strip, value.split(","))):
        if operation == Operation.SUBTRACT:
            items = [other for other in items if other != item]
        elif item not in items:
            items.append(item)
    return ",".join(items)
