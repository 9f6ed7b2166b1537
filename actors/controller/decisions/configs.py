"""Decisions about settings of topics, brokers and groups: AlterConfigs and IncrementalAlterConfigs (KIP-339).

Functions of the metadata and the tables of actors.settings; they apply nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from actors.controller.decisions.decision import Decision, NewId, RefusedError
from actors.controller.decisions.elections import eligible_forgotten
from actors.links.operations import AlterConfigs, AlteredConfigs, ChangedResource, ConfigChange, ResourceOutcome
from actors.settings import (
    ASSIGNMENT_INTERVAL,
    COMPACTION_LAGS,
    TOPIC_LAGS,
    BrokerConfig,
    Setting,
    SettingError,
    SettingType,
    broker_setting,
    check_assignment_interval,
    check_group_configs,
    check_lags,
    group_setting,
    group_value,
    parse_topic_configs,
    topic_setting,
    topic_value,
)
from actors.wire.config_resources import ConfigOperation, ConfigResourceType
from actors.wire.errors import ErrorCode
from placement.metadata import OFFSETS_TOPIC, ClusterMetadata
from placement.records import VERSIONED, BrokerConfigsRecord, GroupConfigsRecord, Record, TopicConfigsRecord

_MIN_INSYNC: Final = "min.insync.replicas"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

_FIXED: dict[int, str] = {
    ConfigResourceType.BROKER_LOGGER: "broker loggers (8) are changed by IncrementalAlterConfigs, at their broker",
    ConfigResourceType.CLIENT_METRICS: "clients' metrics are not collected, so there are no subscriptions to change",
}


def new_topic_configs(
    topic: str, given: Mapping[str, str | None], metadata: ClusterMetadata, config: BrokerConfig
) -> dict[str, str]:
    """The settings of a new topic, which are those given. Raises RefusedError (INVALID_CONFIG)."""
    nulls = sorted(key for key, value in given.items() if value is None)
    if nulls:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"a new topic's {', '.join(nulls)} cannot be null: leave it out")
    configs = {key: value for key, value in given.items() if value is not None}
    _check_topic_configs(topic, configs, metadata, config)
    return configs


def _check_topic_configs(
    topic: str,
    configs: Mapping[str, str],
    metadata: ClusterMetadata,
    config: BrokerConfig,
    present: Mapping[str, str] = _NOTHING,
) -> None:
    """Raises RefusedError (INVALID_CONFIG) if a topic cannot have these settings instead of the `present` ones.

    A setting that does not change is not refused: an older release may have allowed it.
    """
    changed = {key: text for key, text in configs.items() if present.get(key) != text}
    try:
        parsed = parse_topic_configs(changed)
        if not set(TOPIC_LAGS).isdisjoint(changed.keys() | (present.keys() - configs.keys())):
            brokers = config.with_dynamic(metadata.broker_configs.get("", {}))
            check_lags(*TOPIC_LAGS, {key: topic_value(key, configs, brokers) for key in TOPIC_LAGS})
    except SettingError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if topic == OFFSETS_TOPIC and "compact" not in parsed.get("cleanup.policy", ("compact",)):  # type: ignore[operator]
        raise RefusedError(
            ErrorCode.INVALID_CONFIG, f"cleanup.policy of {OFFSETS_TOPIC} must hold compact, or groups lose offsets"
        )


def alter_configs(metadata: ClusterMetadata, config: BrokerConfig, asked: AlterConfigs, new_id: NewId) -> Decision:
    """Change the settings of each resource, or refuse it."""
    times = Counter((resource.type, resource.name) for resource in asked.resources)
    results: list[ResourceOutcome] = []
    records: list[Record] = []
    for resource in asked.resources:
        key = (resource.type, resource.name)
        try:
            if times[key] > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"resource {key[1]!r} is named more than once")
            record = _change(metadata, config, resource)
        except RefusedError as refusal:
            results.append(ResourceOutcome(*key, int(refusal.code), str(refusal)))
            continue
        results.append(ResourceOutcome(*key, 0, None))
        if not asked.validate_only:
            records.append(record)
    if records and any(map(_may_lower_min_insync, asked.resources)):
        records = eligible_forgotten(metadata) + records
    return AlteredConfigs(tuple(results)), records


def _may_lower_min_insync(resource: ChangedResource) -> bool:
    return resource.replace or any(change.key == _MIN_INSYNC for change in resource.operations)


def _change(metadata: ClusterMetadata, config: BrokerConfig, resource: ChangedResource) -> Record:
    match resource.type:
        case ConfigResourceType.TOPIC:
            return _change_topic(metadata, config, resource)
        case ConfigResourceType.BROKER:
            return _change_broker(metadata, config, resource)
        case ConfigResourceType.GROUP:
            return _change_group(metadata, config, resource)
        case other:
            text = _FIXED.get(other, f"resource type {other} has no settings here: topic (2), broker (4), group (32)")
            raise RefusedError(ErrorCode.INVALID_REQUEST, text)


def _change_topic(metadata: ClusterMetadata, config: BrokerConfig, resource: ChangedResource) -> Record:
    name = resource.name
    topic = metadata.topics.get(name)
    if topic is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    present = dict(topic.configs)

    def value_of(key: str) -> Any:
        return topic_value(key, present, config)

    changed = _changed(present, resource, topic_setting, value_of)
    _check_topic_configs(name, changed, metadata, config, present)
    return TopicConfigsRecord(name, changed)


def _change_broker(metadata: ClusterMetadata, config: BrokerConfig, resource: ChangedResource) -> Record:
    name = resource.name
    if name and name not in map(str, metadata.brokers):
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"there is no broker {name!r}; an empty name stands for all brokers"
        )
    present = dict(metadata.broker_configs.get(name, {}))
    for change in resource.operations:
        setting = _known(broker_setting, change.key)
        _refuse_secret(setting, change)
        if not setting.dynamic:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, f"{change.key} is read-only while the broker runs: set it and restart"
            )
    everywhere = metadata.broker_configs.get("", {})
    before = {**everywhere, **present}
    changed = _changed(present, resource, broker_setting, config.with_dynamic(before).__getitem__)
    try:
        _check_broker_configs(config, before, {**everywhere, **changed})
    except SettingError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return BrokerConfigsRecord(name, changed)


def _check_broker_configs(config: BrokerConfig, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raises SettingError if brokers cannot change from these settings to those."""
    for key, text in after.items():
        if before.get(key) != text:
            broker_setting(key).parse(text)
    made = config.with_dynamic(after)
    if any(before.get(key) != after.get(key) for key in COMPACTION_LAGS):
        check_lags(*COMPACTION_LAGS, made)
    if before.get(ASSIGNMENT_INTERVAL) != after.get(ASSIGNMENT_INTERVAL):
        check_assignment_interval(made)


def _change_group(metadata: ClusterMetadata, config: BrokerConfig, resource: ChangedResource) -> Record:
    """A group need not exist to have settings."""
    name = resource.name
    if not name:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "a group's name must not be empty")
    if metadata.level < VERSIONED:
        text = f"metadata.version is {metadata.level}: settings of groups come with level {VERSIONED}"
        raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, text)
    brokers = config.with_dynamic(metadata.broker_configs.get("", {}))
    present = metadata.group_configs.get(name, _NOTHING)

    def value_of(key: str) -> Any:
        return group_value(key, present, brokers)

    changed = _changed(present, resource, group_setting, value_of)
    try:
        check_group_configs(changed, present, brokers)
    except SettingError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return GroupConfigsRecord(name, changed)


def _changed(
    present: Mapping[str, str],
    resource: ChangedResource,
    setting_of: Callable[[str], Setting],
    value_of: Callable[[str], Any],
) -> dict[str, str]:
    """The settings of one resource after its operations, not checked yet."""
    times = Counter(change.key for change in resource.operations)
    changed = {} if resource.replace else dict(present)
    for change in resource.operations:
        key, value = change.key, change.value
        if times[key] > 1:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{key} is changed more than once")
        match change.operation:
            case ConfigOperation.DELETE:
                changed.pop(key, None)
            case ConfigOperation.SET | ConfigOperation.APPEND | ConfigOperation.SUBTRACT if value is None:
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"{key} needs a value")
            case ConfigOperation.SET if value is not None:
                _refuse_secret(_known(setting_of, key), change)
                changed[key] = value
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT if value is not None:
                changed[key] = _list_change(_known(setting_of, key), change.operation, value, value_of)
            case other:
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"unknown operation {other} on {key}")
    return changed


def _refuse_secret(setting: Setting, change: ConfigChange) -> None:
    """Kafka keeps secrets in its metadata log, in clear text. Here they are in files, and are not sent around."""
    if setting.sensitive and change.operation != ConfigOperation.DELETE:
        text = f"{setting.name} is a secret, which cannot be set while brokers run: name a file that holds it instead"
        raise RefusedError(ErrorCode.INVALID_CONFIG, text)


def _known(setting_of: Callable[[str], Setting], key: str) -> Setting:
    try:
        return setting_of(key)
    except SettingError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _list_change(setting: Setting, operation: int, value: str, value_of: Callable[[str], Any]) -> str:
    if setting.type is not SettingType.LIST:
        text = f"{setting.name} is no list: it can be set, but nothing can be appended or subtracted"
        raise RefusedError(ErrorCode.INVALID_CONFIG, text)
    items = list(value_of(setting.name) or ())
    for item in map(str.strip, value.split(",")):
        if operation == ConfigOperation.SUBTRACT:
            items = [other for other in items if other != item]
        elif item not in items:
            items.append(item)
    return ",".join(items)
