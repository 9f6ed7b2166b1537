"""IncrementalAlterConfigs: changes single settings, or items of lists (KIP-339), decided by the controller."""

from __future__ import annotations

from actors.broker.handlers.altering import ask, refused
from actors.broker.handlers.context import HandlerContext, Request
from actors.links.operations import ConfigChange
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

API = IncrementalAlterConfigsRequest
VERSIONS = (0, 1)


def handle(context: HandlerContext, request: Request) -> ApiMessage | None:
    """Settings that a resource does not name stay as they are."""
    return ask(context, request, IncrementalAlterConfigsResponse, failed, _operations, replace=False)


def _operations(resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> list[ConfigChange]:
    return [ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs]


def failed(
    message: ApiMessage, version: int, code: ErrorCode, text: str | None = None
) -> IncrementalAlterConfigsResponse:
    """The whole request refused."""
    assert isinstance(message, IncrementalAlterConfigsRequest)
    return refused(IncrementalAlterConfigsResponse, message.resources, code, text)
