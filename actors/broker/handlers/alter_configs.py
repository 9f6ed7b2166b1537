"""AlterConfigs: replaces all settings of a topic, broker or group, decided by the controller (KIP-133)."""

from __future__ import annotations

from actors.broker.handlers.altering import ask, refused
from actors.broker.handlers.context import HandlerContext, Request
from actors.links.operations import ConfigChange
from actors.wire.config_resources import ConfigOperation
from actors.wire.errors import ErrorCode
from actors.wire.messages import AlterConfigsRequest, AlterConfigsResponse, ApiMessage

API = AlterConfigsRequest
VERSIONS = (0, 2)


def handle(context: HandlerContext, request: Request) -> ApiMessage | None:
    """Settings that a resource does not name go back to their defaults."""
    return ask(context, request, AlterConfigsResponse, failed, _operations, replace=True)


def _operations(resource: AlterConfigsRequest.AlterConfigsResource) -> list[ConfigChange]:
    return [ConfigChange(config.name, ConfigOperation.SET, config.value) for config in resource.configs]


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> AlterConfigsResponse:
    """The whole request refused."""
    assert isinstance(message, AlterConfigsRequest)
    return refused(AlterConfigsResponse, message.resources, code, text)
