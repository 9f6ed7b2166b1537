"""DescribeConfigs: settings of topics, groups and this broker, their sources and their documentation (KIP-226, 569)."""

from __future__ import annotations

from collections.abc import Iterable

from actors.broker.context import BrokerContext
from actors.broker.handlers import broker_loggers
from actors.broker.handlers.authorization import DENIED, may
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.in_turns import Work, in_turns
from actors.broker.handlers.rights import DESCRIBE_CONFIGS_CLUSTER, DESCRIBE_CONFIGS_GROUP, DESCRIBE_CONFIGS_TOPIC
from actors.security.acl import CLUSTER_NAME
from actors.settings import (
    BrokerConfig,
    ConfigValue,
    broker_config_names,
    broker_config_value,
    client_metrics_config_value,
    client_metrics_settings,
    group_config_names,
    group_config_value,
    topic_config_names,
    topic_config_value,
)
from actors.wire.config_resources import ConfigResourceType
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeConfigsRequest, DescribeConfigsResponse
from placement.metadata import PLAINTEXT, Endpoint, topic_name_error

API = DescribeConfigsRequest
VERSIONS = (1, 4)

_RESOURCES_A_TURN = 20  # each has dozens of settings

Result = DescribeConfigsResponse.DescribeConfigsResult
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult
Resource = DescribeConfigsRequest.DescribeConfigsResource


def handle(context: HandlerContext, request: Request) -> ApiMessage | None:
    """Answered at once, unless it is about very many.

    A broker knows the settings of all topics, but of no other broker. A resource that is named twice is answered once:
    else a small request had a huge answer.
    """
    return in_turns(context, request, _work(context, request), failed)


def _work(context: HandlerContext, request: Request) -> Work:
    m: DescribeConfigsRequest = request.message
    once = {(each.resource_type, each.resource_name): each for each in reversed(m.resources)}
    results: list[Result] = []
    for number, resource in enumerate(reversed(once.values()), 1):
        results.append(_denied(context, request, resource) or _described(context, m, resource))
        if number % _RESOURCES_A_TURN == 0 and number < len(once):
            yield None
    return DescribeConfigsResponse(results=results)


def _denied(context: HandlerContext, request: Request, resource: Resource) -> Result | None:
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            right, name = DESCRIBE_CONFIGS_TOPIC, resource.resource_name
        case ConfigResourceType.GROUP:
            right, name = DESCRIBE_CONFIGS_GROUP, resource.resource_name
        case _:
            right, name = DESCRIBE_CONFIGS_CLUSTER, CLUSTER_NAME
    return None if may(context, request, right, name) else _refused(resource, DENIED[right.resource], None)


def _described(context: HandlerContext, m: DescribeConfigsRequest, resource: Resource) -> Result:
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            return _topic(context.broker, m, resource)
        case ConfigResourceType.BROKER:
            return _broker(context, m, resource)
        case ConfigResourceType.BROKER_LOGGER:
            return broker_loggers.described(context, resource)
        case ConfigResourceType.CLIENT_METRICS:
            return _client_metrics(m, resource)
        case ConfigResourceType.GROUP:
            return _group(context.broker, m, resource)
        case other:
            text = f"resource type {other} has no settings here: topic (2), broker (4), client metrics (16), group (32)"
            return _refused(resource, ErrorCode.INVALID_REQUEST, text)


def _topic(broker: BrokerContext, m: DescribeConfigsRequest, resource: Resource) -> Result:
    name = resource.resource_name
    if wrong := topic_name_error(name):
        return _refused(resource, ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    topic = broker.metadata.topics.get(name)
    if topic is None:
        return _refused(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    names = topic_config_names(topic.configs)
    values = (topic_config_value(key, topic.configs, broker.config) for key in _asked(resource, names))
    return _result(m, resource, values)


def _broker(context: HandlerContext, m: DescribeConfigsRequest, resource: Resource) -> Result:
    name = resource.resource_name
    if name == "":
        # The cluster-wide changes, and nothing that is merely a default.
        changed = context.broker.metadata.broker_configs.get("", {})
        config = BrokerConfig.from_mapping({}).with_dynamic(changed, changed)
        return _result(m, resource, (broker_config_value(key, config) for key in _asked(resource, changed)))
    if name != str(context.broker.broker_id):
        text = f"this is broker {context.broker.broker_id}: it knows no settings of broker {name!r}"
        return _refused(resource, ErrorCode.INVALID_REQUEST, text)
    names, running = broker_config_names(context.broker.config), _running(context)
    values = (broker_config_value(key, context.broker.config, running) for key in _asked(resource, names))
    return _result(m, resource, values)


def _running(context: HandlerContext) -> dict[str, str]:
    """Kafka's settings that are not in the table of settings here: who the broker is, and where it listens."""
    running = {
        "broker.id": str(context.broker.broker_id),
        "log.dirs": str(context.broker.data_dir.path),
        "node.id": str(context.broker.broker_id),
        "process.roles": "broker",
    }
    if context.clients.listening:
        running["listeners"] = _listeners(context.clients.listening)
    if (known := context.broker.metadata.brokers.get(context.broker.broker_id)) is not None:
        told = known.endpoints or (Endpoint(PLAINTEXT, known.host, known.port),)
        running["advertised.listeners"] = _listeners(told)
    return running


def _listeners(endpoints: Iterable[Endpoint]) -> str:
    hosts = ((each, f"[{each.host}]" if ":" in each.host else each.host) for each in endpoints)
    return ",".join(f"{each.listener}://{host}:{each.port}" for each, host in hosts)


def _group(broker: BrokerContext, m: DescribeConfigsRequest, resource: Resource) -> Result:
    if not resource.resource_name:
        return _refused(resource, ErrorCode.INVALID_REQUEST, "a group's name must not be empty")
    own = broker.metadata.group_configs.get(resource.resource_name, {})
    names = group_config_names(own)
    return _result(m, resource, (group_config_value(key, own, broker.config) for key in _asked(resource, names)))


def _client_metrics(m: DescribeConfigsRequest, resource: Resource) -> Result:
    if not resource.resource_name:
        return _refused(resource, ErrorCode.INVALID_REQUEST, "the name of a subscription must not be empty")
    values = (client_metrics_config_value(key) for key in _asked(resource, client_metrics_settings()))
    return _result(m, resource, values)


def _asked(resource: Resource, known: Iterable[str]) -> list[str]:
    """The keys to describe: all if the request names none. As in Kafka, unknown ones are left out."""
    wanted = resource.configuration_keys
    return [key for key in known if not wanted or key in wanted]


def _result(m: DescribeConfigsRequest, resource: Resource, values: Iterable[ConfigValue]) -> Result:
    return Result(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(m, value) for value in values],
    )


def _entry(m: DescribeConfigsRequest, value: ConfigValue) -> Entry:
    entry = Entry(
        name=value.name,
        value=value.value,
        read_only=value.read_only,
        config_source=value.source,
        is_sensitive=value.sensitive,
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
