"""ListConfigResources: the topics, brokers and so on that have settings (KIP-714, KIP-1142)."""

from __future__ import annotations

from actors.broker.context import BrokerContext
from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.config_resources import ConfigResourceType
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, ListConfigResourcesRequest, ListConfigResourcesResponse

API = ListConfigResourcesRequest
VERSIONS = (0, 1)

Resource = ListConfigResourcesResponse.ConfigResource
_TYPES_FROM = 1  # version 0 was ListClientMetricsResources


def handle(context: HandlerContext, request: Request) -> ListConfigResourcesResponse:
    """Answered at once, from the last image. If no type is named: all of them."""
    m: ListConfigResourcesRequest = request.message
    types = m.resource_types if request.version >= _TYPES_FROM else [ConfigResourceType.CLIENT_METRICS]
    if not set(types) <= set(ConfigResourceType):
        return failed(m, request.version, ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            Resource(resource_name=name, resource_type=kind)
            for kind in ConfigResourceType
            if not types or kind in types
            for name in _names(context.broker, kind)
        ]
    )


def _names(broker: BrokerContext, kind: ConfigResourceType) -> list[str]:
    match kind:
        case ConfigResourceType.TOPIC:
            return sorted(broker.metadata.topics)
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return [str(broker.id) for broker in broker.metadata.alive()]
        case ConfigResourceType.GROUP:
            return sorted(broker.metadata.group_configs)
        case _:
            return []


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> ListConfigResourcesResponse:
    """The whole request refused."""
    return ListConfigResourcesResponse(error_code=code)
