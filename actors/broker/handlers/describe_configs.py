"""DescribeConfigs: settings of topics and of this broker, where each comes from and what it means (KIP-226, 569)."""

from __future__ import annotations

from collections.abc import Iterable

from actors.broker.context import BrokerContext, Request
from actors.settings import SETTINGS, TOPIC_SETTINGS, ConfigValue, broker_config_value, topic_config_value
from actors.settings.describe import Source
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeConfigsRequest, DescribeConfigsResponse
from placement.metadata import topic_name_error

API = DescribeConfigsRequest
VERSIONS = (1, 4)


Result = DescribeConfigsResponse.DescribeConfigsResult
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult
Resource = DescribeConfigsRequest.DescribeConfigsResource


def handle(context: BrokerContext, request: Request) -> DescribeConfigsResponse:
    """Answered at once; a broker knows the settings of every topic but, of brokers, only its own."""
    m: DescribeConfigsRequest = request.message
    return DescribeConfigsResponse(results=[_described(context, m, resource) for resource in m.resources])


def _described(context: BrokerContext, m: DescribeConfigsRequest, resource: Resource) -> Result:
    match resource.resource_type:
        case 2:
            return _topic(context, m, resource)
        case 4:
            return _broker(context, m, resource)
        case other:
            text = f"resource type {other} has no settings here: topic (2), broker (4)"
            return _refused(resource, ErrorCode.INVALID_REQUEST, text)


def _topic(context: BrokerContext, m: DescribeConfigsRequest, resource: Resource) -> Result:
    name = resource.resource_name
    if wrong := topic_name_error(name):
        return _refused(resource, ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    topic = context.metadata.topics.get(name)
    if topic is None:
        return _refused(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    values = (topic_config_value(key, topic.configs, context.config) for key in _asked(resource, TOPIC_SETTINGS))
    return _result(m, resource, values)


def _broker(context: BrokerContext, m: DescribeConfigsRequest, resource: Resource) -> Result:
    name = resource.resource_name
    if name == "":
        # The cluster-wide changes, and nothing that is merely a default.
        changed = context.metadata.broker_configs.get("", {})
        values = (broker_config_value(key, context.config) for key in _asked(resource, changed) if key in SETTINGS)
        return _result(m, resource, values, Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
    if name != str(context.broker_id):
        text = f"this is broker {context.broker_id}: it knows no settings of broker {name!r}"
        return _refused(resource, ErrorCode.INVALID_REQUEST, text)
    return _result(m, resource, (broker_config_value(key, context.config) for key in _asked(resource, SETTINGS)))


def _asked(resource: Resource, known: Iterable[str]) -> list[str]:
    """The keys to describe: all if none are named; those that do not exist are left out, as Kafka does."""
    wanted = resource.configuration_keys
    return [key for key in known if not wanted or key in wanted]


def _result(
    m: DescribeConfigsRequest, resource: Resource, values: Iterable[ConfigValue], source: Source | None = None
) -> Result:
    return Result(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(m, value, source or value.source) for value in values],
    )


def _entry(m: DescribeConfigsRequest, value: ConfigValue, source: Source) -> Entry:
    entry = Entry(
        name=value.name,
        value=value.value,
        read_only=value.read_only,
        config_source=source,
        config_type=value.type_code,
        documentation=value.doc if m.include_documentation else None,
    )
    if m.include_synonyms:
        entry.synonyms = [
            DescribeConfigsResponse.DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source)
            for s in value.synonyms
        ]
    return entry


def _refused(resource: Resource, code: ErrorCode, text: str | None) -> Result:
    return Result(
        error_code=code,
        error_message=text,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DescribeConfigsResponse:
    """The whole request refused."""
    assert isinstance(message, DescribeConfigsRequest)
    return DescribeConfigsResponse(results=[_refused(resource, code, text) for resource in message.resources])
